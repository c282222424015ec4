"""The elector: one leader at a time, whatever fails.

Aspects: first come, take-over, deadline, lost answers, slow and varying answers, silence,
dead connections, strangers, worker and renewer end together, release at the end, exit where the work does
not stop. Virtual time; the last tests are on a real API server.
"""

import asyncio
import copy
import gc
import random

from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from typing import cast

import attrs
import msgspec
import pytest
import structlog.testing

from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Unavailable
from lbcf.kube.leader_election import LeaderElector, LeadershipLostError, Timing
from lbcf.kube.leases import LEASES, Lease
from lbcf.kube.requests import ApiRequest
from lbcf.kube.shard_election import ShardElector
from lbcf.runtime.clock import Clock, SystemClock
from lbcf.runtime.journal import Predecessor
from lbcf.runtime.process_identity import ProcessIdentity, ProcessWitness
from lbcf.runtime.tasks import note_error
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import Fault, Json, TinyApi


PATH = "/apis/coordination.k8s.io/v1/namespaces/shop/leases/lbcf"
FIRST = timedelta(hours=1)


def seconds(number: float) -> timedelta:
    """Spell a length of time."""
    return timedelta(seconds=number)


class SlowApi(TinyApi):
    """Takes its time for each write, and makes it whatever becomes of its sender.

    Args:
        seconds: until the answer.
        stores_first: a write is stored, or refused, at once; otherwise just before its answer.

    Attributes:
        seconds: until the answer, for what is sent from now on.
        loses_every: one answer of so many is lost; 0: none.
        sent: seconds at which writes were sent.
    """

    def __init__(self, seconds: float, *, stores_first: bool) -> None:
        super().__init__()
        self.seconds = seconds
        self._stores_first = stores_first
        self.loses_every = 0
        self.sent: list[float] = []

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Carry a request out; what it is waited for decides nothing."""
        if self.fault is not None or request.method == "GET":
            return await super().send(request, within)
        self.sent.append(asyncio.get_running_loop().time())
        is_lost = self.loses_every and not len(self.sent) % self.loses_every
        writing = asyncio.create_task(self._write(request))
        writing.add_done_callback(note_error)
        limit = within.total_seconds() if within else None
        done, _ = await asyncio.wait({writing}, timeout=limit)
        if not done:
            raise Unavailable(f"{request}: no answer", sent=None)
        if is_lost:
            raise Unavailable(f"{request}: cut", sent=None)
        return writing.result()

    async def _write(self, request: ApiRequest) -> bytes:
        if self._stores_first:
            answer = self.perform(request)
            await asyncio.sleep(self.seconds)
            return answer
        await asyncio.sleep(self.seconds)
        return self.perform(request)


class VaryingApi(SlowApi):
    """Takes another time for each write, and stores it at any moment of that.

    Args:
        chance: draws both.
        takes: draws the seconds until the answer.
    """

    def __init__(
        self, chance: random.Random, takes: Callable[[random.Random], float]
    ) -> None:
        super().__init__(0, stores_first=False)
        self._chance, self._takes = chance, takes

    async def _write(self, request: ApiRequest) -> bytes:
        seconds = self._takes(self._chance)
        stored = self._chance.uniform(0, seconds)
        await asyncio.sleep(stored)
        answer = self.perform(request)
        await asyncio.sleep(seconds - stored)
        return answer


class SilentApi(SlowApi):
    """Answers nothing for a while, be it asked before that or meanwhile.

    Args:
        seconds: until the answer of a write at other times.
        manner: of its silence: requests are `refused`, or `lost`, or answered `afterwards`.

    Attributes:
        silence: the seconds at which that begins and ends.
    """

    def __init__(self, seconds: float, manner: str) -> None:
        super().__init__(seconds, stores_first=True)
        self._manner = manner
        self.silence = (0.0, 0.0)

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Carry a request out, or be silent."""
        now, (begin, end) = asyncio.get_running_loop().time(), self.silence
        if now >= end or now + self.seconds <= begin:
            return await super().send(request, within)
        self.sent.append(now)
        if self._manner == "afterwards":
            answer = self.perform(request)
            left = self.seconds - max(begin - now, 0.0)
            await asyncio.sleep(end - now + left)
            return answer
        if self._manner == "lost":
            await asyncio.sleep(within.total_seconds() if within else 30)
        raise Unavailable(f"{request}: no answer", sent=None)


