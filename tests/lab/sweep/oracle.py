"""What must be true after every step, and what in the end.

It reads the API server's objects as JSON and the load balancer's members, and nothing
of the code under test. `World` calls `look` after each effect, `sent` before each call.

S1 nothing is registered that no record names; S2 a record that is gone left nothing
behind, unless a person has let it go; S3 a live registered record's member is in, in full
service, with its parameters; S4 a drain is as long as its record says (`drains`), unless
its backend is gone, and its deadline never moves; S5 the finalizer goes after the member;
S8 somebody serves as long as somebody can (`serving`); S9 and S10, readiness gates
(`gates`); S11 a pod that waits for its records is told to end only when none of them can be
in any more (`waiting_pods`).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from lbcf.core.model.values import MemberKey
from lbcf.wire import driver_requests as requests
from lbcf.wire.driver import Answer, Request
from lbcf.wire.driver_answers import BackendState
from tests.kube.tiny_rules import Json
from tests.lab.sweep import objects
from tests.lab.sweep.balancer import Member
from tests.lab.sweep.cluster import Wish, WishKey
from tests.lab.sweep.drains import Drains
from tests.lab.sweep.estate import Place
from tests.lab.sweep.gates import Gates
from tests.lab.sweep.seen import Seen, see
from tests.lab.sweep.serving import Serving
from tests.lab.sweep.waiting_pods import WaitingPods


if TYPE_CHECKING:
    from tests.lab.sweep.process import Process
    from tests.lab.sweep.world import World


class Oracle:
    """Looks, and tells the world what is wrong.

    Attributes:
        records: by path.
        looks: how often it looked.
        drains: looks at those.
        serving: looks at whether anybody serves.
        gates: looks at readiness gates.
        waiting: tells pods that wait for their records to end, and looks at what follows.
    """

    def __init__(self, world: "World") -> None:
        self.records: dict[str, Seen] = {}
        self.looks = 0
        self._world = world
        self._lost: set[str] = set()
        self.drains = Drains(world)
        self.serving = Serving(world)
        self.gates = Gates(world)
        self.waiting = WaitingPods(world)
        self._departed: set[tuple[str, str]] = set()
        self._let_go: set[str] = set()
        self._ensured: set[str] = set()

    def stored(self, path: str, whole: Json | None) -> None:
        """Take in a record's new version, or its end."""
        before = self.records.pop(path, None)
        if whole is None:
            return
        seen = self.records[path] = see(whole)
        if seen.is_let_go:
            self._let_go.add(seen.uid)
        self.drains.stored(before, seen)
        self.gates.stored(before, seen)

    def load_balancer_ended(self, name: str) -> None:
        """A load balancer may not go while a record needs it, but by force.

        One that was never ensured needs nothing.
        """
        if name in self._world.forced:
            return
        here = (seen for seen in self.records.values() if seen.lb_name == name)
        if any(seen.uid in self._ensured for seen in here):
            self._world.fail(f"load balancer {name} went before its records")

    def backend_changed(self, before: Json, after: Json | None) -> None:
        """Note who is not any more where it was: nothing of it is left to drain."""
        self.waiting.pod_changed(after)
        place = objects.place_of_backend(before)
        if place is not None and (
            after is None or objects.place_of_backend(after) != place
        ):
            self._departed.add(place)

    def _is_departed(self, seen: Seen) -> bool:
        """Tell whether a record's backend has left its address."""
        who = seen.backend.rpartition(":")[0] or seen.backend
        return (who, seen.address.rpartition(":")[0]) in self._departed

    def members_lost(self) -> None:
        """Forgive that what was in is in no more, until it is put back."""
        self._lost = {seen.uid for seen in self.records.values()}

    def look(self) -> None:
        """Compare records and members.

        Nothing of what follows waits for anything: it is true at any moment.
        """
        self.looks += 1
        self.serving.look()
        self.waiting.look()
        for place, member in self.members():
            self._lost.discard(member.record_id)
            if not any(self._names(s, place, member) for s in self.records.values()):
                self._stray(member)
        for seen in self.records.values():
            if seen.is_in and not seen.is_deleting and seen.uid not in self._lost:
                self._check_in(seen)

    def _place_of(self, seen: Seen) -> Place:
        """Say where a record's member is."""
        return self._world.place_of(seen.driver, seen.target)

    def _names(self, seen: Seen, place: Place, member: Member) -> bool:
        """Tell whether a record answers for a member."""
        if seen.address != member.address or self._place_of(seen) != place:
            return False
        by_address = place.balancer.member_key is MemberKey.ADDRESS
        return by_address or seen.uid == member.record_id

    def _stray(self, member: Member) -> None:
        """Tell of a member that no record names."""
        if member.record_id in self._let_go:
            return
        alive = {seen.uid for seen in self.records.values()}
        rule = "S1" if member.record_id in alive else "S2/S5"
        self._world.fail(
            f"{rule}: {member.address} of {member.record_id} is registered, and no "
            "record names it"
        )

    def _check_in(self, seen: Seen) -> None:
        """Hold the load balancer to what a live record says."""
        member = self.member_of(seen)
        if member is None:
            self._world.fail(f"S3: {seen.name} says Registered, its member is out")
        elif member.state is not BackendState.ACTIVE:
            self._world.fail(f"S3: {seen.name} lives, its member is {member.state}")
        elif seen.is_settled and member.parameters != seen.parameters:
            self._world.fail(f"S3: {seen.name} is settled with other parameters")

    def members(self) -> Iterator[tuple[Place, Member]]:
        """Return all members of all systems, with where they are."""
        for balancer in self._world.balancers:
            for member in balancer.members.values():
                yield Place(balancer, member.target), member

    def member_of(self, seen: Seen) -> Member | None:
        """Find a record's member."""
        named = (m for place, m in self.members() if self._names(seen, place, m))
        return next(named, None)

    def sent(
        self, process: "Process", request: Request[Answer]
    ) -> Callable[[bool], None]:
        """Look at a call that leaves; returns what is told whether it may be heard."""
        uid = getattr(request, "record_id", "")
        seen = self._record(uid)
        if isinstance(request, requests.EnsureBackendRequest) and seen is not None:
            self._ensure_sent(seen)
        if isinstance(request, requests.DrainBackendRequest):
            return self.drains.drain_sent(process, seen, uid)
        if seen is None or not self._drains(seen):
            return lambda _heard: None
        if isinstance(request, requests.DeregisterBackendRequest):
            self.drains.deregister_sent(process, seen, request)
        return lambda _heard: None

    def _ensure_sent(self, seen: Seen) -> None:
        """What is gone takes nobody new."""
        name, is_first = seen.lb_name, seen.uid not in self._ensured
        is_gone = not self._world.has_load_balancer(name)
        if is_first and is_gone and name not in self._world.forced:
            self._world.fail(f"{seen.name} is put in at {name}, which is gone")
        self._ensured.add(seen.uid)

    def taken_out(self, uid: str, sessions: int) -> None:
        """Note that a member's sessions end with it."""
        seen = self._record(uid)
        if seen is not None and self._drains(seen):
            self.drains.cut(seen, sessions)

    def _record(self, uid: str) -> Seen | None:
        """Find a record."""
        return next((seen for seen in self.records.values() if seen.uid == uid), None)

    def _drains(self, seen: Seen) -> bool:
        """Tell whether a record is to be drained, and can be, and there is somebody."""
        drains = self._world.setting_of(seen.driver).drains
        return bool(seen.drain_seconds) and drains and not self._is_departed(seen)

    def unsettled(self) -> Iterator[str]:
        """Say what is not as it should be in the end."""
        wanted = self._world.wanted()
        alive = [s for s in self.records.values() if not s.is_deleting]
        for seen in self.records.values():
            if seen.is_deleting:
                yield f"{seen.name} is still being deleted"
        by_backend = {(s.group, s.lb_name, s.backend): s for s in alive}
        if len(by_backend) != len(alive):
            yield "two records say the same"
        for key in by_backend.keys() - wanted.keys():
            if self._world.has_load_balancer(key[1]):
                yield f"{key} has a record that nobody wants"
        for key, wish in wanted.items():
            yield from self._unserved(key, wish, by_backend.get(key))
        yield from self._needless(wanted)
        yield from self.gates.shut()

    def _needless(self, wanted: Mapping[WishKey, Wish]) -> Iterator[str]:
        """Say which members are nobody's wish."""
        for place, member in self.members():
            if not self._is_due(place, member, wanted):
                yield f"{member.address} is a member at {place.target} for nobody"

    def _is_due(
        self, place: Place, member: Member, wanted: Mapping[WishKey, Wish]
    ) -> bool:
        """Tell whether a member is somebody's, or of a record that is held."""
        if member.record_id in self._let_go or any(
            w.place == place and w.address == member.address for w in wanted.values()
        ):
            return True
        return any(
            self._names(seen, place, member)
            and not self._world.has_load_balancer(seen.lb_name)
            for seen in self.records.values()
        )

    def _unserved(self, key: WishKey, wish: Wish, seen: Seen | None) -> Iterator[str]:
        """Say what one wish lacks."""
        if seen is None:
            yield f"{key} has no record"
            return
        if not seen.is_in and self._is_served(wish, seen):
            return
        member = self.member_of(seen)
        if not seen.is_current:
            yield f"{seen.name} is not registered"
        elif self._place_of(seen) != wish.place:
            yield f"{seen.name} is in at {seen.target}, not at {wish.place.target}"
        elif member is None or member.address != wish.address:
            yield f"{seen.name} is not in at {wish.address}"
        elif member.parameters != wish.parameters:
            yield f"{seen.name} is in with {member.parameters}"
        elif member.state is not BackendState.ACTIVE:
            yield f"{seen.name} is in as {member.state}"

    def _is_served(self, wish: Wish, seen: Seen) -> bool:
        """Tell whether another record has the member that this one waits for."""
        return wish.place.balancer.member_key is MemberKey.ADDRESS and any(
            other.is_current
            and other.address == wish.address
            and self._place_of(other) == wish.place
            and other.uid != seen.uid
            for other in self.records.values()
        )
