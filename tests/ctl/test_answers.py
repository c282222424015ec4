"""What a command reads: of what is shared, the users everywhere, as far as we may."""

import asyncio
import io

from typing import Any

import pytest

from lbcf.ctl.drains import Drains
from lbcf.ctl.output import screen
from lbcf.ctl.reading import Reading
from lbcf.ctl.watching import follow_drains
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import DRIVERS, GROUPS, LOAD_BALANCERS
from lbcf.runtime.clock import SystemClock
from tests.builders import NAMESPACE
from tests.ctl.readings import printed, said
from tests.ctl.servers import Guarded, answered, put
from tests.e2e import objects
from tests.kube.tiny_api import TinyApi


def a_cluster() -> TinyApi:
    """Make a cluster with a shared load balancer and driver, which two groups use."""
    api = TinyApi()
    for resource, body, namespace in (
        (DRIVERS, objects.a_driver("http://x"), "kube-system"),
        (LOAD_BALANCERS, objects.a_load_balancer("lbcf-x", "lbcf-x"), "kube-system"),
        (GROUPS, objects.a_group("far", lbs=("lbcf-x",)), "far"),
        (GROUPS, objects.a_group("near", lbs=("lbcf-x",)), NAMESPACE),
    ):
        name = "lbcf-x" if resource is DRIVERS else body["metadata"]["name"]
        metadata: dict[str, Any] = {"name": name, "namespace": namespace}
        put(api, resource, {**body, "metadata": metadata})
    return api


def a_tenant(api: TinyApi, *namespaces: str) -> KubeClient:
    """Ask as somebody who may read in some namespaces alone."""
    own = tuple(f"/namespaces/{one}/" for one in namespaces)
    words = 'User "t" cannot list resource'

    def rule(_verb: str, path: str) -> tuple[int, str] | None:
        """Refuse all else."""
        return None if any(one in path for one in own) else (403, words)

    return KubeClient(Guarded(api, rule))


async def test_shared_objects_are_used_from_everywhere() -> None:
    """The namespaces of users are told."""
    client = KubeClient(a_cluster())
    _, [balancer] = await answered(client, "why", "lb/lbcf-x")
    _, [driver] = await answered(client, "why", "driver/lbcf-x")

    for report in (balancer, driver):
        assert () == report.unread
        assert "bg/far in far, bg/near in shop\n" in printed(report)


async def test_who_may_not_look_everywhere_is_told_that_this_is_not_all() -> None:
    """With the right that is missing; the own namespace is answered for."""
    client = a_tenant(a_cluster(), NAMESPACE, "kube-system")
    _, [balancer] = await answered(client, "why", "lb/lbcf-x")
    _, [driver] = await answered(client, "why", "driver/lbcf-x")

    right = "may not list backendgroups.lbcf.tkestack.io in all namespaces"
    for report in (balancer, driver):
        assert "NotRead" in {reason for _, _, reason in said(report)}
        assert "bg/near in shop\n" in printed(report)
        assert right in report.unread


async def test_drains_that_are_no_longer_told_of_are_said_to_be_so() -> None:
    """Somebody may list records and not watch them: what is shown gets old."""
    words = 'User "t" cannot watch resource'
    client = KubeClient(
        Guarded(
            TinyApi(), lambda _, path: (403, words) if path.endswith("?watch") else None
        )
    )
    shown: asyncio.Queue[Any] = asyncio.Queue()
    reading = Reading(client, NAMESPACE)
    watching = asyncio.create_task(
        follow_drains(reading, SystemClock(), shown.put_nowait, ticks=False)
    )
    try:
        async with asyncio.timeout(60):
            while not (told := (await shown.get()).unread):
                pass
    finally:
        watching.cancel()
        await asyncio.wait([watching])

    assert ("may not watch backendrecords.lbcf.tkestack.io in namespace shop",) == told


async def test_end_of_a_pipe_ends_the_watch() -> None:
    """As it ends every other command, and not as a fault of ours."""

    def nobody_reads(_report: object) -> None:
        """Fail as a pipe does that nobody reads."""
        raise BrokenPipeError

    reading = Reading(KubeClient(TinyApi()), NAMESPACE)
    with pytest.raises(BrokenPipeError):
        await follow_drains(reading, SystemClock(), nobody_reads, ticks=False)


@pytest.mark.parametrize("output", ["json", "table"])
def test_pipe_hears_of_changes_at_once(
    output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads it need not wait for a full buffer."""
    pipe = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(pipe))
    with screen(output) as show:
        show(Drains(NAMESPACE, ()))

        assert pipe.getvalue()