class DeadConnection(TinyApi):
    """Answers nothing on the connection of a request that is sent when told so.

    Attributes:
        is_dead: the next request is not answered; those beside it, and after it, are.
    """

    is_dead = False

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Carry a request out, or let it hang."""
        if not self.is_dead:
            return await super().send(request, within)
        self.is_dead = False
        await asyncio.sleep(within.total_seconds() if within else 30)
        raise Unavailable(f"{request}: no answer", sent=None)


@attrs.define
class Stage:
    """An API server, and what candidates do on it.

    Attributes:
        told: names of workers as they begin (`+`) and end (`-`), with exits (`!`).
        refused: set when the leader's machine refuses connections to it.
    """

    api: TinyApi = attrs.Factory(TinyApi)
    refused: asyncio.Event = attrs.Factory(asyncio.Event)
    clock: VirtualClock = attrs.Factory(VirtualClock)
    told: list[str] = attrs.Factory(list)

    def elector(
        self, name: str, witness: ProcessWitness | None = None
    ) -> LeaderElector:
        """Make a candidate."""
        return LeaderElector(
            KubeClient(self.api),
            name="lbcf",
            namespace="shop",
            identity=name,
            clock=self.clock,
            exit_now=lambda _code: self.told.append(f"!{name}"),
            witness=witness,
            until_refused=self.until_refused,
        )

    async def until_refused(self, host: str, _port: int, _clock: Clock) -> None:
        """Wait for the end of the one leader that has an address."""
        assert "198.18.0.1" == host
        await self.refused.wait()

    def working(
        self, name: str, ending: timedelta = timedelta(0)
    ) -> Callable[[], Awaitable[None]]:
        """Make a worker that works until it is cancelled, and then winds up."""

        async def work() -> None:
            self.told.append(f"+{name}")
            try:
                await self.clock.sleep(FIRST)
            finally:
                await self.clock.sleep(ending)
                self.told.append(f"-{name}")

        return work

    def start(
        self,
        name: str,
        ending: timedelta = timedelta(0),
        witness: ProcessWitness | None = None,
        between: Callable[[], Awaitable[object]] | None = None,
    ) -> asyncio.Task[None]:
        """Run a candidate; something may happen between its first look and the rest."""
        elector = self.elector(name, witness)

        async def run() -> None:
            await elector.look_for_ended()
            if between is not None:
                await between()
            await elector.run(self.working(name, ending))

        return asyncio.create_task(run())

    async def kill(self, leader: asyncio.Task[None]) -> None:
        """End a leader in a way that leaves the Lease as it stands: nothing is released."""
        await asyncio.sleep(0.1)
        left = copy.deepcopy(self.api.objects[PATH])
        await ended(leader)
        now, then = self.api.objects[PATH], cast("Json", left["metadata"])
        now["spec"] = left["spec"]
        cast("Json", now["metadata"])["annotations"] = then.get("annotations")

    async def name_that_leads(self, holder: str) -> str:
        """Return the name under which a process leads, once it does."""
        while self.holder() != holder:  # noqa: ASYNC110 - the API server tells nobody
            await asyncio.sleep(0.1)
        key = ObjectKey("shop", "lbcf")
        return (await KubeClient(self.api).get(LEASES, key)).incarnation

    @property
    def lease(self) -> Json:
        """Return the Lease's spec."""
        return cast("Json", self.api.objects[PATH]["spec"])

    def holder(self) -> object:
        """Return who the Lease says has it."""
        return self.lease["holderIdentity"]


@attrs.frozen
class Witness:
    """Knows of some processes that they have ended.

    Attributes:
        pid: of the process itself.
        ended: the pids of those that have ended.
        host: where the process itself is reached.
    """

    pid: int
    ended: AbstractSet[int] = frozenset()
    host: str = ""

    @property
    def own(self) -> ProcessIdentity:
        """Return the identity of the process."""
        return ProcessIdentity("boot", 1, self.pid, 100, host=self.host)

    def has_ended(self, other: ProcessIdentity) -> bool:
        """Tell of those that are known."""
        return other.pid in self.ended


@pytest.fixture(name="stage")
def _stage() -> Stage:
    """An empty API server."""
    return Stage()


async def ended(task: asyncio.Task[None]) -> BaseException | None:
    """Cancel a task, wait for it, and return what it raised."""
    task.cancel()
    return (await asyncio.gather(task, return_exceptions=True))[0]


