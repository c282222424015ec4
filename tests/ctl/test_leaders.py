"""Who leads: soon known to have stopped, by clocks that differ, and never by mistake."""

import asyncio

from datetime import timedelta

import attrs
import pytest

from lbcf.ctl.leaders import CONTROLLER, leader_remedy, read_leaders
from lbcf.ctl.report import Mark, WhyReport
from lbcf.ctl.status import StatusReport
from lbcf.kube.client import KubeClient
from lbcf.kube.leader_election import Timing
from lbcf.kube.leases import LEASES, Lease, micro_time
from lbcf.runtime.clock import SystemClock
from tests.builders import a_meta
from tests.ctl.servers import put, run_command
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import TinyApi
from tests.monitoring.test_rules import RUNBOOKS


BOUND = timedelta(seconds=10)
"""From a leader's end to the end of the first `status` that says so."""
STARTING = timedelta(seconds=1)
"""What a `status` costs beside its looks; another one is begun when it has ended."""


@attrs.define
class Holder:
    """A leader that renews by period until it is killed, by a clock of its own.

    Attributes:
        killed_at: virtual seconds.
        ahead: how far its clock is ahead of that of whoever asks.
        pause: from one of its renewals to the next.
        reads: how often its Lease was read.
    """

    clock: VirtualClock
    killed_at: float = float("inf")
    ahead: timedelta = timedelta()
    pause: timedelta = Timing().renew
    reads: int = 0

    async def read(self) -> tuple[Lease, ...]:
        """Return its Lease, as the API server has it."""
        self.reads += 1
        timing, lived = Timing(), min(self.clock.monotonic(), self.killed_at)
        renewals = int(lived / self.pause.total_seconds())
        at = self.clock.now() - timedelta(seconds=self.clock.monotonic())
        renewed = at + renewals * self.pause + self.ahead
        duration = int(timing.duration.total_seconds())
        meta = attrs.evolve(a_meta(CONTROLLER), resource_version=str(renewals))
        return (Lease(meta, "pod-a", duration, 0, renewed),)


async def _named_after(holder: Holder) -> timedelta:
    """Ask again and again; return how long after its end a holder is named."""
    while True:
        await holder.clock.sleep(STARTING)
        [leader] = await read_leaders(holder.read, holder.clock)
        if not leader.is_alive:
            return timedelta(seconds=holder.clock.monotonic() - holder.killed_at)


@pytest.mark.parametrize("killed_at", [60 + tenth / 10 for tenth in range(22)])
def test_leader_that_was_killed_is_named_in_time(killed_at: float) -> None:
    """Wherever between two renewals its end was."""
    named = run_virtual(_named_after(Holder(VirtualClock(), killed_at)))

    assert timedelta(0) < named < BOUND


@pytest.mark.parametrize("ahead", [-14, -5, 0, 5, 14])
def test_leader_that_works_is_never_named(ahead: int) -> None:
    """However its clock differs from ours: it renews while it is watched."""
    holder = Holder(VirtualClock(), ahead=timedelta(seconds=ahead))

    with pytest.raises(TimeoutError):
        run_virtual(asyncio.wait_for(_named_after(holder), 120))


def test_leader_is_not_named_as_long_as_it_may_lead() -> None:
    """It renews just before it would have to give up, as where writes take seconds."""
    pause = Timing().renew_deadline - timedelta(seconds=0.1)
    holder = Holder(VirtualClock(), pause=pause)

    with pytest.raises(TimeoutError):
        run_virtual(asyncio.wait_for(_named_after(holder), 600))


def test_nobody_is_watched_whose_renewals_are_seen() -> None:
    """The answer comes at once where clocks agree."""
    holder = Holder(VirtualClock())

    with pytest.raises(TimeoutError):
        run_virtual(asyncio.wait_for(_named_after(holder), 60))
    assert 60 / STARTING.total_seconds() >= holder.reads


def test_remedy_leads_to_the_runbook_of_the_alert() -> None:
    """The pods of that process first, where its Lease is."""
    remedy = leader_remedy("lbcf-deregistrar", "ops")

    pods = "kubectl -n ops describe pods -l app.kubernetes.io/component=deregistrar"
    assert remedy.startswith(pods)
    anchor = remedy.partition("docs/runbooks.md#")[2]
    headings = RUNBOOKS.read_text().lower().splitlines()
    assert f"## {anchor}" in headings


def _led(*names: str) -> TinyApi:
    """Make a cluster in which these Leases are held, and others are nobody's of ours."""
    api, now = TinyApi(), micro_time(SystemClock().now())
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 7, "renewTime": now}
    for name in names:
        put(api, LEASES, {"metadata": {"name": name}, "spec": spec})
    # A node may have any name.
    node = {"name": "lbcf-controller-9", "namespace": "kube-node-lease"}
    put(api, LEASES, {"metadata": node, "spec": spec})
    lock = {"name": "addr-1", "labels": {"lbcf.tkestack.io/lock": "address"}}
    put(api, LEASES, {"metadata": lock, "spec": spec})
    return api


LEADERLESS = pytest.mark.parametrize(
    ("held", "missing"),
    [
        (["", "-1"], []),
        (["", "-2"], ["-1"]),
        (["-1", "-4"], ["", "-2", "-3"]),
        (["", "-31"], [f"-{number}" for number in range(1, 31)]),
        (["", "-32"], []),
    ],
)
"""Leases of the controller's shards: numbers of those held, and of those to be named."""


@LEADERLESS
async def test_shard_that_was_never_led_is_named_by_status(
    held: list[str], missing: list[str]
) -> None:
    """Also the first; those after it are looked at all the same, with one list."""
    api = _led("lbcf-deregistrar", *(f"{CONTROLLER}{number}" for number in held))
    api.requests.clear()
    _, [report] = await run_command(KubeClient(api), "status")

    assert isinstance(report, StatusReport)
    told = {one.subject: one for one in report.problems}
    assert [f"lease/{CONTROLLER}{number}" for number in missing] == [*told]
    assert all("nobody has led this shard yet" in p.message for p in told.values())
    assert 1 == sum("/leases" in request for request in api.requests)


@LEADERLESS
async def test_shard_that_was_never_led_is_named_by_check(
    held: list[str], missing: list[str]
) -> None:
    """As by status."""
    api = _led("lbcf-deregistrar", *(f"{CONTROLLER}{number}" for number in held))
    _, [report] = await run_command(KubeClient(api), "check")

    assert isinstance(report, WhyReport)
    [lines] = [part.lines for part in report.sections if part.title == "leaders"]
    told = [line for line in lines if line.mark is not Mark.OK]
    assert [f"{CONTROLLER}{number}" for number in missing] == [t.subject for t in told]
    assert all("nobody has led this shard yet" in line.text for line in told)