class TestElection:
    """Who leads."""

    def test_first_creates_the_lease(self, stage: Stage) -> None:
        """The Lease says who holds it, in the API's own form of time."""

        async def main() -> None:
            task = stage.start("one")
            await asyncio.sleep(1)
            expected = {
                "holderIdentity": "one",
                "leaseDurationSeconds": 7,
                "acquireTime": "2026-01-01T00:00:00.000000Z",
                "renewTime": "2026-01-01T00:00:00.000000Z",
                "leaseTransitions": 0,
            }
            assert expected == stage.lease
            await ended(task)

        run_virtual(main())

    def test_second_waits_as_long_as_the_first_renews(self, stage: Stage) -> None:
        """Renewals keep the lead for ever."""

        async def main() -> None:
            one = stage.start("one")
            await asyncio.sleep(0.1)
            two = stage.start("two")
            await asyncio.sleep(600)
            assert ["+one"] == stage.told
            await ended(two)
            await ended(one)

        run_virtual(main())

    def test_silent_leader_is_replaced(self, stage: Stage) -> None:
        """A Lease that nobody renews is taken just after its whole duration."""

        async def main() -> None:
            dead = stage.start("dead")
            await asyncio.sleep(0.1)
            spec = dict(stage.lease)
            await ended(dead)
            stage.api.objects[PATH]["spec"] = spec
            two = stage.start("two")
            await asyncio.sleep(6.99)
            assert "dead" == stage.holder()
            await asyncio.sleep(0.02)
            assert "two" == stage.holder()
            assert 1 == stage.lease["leaseTransitions"]
            await ended(two)

        run_virtual(main())

    def test_times_of_the_lease_do_not_matter(self, stage: Stage) -> None:
        """A leader whose clock is years behind keeps the lead."""

        async def main() -> None:
            one = stage.start("one")
            await asyncio.sleep(0.1)
            two = stage.start("two")
            for _ in range(60):
                await asyncio.sleep(1)
                stage.lease["renewTime"] = "2001-01-01T00:00:00.000000Z"
            assert ["+one"] == stage.told
            await ended(two)
            await ended(one)

        run_virtual(main())

    def test_released_lease_is_taken_at_once(self, stage: Stage) -> None:
        """After a clean end the next one waits for one retry, not for the duration."""

        async def main() -> None:
            one = stage.start("one")
            await asyncio.sleep(0.1)
            two = stage.start("two")
            await asyncio.sleep(10)
            await ended(one)
            await asyncio.sleep(3)
            assert ["+one", "-one", "+two"] == stage.told
            await ended(two)

        run_virtual(main())

    def test_leader_that_was_killed_is_replaced_in_its_place_at_once(
        self, stage: Stage
    ) -> None:
        """Whoever knows that the holder's process has ended does not wait."""

        async def main() -> None:
            await stage.kill(stage.start("dead", witness=Witness(1)))
            two = stage.start("two", witness=Witness(2, ended=frozenset({1})))
            await asyncio.sleep(0.1)
            assert "two" == stage.holder()
            await ended(two)

        run_virtual(main())

    def test_leader_that_may_live_is_waited_for(self, stage: Stage) -> None:
        """A holder of which nothing is known, or that runs, keeps its whole duration."""

        async def main() -> None:
            one = stage.start("one", witness=Witness(1))
            await asyncio.sleep(0.1)
            two = stage.start("two", witness=Witness(2, ended=frozenset({3})))
            await asyncio.sleep(60)
            assert ["+one"] == stage.told
            await ended(two)
            await ended(one)

        run_virtual(main())

    def test_leader_elsewhere_that_listens_no_more_is_replaced(
        self, stage: Stage
    ) -> None:
        """Its machine refuses connections: the Lease's duration is not waited for."""

        async def main() -> None:
            dead = stage.start("dead", witness=Witness(1, host="198.18.0.1"))
            await asyncio.sleep(0.1)
            two = stage.start("two", witness=Witness(2))
            await asyncio.sleep(60)
            assert ["+dead"] == stage.told
            await stage.kill(dead)
            stage.refused.set()
            await asyncio.sleep(0.1)
            assert "two" == stage.holder()
            await ended(two)

        run_virtual(main())

    def test_who_begins_in_the_place_of_a_dead_leader_keeps_its_name(
        self, stage: Stage
    ) -> None:
        """And so does who begins in that one's place: records go on naming the first."""

        async def main() -> None:
            await stage.kill(stage.start("dead", witness=Witness(1)))
            two = stage.start("two", witness=Witness(2, ended=frozenset({1})))
            assert "dead" == await stage.name_that_leads("two")
            await stage.kill(two)
            three = stage.start("three", witness=Witness(3, ended=frozenset({2})))
            assert "dead" == await stage.name_that_leads("three")
            await ended(three)
            four = stage.start("four", witness=Witness(4, ended=frozenset({3})))
            assert "four" == await stage.name_that_leads("four")
            await ended(four)

        run_virtual(main())

    def test_name_of_a_leader_that_was_dead_too_late_is_not_kept(
        self, stage: Stage
    ) -> None:
        """It lived when the candidate began to read: it may have done things unseen."""

        async def main() -> None:
            one = stage.start("one", witness=Witness(1))
            await asyncio.sleep(0.1)
            dead: set[int] = set()
            two = stage.start("two", witness=Witness(2, ended=dead))
            await asyncio.sleep(1)
            await stage.kill(one)
            dead.add(1)
            assert "two" == await stage.name_that_leads("two")
            await ended(two)

        run_virtual(main())

    def test_name_of_a_leader_before_the_last_is_not_kept(self, stage: Stage) -> None:
        """Whoever led in between may have written the name of its own into records."""

        async def main() -> None:
            await stage.kill(stage.start("dead", witness=Witness(1)))

            async def lead_in_between() -> None:
                other = stage.start("other", witness=Witness(9, ended=frozenset({1})))
                assert "dead" == await stage.name_that_leads("other")
                await stage.kill(other)

            two = stage.start(
                "two",
                witness=Witness(2, ended=frozenset({1, 9})),
                between=lead_in_between,
            )
            assert "two" == await stage.name_that_leads("two")
            await ended(two)

        run_virtual(main())

    def test_name_is_not_kept_where_the_lease_had_to_be_created(self) -> None:
        """Nobody knows who led before somebody deleted it."""

        class Deleted(TinyApi):
            """Has no Lease any more as soon as `two` writes it."""

            def perform(self, request: ApiRequest, *, at: int | None = None) -> bytes:
                """Carry a request out."""
                if request.method == "PATCH" and b'"two"' in (request.body or b""):
                    self.objects.pop(PATH, None)
                return super().perform(request, at=at)

        stage = Stage(Deleted())

        async def main() -> None:
            await stage.kill(stage.start("dead", witness=Witness(1)))
            two = stage.start("two", witness=Witness(2, ended=frozenset({1})))
            await asyncio.sleep(1)
            assert "two" == await stage.name_that_leads("two")
            await ended(two)

        run_virtual(main())

    def test_name_is_not_kept_that_the_lease_does_not_tell(self) -> None:
        """Of two writes the first one was made, which knew nothing of the holder's end."""
        dead: set[int] = set()

        class Late(TinyApi):
            """Makes the first write of `two` only just before its second one."""

            kept: ApiRequest | None = None

            def perform(self, request: ApiRequest, *, at: int | None = None) -> bytes:
                """Carry a request out."""
                is_write = request.method == "PATCH"
                if is_write and b'"two"' in (request.body or b"") and not dead:
                    dead.add(1)
                    self.kept = request
                    raise Unavailable(f"{request}: cut", sent=None)
                kept = self.kept if is_write else None
                if kept is not None:
                    self.kept = None
                    super().perform(kept)
                return super().perform(request, at=at)

        stage = Stage(Late())

        async def main() -> None:
            await stage.kill(stage.start("dead", witness=Witness(1)))
            elector = LeaderElector(
                KubeClient(stage.api),
                name="lbcf",
                namespace="shop",
                identity="two",
                clock=stage.clock,
                witness=Witness(2, ended=dead),
                reads_later=True,
            )
            two = asyncio.create_task(elector.run(stage.working("two")))
            while "+two" not in stage.told:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(1)
            assert elector.predecessor is None
            assert "two" == await stage.name_that_leads("two")
            await ended(two)

        run_virtual(main())

    def test_what_an_annotation_says_of_an_earlier_holder_is_void(
        self, stage: Stage
    ) -> None:
        """A version that writes no annotation leads while its predecessor's stays."""

        async def main() -> None:
            await stage.kill(stage.start("dead", witness=Witness(1)))
            stage.lease["holderIdentity"] = "older"
            two = stage.start("two", witness=Witness(2, ended=frozenset({1})))
            await asyncio.sleep(6.9)
            assert "older" == stage.holder()
            await ended(two)

        run_virtual(main())

    def test_own_lost_answer_is_no_obstacle(self, stage: Stage) -> None:
        """A create that was carried out unseen is found and used."""

        async def main() -> None:
            stage.api.fault = Fault.UNANSWERED
            one = stage.start("one")
            await asyncio.sleep(1)
            stage.api.fault = None
            await asyncio.sleep(3)
            assert ["+one"] == stage.told
            assert 0 == stage.lease["leaseTransitions"]
            await ended(one)

        run_virtual(main())

    def test_unreachable_server_is_asked_again(self, stage: Stage) -> None:
        """Nobody leads without having written so; nobody gives up either."""

        async def main() -> None:
            stage.api.fault = Fault.UNSENT
            one = stage.start("one")
            await asyncio.sleep(100)
            assert [] == stage.told
            stage.api.fault = None
            await asyncio.sleep(3)
            assert ["+one"] == stage.told
            await ended(one)

        run_virtual(main())


class TestLoss:
    """How a lead ends that should have gone on."""

    @pytest.mark.parametrize("fault", [Fault.UNSENT, Fault.STALLED])
    def test_worker_has_ended_before_the_lease(
        self, stage: Stage, fault: Fault
    ) -> None:
        """Without renewals the work is cancelled at the deadline."""

        async def main() -> None:
            one = stage.start("one", ending=seconds(0.5))
            await asyncio.sleep(1)
            stage.api.fault = fault
            await asyncio.sleep(6)
            assert ["+one", "-one"] == stage.told
            with pytest.raises(LeadershipLostError, match="no renewal within"):
                await one

        run_virtual(main())

    def test_work_that_does_not_stop_ends_the_process(self, stage: Stage) -> None:
        """Before anybody else can lead, by an exit that nothing can delay."""

        async def main() -> None:
            one = stage.start("one", ending=seconds(60))
            await asyncio.sleep(1)
            stage.api.fault = Fault.UNSENT
            await asyncio.sleep(6)
            assert ["+one", "!one"] == stage.told
            await asyncio.gather(one, return_exceptions=True)

        run_virtual(main())

    def test_stalled_process_exits_when_it_wakes(self, stage: Stage) -> None:
        """A process that was paused for longer than the Lease does not work on."""

        async def main() -> None:
            one = stage.start("one", ending=seconds(60))
            await asyncio.sleep(1)
            stage.clock.advance(seconds(100))
            await asyncio.sleep(14)
            assert "!one" in stage.told
            await asyncio.gather(one, return_exceptions=True)

        run_virtual(main())

    def test_short_outage_is_lived_through(self, stage: Stage) -> None:
        """Several attempts fit before the deadline."""

        async def main() -> None:
            one = stage.start("one")
            for fault in (Fault.UNSENT, Fault.STALLED, Fault.UNANSWERED) * 3:
                await asyncio.sleep(30)
                stage.api.fault = fault
                await asyncio.sleep(3)
                stage.api.fault = None
            await asyncio.sleep(30)
            assert ["+one"] == stage.told
            await ended(one)

        run_virtual(main())

    def test_renewal_that_fails_is_soon_made_again(self, stage: Stage) -> None:
        """Nobody is reached for three seconds, whenever that begins."""

        async def main() -> None:
            one = stage.start("one")
            for _ in range(20):
                await asyncio.sleep(30.13)
                stage.api.fault = Fault.UNSENT
                await asyncio.sleep(3)
                stage.api.fault = None
            assert ["+one"] == stage.told
            await ended(one)

        run_virtual(main())

    def test_strangers_change_does_not_matter(self, stage: Stage) -> None:
        """A label put on the Lease is a conflict, but no loss."""

        async def main() -> None:
            one = stage.start("one")
            client = KubeClient(stage.api)
            for _ in range(20):
                await asyncio.sleep(7)
                labelled = {"metadata": {"labels": {"x": "y"}}}
                await client.patch(LEASES, ObjectKey("shop", "lbcf"), labelled)
            assert ["+one"] == stage.told
            await ended(one)

        run_virtual(main())

    @pytest.mark.parametrize("taken", [True, False], ids=["taken", "deleted"])
    def test_lease_in_other_hands_is_lost(self, stage: Stage, *, taken: bool) -> None:
        """Another holder, or no Lease at all, ends the work at the next renewal."""

        async def main() -> None:
            one = stage.start("one")
            await asyncio.sleep(1)
            client, key = KubeClient(stage.api), ObjectKey("shop", "lbcf")
            if taken:
                await client.patch(LEASES, key, {"spec": {"holderIdentity": "two"}})
            else:
                await client.delete(LEASES, key)
            await asyncio.sleep(3)
            assert ["+one", "-one"] == stage.told
            with pytest.raises(LeadershipLostError):
                await one
            if taken:
                # It only looked: what is another's is not released either.
                assert "two" == stage.holder()
                assert stage.api.requests[-1].startswith("GET")

        run_virtual(main())


@pytest.mark.parametrize("stores_first", [True, False], ids=["stored", "queued"])
@pytest.mark.parametrize("takes", [1.3, 3])
class TestSlowWrites:
    """An API server that answers writes of Leases late, for hours."""

    def test_lone_candidate_leads_and_keeps_the_lead(
        self, takes: float, *, stores_first: bool
    ) -> None:
        """Two answers after its start, and for as long as it works."""
        stage = Stage(SlowApi(takes, stores_first=stores_first))

        async def main() -> None:
            one = stage.start("one")
            await asyncio.sleep(2 * takes + 0.1)
            assert ["+one"] == stage.told
            await asyncio.sleep(600)
            assert ["+one"] == stage.told
            await ended(one)
            assert "" == stage.holder()

        run_virtual(main())

    def test_of_two_candidates_one_leads(
        self, takes: float, *, stores_first: bool
    ) -> None:
        """They come at once; the other follows when the Lease is released."""
        stage = Stage(SlowApi(takes, stores_first=stores_first))

        async def main() -> None:
            tasks = {name: stage.start(name) for name in ("one", "two")}
            await asyncio.sleep(4 * takes)
            [told] = stage.told
            first = told.removeprefix("+")
            [second] = tasks.keys() - {first}
            await asyncio.sleep(600)
            assert [f"+{first}"] == stage.told
            await ended(tasks[first])
            await asyncio.sleep(2 * takes + 1)
            assert [f"+{first}", f"-{first}", f"+{second}"] == stage.told
            await ended(tasks[second])

        run_virtual(main())

    def test_dead_leader_is_replaced(self, takes: float, *, stores_first: bool) -> None:
        """Its Lease is taken just after its duration, and led once that is renewed."""
        stage = Stage(SlowApi(takes, stores_first=stores_first))

        async def main() -> None:
            stage.api.put(
                PATH, {"spec": {"holderIdentity": "dead", "leaseDurationSeconds": 7}}
            )
            two = stage.start("two")
            await asyncio.sleep(7 + 2 * takes + 0.1)
            assert ["+two"] == stage.told
            await ended(two)

        run_virtual(main())

    def test_lost_answers_cost_no_lead(
        self, takes: float, *, stores_first: bool
    ) -> None:
        """One in three is lost."""
        api = SlowApi(takes, stores_first=stores_first)
        api.loses_every = 3
        stage = Stage(api)

        async def main() -> None:
            one = stage.start("one")
            await asyncio.sleep(600)
            assert ["+one"] == stage.told
            await ended(one)

        run_virtual(main())

    def test_late_answer_counts_from_when_its_renewal_was_sent(
        self, takes: float, *, stores_first: bool
    ) -> None:
        """Others may have seen it then: the work has ended 5.5 s later."""
        api = SlowApi(takes, stores_first=stores_first)
        stage = Stage(api)

        async def main() -> None:
            one = stage.start("one", ending=seconds(0.5))
            await asyncio.sleep(60)
            api.fault = Fault.UNSENT
            last = api.sent[-1]
            await asyncio.sleep(last + 5.4 - 60)
            assert ["+one"] == stage.told
            await asyncio.sleep(0.7)
            assert ["+one", "-one"] == stage.told
            with pytest.raises(LeadershipLostError, match="no renewal within"):
                await one

        run_virtual(main())


RENEW = Timing().renew.total_seconds()
PHASES = [number / 20 for number in range(int(RENEW * 20))]
"""Seconds after a renewal, until the next one."""


class TestVaryingWrites:
    """What docs/install.md promises of an API server that has bad minutes, or bad hours."""

    @pytest.mark.parametrize("stores_first", [True, False], ids=["stored", "queued"])
    @pytest.mark.parametrize("takes", [0.9, 2, 3, 3.5, 4])
    def test_writes_that_become_slow_cost_no_lead(
        self, takes: float, *, stores_first: bool
    ) -> None:
        """From one write to the next, whenever that is; nor do they when they are fast again."""
        api = SlowApi(0.7, stores_first=stores_first)
        stage = Stage(api)

        async def main() -> None:
            one = stage.start("one")
            for phase in PHASES:
                await asyncio.sleep(20)
                begin = api.sent[-1] + RENEW + phase
                await asyncio.sleep(begin - stage.clock.monotonic())
                api.seconds = takes
                await asyncio.sleep(20 + phase)
                api.seconds = 0.7
            assert ["+one"] == stage.told
            await ended(one)

        run_virtual(main())

    def test_writes_that_become_slow_after_the_first_cost_no_lead(self) -> None:
        """That one counts from when it was sent, too."""
        stage = Stage(api := SlowApi(0.7, stores_first=True))

        async def main() -> None:
            one = stage.start("one")
            await asyncio.sleep(0.71)
            api.seconds = 4
            await asyncio.sleep(60)
            assert ["+one"] == stage.told
            await ended(one)

        run_virtual(main())

    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize(
        "takes",
        [
            pytest.param(lambda chance: chance.uniform(0, 4), id="any"),
            pytest.param(lambda chance: chance.choice((0.01, 4)), id="short or long"),
        ],
    )
    def test_writes_that_vary_cost_no_lead(
        self, takes: Callable[[random.Random], float], seed: int
    ) -> None:
        """As long as none takes more than four seconds; nobody else takes the Lease either."""
        chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
        stage = Stage(VaryingApi(chance, takes))

        async def main() -> None:
            one = stage.start("one")
            await asyncio.sleep(12)
            two = stage.start("two")
            await asyncio.sleep(600)
            assert ["+one"] == stage.told
            await ended(two)
            await ended(one)

        run_virtual(main())

    @pytest.mark.parametrize("usual", [0, 0.1])
    @pytest.mark.parametrize("manner", ["refused", "lost", "afterwards"])
    def test_silence_of_three_seconds_costs_no_lead(
        self, manner: str, usual: float
    ) -> None:
        """Whenever between two renewals it begins."""
        api = SilentApi(usual, manner)
        stage = Stage(api)

        async def main() -> None:
            one = stage.start("one")
            for phase in PHASES:
                await asyncio.sleep(20)
                begin = api.sent[-1] + RENEW + phase
                api.silence = (begin, begin + 3)
            await asyncio.sleep(20)
            assert ["+one"] == stage.told
            await ended(one)

        run_virtual(main())

    @pytest.mark.parametrize("seed", range(2))
    def test_nobody_works_beside_another_however_slow_they_are(self, seed: int) -> None:
        """Where leads are lost again and again, since writes take up to eight seconds."""
        chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
        stage = Stage(VaryingApi(chance, lambda chance: chance.uniform(0, 8)))
        names = ("one", "two", "three")

        async def main() -> None:
            running = {name: stage.start(name) for name in names}
            for _ in range(900):
                await asyncio.sleep(1)
                for name, task in running.items():
                    if task.done():
                        assert isinstance(task.exception(), LeadershipLostError)
                        running[name] = stage.start(name)
            for task in running.values():
                await ended(task)

        run_virtual(main())

        begun, over = stage.told[::2], stage.told[1::2]
        assert len(begun) > len(names)
        assert [name.replace("+", "-") for name in begun] == over

    @pytest.mark.parametrize(
        ("takes", "pause"),
        [(0.05, Timing().renew), (3, Timing().request)],
        ids=["at rest", "slow"],
    )
    def test_lease_is_written_no_more_often_than_is_told(
        self, takes: float, pause: timedelta
    ) -> None:
        """Seconds from one sending to the next."""
        api = SlowApi(takes, stores_first=True)
        stage = Stage(api)

        async def main() -> None:
            one = stage.start("one")
            await asyncio.sleep(600)
            assert 600 / pause.total_seconds() + 2 >= len(api.sent)
            await ended(one)

        run_virtual(main())


def test_lease_that_was_confirmed_too_late_is_not_worked_under() -> None:
    """The process stood still while its renewal was under way: it renews once more."""
    stage = Stage(SlowApi(2.5, stores_first=True))

    async def main() -> None:
        one = stage.start("one")
        await asyncio.sleep(3.2)
        assert [] == stage.told
        stage.clock.advance(seconds(100))
        await asyncio.sleep(600)
        assert ["+one"] == stage.told
        await ended(one)

    run_virtual(main())


class TakenLease(SlowApi):
    """Gives the Lease to another before its first renewal.

    Args:
        told: called when its candidate finds that out.
    """

    def __init__(self, told: Callable[[], None]) -> None:
        super().__init__(1.5, stores_first=True)
        self._told = told
        self._is_taken = False

    def perform(self, request: ApiRequest, *, at: int | None = None) -> bytes:
        """Carry a request out."""
        self._is_taken |= request.method == "PATCH"
        if self._is_taken:
            spec = {"holderIdentity": "two", "leaseDurationSeconds": 7}
            self.objects[PATH]["spec"] = spec
        answer = super().perform(request, at=at)
        if self._is_taken and request.method == "GET":
            self._told()
        return answer


@pytest.mark.parametrize("turns", range(8))
@pytest.mark.parametrize("shards", [False, True], ids=["one lease", "shards"])
def test_end_is_not_forgotten_where_the_lease_is_lost(
    turns: int, *, shards: bool
) -> None:
    """It is asked to end just when it finds that the Lease was not its own for long enough."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        asked: list[bool] = []

        def ask_after(turns: int) -> None:
            if turns:
                loop.call_soon(ask_after, turns - 1)
            else:
                asked.append(one.cancel())

        def ask() -> None:
            if not asked:
                ask_after(turns)

        stage = Stage(TakenLease(ask))
        elector = stage.elector("one")

        async def work(_number: int, _predecessor: Predecessor | None) -> None:
            await stage.working("one")()

        running = (
            ShardElector([elector], stage.clock).run(work)
            if shards
            else elector.run(stage.working("one"))
        )
        one = asyncio.create_task(running)
        await asyncio.wait({one}, timeout=60)
        assert one.cancelled()
        assert asked[0]
        assert [] == stage.told

    run_virtual(main())


class TestDeadConnection:
    """A request without an answer is made again on another connection."""

    def test_it_costs_no_lead(self) -> None:
        """Whenever it dies."""
        stage = Stage(api := DeadConnection())

        async def main() -> None:
            one = stage.start("one")
            for _ in range(50):
                await asyncio.sleep(10.1)
                api.is_dead = True
            await asyncio.sleep(10)
            assert not api.is_dead
            assert ["+one"] == stage.told
            await ended(one)

        run_virtual(main())

    def test_it_keeps_no_candidate_waiting(self) -> None:
        """It leads after one more request, which goes out a second later."""
        stage = Stage(api := DeadConnection())
        elector = stage.elector("one")

        async def main() -> None:
            api.is_dead = True
            one = asyncio.create_task(elector.run(stage.working("one")))
            await asyncio.sleep(1.1)
            assert ["+one"] == stage.told
            await ended(one)

        run_virtual(main())


class Unheard(TinyApi):
    """Answers nothing, and says so of each request in the words of the real client."""

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Wait, and give up."""
        limit = within.total_seconds() if within else 30
        await asyncio.sleep(limit)
        raise Unavailable(f"{request}: no answer within {limit:g} s", sent=None)


class Scripted(TinyApi):
    """Answers each request as is told.

    Args:
        answers: seconds until each answer, and its error; empty: it is a Lease.
    """

    def __init__(self, answers: Sequence[tuple[float, str]]) -> None:
        super().__init__()
        self._answers = iter(answers)

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Answer."""
        _ = within
        seconds, said = next(self._answers)
        await asyncio.sleep(seconds)
        if said:
            raise Unavailable(f"{request}: {said}", sent=None)
        meta = {"name": "lbcf", "namespace": "shop", "uid": "u", "resourceVersion": "1"}
        spec = {"holderIdentity": "two", "leaseDurationSeconds": 7}
        return msgspec.json.encode({"metadata": meta, "spec": spec})


class TestRepeatedRequests:
    """Of several that are made beside each other one is told, and none is left behind."""

    @staticmethod
    def attempts(api: TinyApi, count: int) -> tuple[list[str], list[str]]:
        """Look at the Lease so often; return what is told of it, and what asyncio tells."""
        left: list[str] = []

        async def main() -> None:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _loop, said: left.append(said["message"]))
            for _ in range(count):
                await Stage(api).elector("one").attempt()
            gc.collect()
            await asyncio.sleep(0)

        with structlog.testing.capture_logs() as logs:
            run_virtual(main())
        return [str(log["error"]) for log in logs if "error" in log], left

    def test_silent_server_is_told_as_such(self) -> None:
        """In the words of docs/runbooks.md, whichever request is given up first."""
        told, left = self.attempts(Unheard(), 20)

        assert [] == left
        assert 20 == len(told)
        assert all(said.endswith("no answer within 5.5 s") for said in told)

    @pytest.mark.parametrize(
        ("first", "second", "told"),
        [("", "cut", []), ("cut", "", []), ("one", "two", ["one"])],
    )
    def test_of_two_answers_at_once_the_better_one_counts(
        self, first: str, second: str, told: list[str]
    ) -> None:
        """What was read; else the error of the request that was sent first."""
        later = Timing().request.total_seconds()
        api = Scripted([(later + 0.4, first), (0.4, second)] * 20)

        said, left = self.attempts(api, 20)

        assert [] == left
        assert told * 20 == [one.rpartition(": ")[2] for one in said]


class TestEnd:
    """How a lead ends in good order."""

    def test_work_that_ends_releases(self, stage: Stage) -> None:
        """The Lease is nobody's, and short, when `run` returns."""

        async def work() -> None:
            stage.told.append(str(stage.lease["holderIdentity"]))

        run_virtual(stage.elector("one").run(work))

        assert ["one"] == stage.told
        assert "" == stage.lease["holderIdentity"]
        assert 1 == stage.lease["leaseDurationSeconds"]

    def test_work_that_fails_releases_and_raises(self, stage: Stage) -> None:
        """The worker's own exception comes out, and no group around it."""

        async def work() -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            run_virtual(stage.elector("one").run(work))
        assert "" == stage.lease["holderIdentity"]

    def test_lease_is_kept_while_the_work_winds_up(self, stage: Stage) -> None:
        """However long a cancelled worker needs; the release comes last."""

        async def main() -> None:
            one = stage.start("one", ending=seconds(90))
            two = stage.start("two")
            await asyncio.sleep(10)
            one.cancel()
            await asyncio.sleep(89)
            assert ["+one"] == stage.told
            assert "one" == stage.lease["holderIdentity"]
            await asyncio.sleep(5)
            assert ["+one", "-one", "+two"] == stage.told
            assert one.cancelled()
            await ended(two)

        run_virtual(main())

    def test_listener_hears_of_both(self, stage: Stage) -> None:
        """A metric can follow."""
        heard: list[bool] = []
        elector = LeaderElector(
            KubeClient(stage.api),
            name="lbcf",
            namespace="shop",
            identity="one",
            clock=stage.clock,
            on_leading=heard.append,
        )

        async def work() -> None:
            assert [True] == heard

        run_virtual(elector.run(work))

        assert [True, False] == heard

    def test_candidate_that_never_led_releases_nothing(self, stage: Stage) -> None:
        """The Lease stays its leader's."""

        async def main() -> None:
            one = stage.start("one")
            await asyncio.sleep(0.1)
            two = stage.start("two")
            await asyncio.sleep(10)
            await ended(two)
            assert "one" == stage.lease["holderIdentity"]
            await ended(one)

        run_virtual(main())


QUICK = Timing(
    duration=seconds(1),
    renew_deadline=seconds(0.7),
    renew=seconds(0.2),
    retry=seconds(0.1),
    request=seconds(0.3),
)


@pytest.mark.cluster
class TestRealServer:
    """The same API, spoken by the real one."""

    @staticmethod
    def elector(client: KubeClient, namespace: str, identity: str) -> LeaderElector:
        """Make a candidate with short periods."""
        return LeaderElector(
            client,
            name="lbcf",
            namespace=namespace,
            identity=identity,
            clock=SystemClock(),
            timing=QUICK,
        )

    async def test_take_over_and_release(
        self, real: KubeClient, namespace: str
    ) -> None:
        """An abandoned Lease is taken over; a released one is written as such."""
        spec = {"holderIdentity": "dead", "leaseDurationSeconds": 1}
        body = {"metadata": {"name": "lbcf"}, "spec": spec}
        await real.create(LEASES, namespace, body)
        led: list[Lease] = []

        async def work() -> None:
            led.append(await real.get(LEASES, ObjectKey(namespace, "lbcf")))
            await asyncio.sleep(0.5)

        await self.elector(real, namespace, "one").run(work)
        released = await real.get(LEASES, ObjectKey(namespace, "lbcf"))

        assert ["one"] == [lease.holder for lease in led]
        assert 1 == led[0].transitions
        assert "" == released.holder

    async def test_of_many_one_leads_at_a_time(
        self, real: KubeClient, namespace: str
    ) -> None:
        """Each of them gets its turn, and never two at once."""
        at_work: list[str] = []
        turns: list[str] = []

        def working(name: str) -> Callable[[], Awaitable[None]]:
            async def work() -> None:
                at_work.append(name)
                turns.append(name)
                await asyncio.sleep(0.1)
                assert [name] == at_work
                at_work.remove(name)

            return work

        names = ["one", "two", "three", "four"]
        async with asyncio.TaskGroup() as group:
            for name in names:
                elector = self.elector(real, namespace, name)
                group.create_task(elector.run(working(name)))

        assert sorted(names) == sorted(turns)


@pytest.mark.parametrize(
    ("length", "expected"), [(3.0, ["+one"]), (30.0, ["+one", "-one"])]
)
def test_renewal_that_is_cut_is_one_that_failed(
    length: float, expected: list[str]
) -> None:
    """Another is sent; where all are cut the lead is lost, in order and in time."""
    stage = Stage()

    async def play() -> None:
        leader = stage.start("one")
        await asyncio.sleep(1)
        stage.api.fault = Fault.CUT
        await asyncio.sleep(length)
        stage.api.fault = None
        await asyncio.sleep(20)
        assert expected == stage.told
        await ended(leader)

    run_virtual(play())
