"""Drivers that each break one rule: the memory driver, with one thing done wrong."""

import asyncio

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import attrs
import msgspec

from aiohttp import web

from lbcf import sdk
from lbcf.core.model.values import MemberKey
from tests.conformance import batch_breaks
from tests.conformance.stages import Json, Twist, decoded
from webhooks.memory import MemoryDriver
from webhooks.memory_control import Control
from webhooks.memory_members import AnyRequest, Member, Members
from webhooks.shared.addresses import read_address


Made = Callable[[], MemoryDriver]
Succ = sdk.Succ
Outcome = sdk.Succ | sdk.Running


class Unhealthy(MemoryDriver):
    """Never well."""

    async def healthz(self) -> bool:
        """Say so."""
        return False


class Recreating(MemoryDriver):
    """Creates another load balancer each time."""

    async def create_load_balancer(
        self, request: sdk.CreateLoadBalancerRequest
    ) -> Outcome:
        """Name it after the attempt."""
        return Succ(lb_info=request.lb_spec | {"number": request.retry_id})


class AnotherKey(MemoryDriver):
    """Names the physical load balancer after the attempt."""

    async def ensure_load_balancer(
        self, request: sdk.EnsureLoadBalancerRequest
    ) -> Outcome:
        """Answer another key than createLoadBalancer did."""
        return Succ(lock_key=request.retry_id)

    async def create_load_balancer(
        self, request: sdk.CreateLoadBalancerRequest
    ) -> Outcome:
        """Answer another key each time."""
        return Succ(lb_info=request.lb_spec, lock_key=request.retry_id)


class AnotherPlace(MemoryDriver):
    """Says another address each time."""

    async def create_load_balancer(
        self, request: sdk.CreateLoadBalancerRequest
    ) -> Outcome:
        """Name it after the attempt."""
        name = f"{request.retry_id[:8]}.example.com"
        ingress = [sdk.Ingress(hostname=name.lower())]
        return Succ(lb_info=request.lb_spec, ingress=ingress)


class OnceEnsured(MemoryDriver):
    """Takes a load balancer that is ensured already for a mistake."""

    ensured = False

    async def ensure_load_balancer(
        self, _request: sdk.EnsureLoadBalancerRequest
    ) -> Outcome:
        """Refuse the second time."""
        if self.ensured:
            raise sdk.Fail("it is ensured")
        self.ensured = True
        return Succ()


class Refusing(MemoryDriver):
    """Refuses every load balancer and all parameters."""

    async def validate_load_balancer(
        self, _request: sdk.ValidateLoadBalancerRequest
    ) -> None:
        """Refuse."""
        raise sdk.Fail("not this one")

    async def validate_backend(self, _request: sdk.ValidateBackendRequest) -> None:
        """Refuse."""
        raise sdk.Fail("not these")


class GoneIsFailure(MemoryDriver):
    """Cannot bear that a load balancer is gone."""

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> Outcome:
        """Refuse on any other load balancer."""
        if request.lb_info != {"name": "lb"}:
            raise sdk.Fail("no such load balancer")
        return await super().deregister_backend(request)


class NeverDeletes(MemoryDriver):
    """Cannot delete load balancers at all."""

    async def delete_load_balancer(
        self, _request: sdk.DeleteLoadBalancerRequest
    ) -> Outcome:
        """Refuse."""
        raise sdk.Fail("it is not deleted")


class Unsteady(MemoryDriver):
    """Has another epoch at each look."""

    async def list_backends(
        self, request: sdk.ListBackendsRequest
    ) -> sdk.ListBackendsAnswer:
        """List with a new epoch."""
        self.members.epoch += "x"
        return await super().list_backends(request)


class Counted(MemoryDriver):
    """Takes the number of its members for an epoch."""

    async def list_backends(
        self, request: sdk.ListBackendsRequest
    ) -> sdk.ListBackendsAnswer:
        """List with it."""
        answer = await super().list_backends(request)
        return sdk.ListBackendsAnswer(
            epoch=f"{self.members.epoch} {len(list(self.members))}",
            backends=answer.backends,
        )


class DeletesDry(MemoryDriver):
    """Deletes a load balancer whose deletion is only tried out."""

    async def delete_load_balancer(
        self, request: sdk.DeleteLoadBalancerRequest
    ) -> Outcome:
        """Take out its members."""
        for one in list(self.members):
            if dict(one.lb_info) == request.lb_info:
                self.members.remove(_as_deregister(one))
        return Succ()


class KeyOfTheProcess(MemoryDriver):
    """Names the physical load balancer after itself."""

    def __init__(self) -> None:
        super().__init__()
        self.key = str(id(self.members.epoch)) + self.members.epoch

    async def ensure_load_balancer(
        self, request: sdk.EnsureLoadBalancerRequest
    ) -> Outcome:
        """Answer another key after a restart."""
        return Succ(lock_key=f"{self.key} {request.lb_info}")


class OneKey(MemoryDriver):
    """Has one key for all load balancers."""

    async def ensure_load_balancer(
        self, _request: sdk.EnsureLoadBalancerRequest
    ) -> Outcome:
        """Answer it."""
        return Succ(lock_key="mine")


class Judging(MemoryDriver):
    """Keeps pods that nobody asked about."""

    async def judge_pod_deregister(
        self, _request: sdk.JudgePodDeregisterRequest
    ) -> Sequence[sdk.WholeObject]:
        """Name a foreign pod."""
        return [{"metadata": {"namespace": "other", "name": "pod"}}]


class Listless(MemoryDriver):
    """Says Succ, and has done nothing."""

    async def ensure_backend(self, _request: sdk.EnsureBackendRequest) -> Outcome:
        """Do nothing."""
        return Succ()


class Strict(MemoryDriver):
    """Takes what is there already for a mistake."""

    async def ensure_backend(self, request: sdk.EnsureBackendRequest) -> Outcome:
        """Refuse what is there."""
        if self.members.has(request):
            raise sdk.Fail("it is there already")
        return await super().ensure_backend(request)


class Doubling(MemoryDriver):
    """Adds a member each time that it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.times: Counter[str] = Counter()

    async def ensure_backend(self, request: sdk.EnsureBackendRequest) -> Outcome:
        """Count it."""
        self.times[_place(request)] += not request.dry_run
        return await super().ensure_backend(request)

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> Outcome:
        """Take all of them out."""
        self.times[_place(request)] *= request.dry_run
        return await super().deregister_backend(request)

    async def list_backends(
        self, request: sdk.ListBackendsRequest
    ) -> sdk.ListBackendsAnswer:
        """List a member as often as it was ensured."""
        answer = await super().list_backends(request)
        return sdk.ListBackendsAnswer(
            epoch=answer.epoch,
            backends=[
                one
                for one in answer.backends
                for _ in range(self.times[f"{request.lb_info} {one.backend_addr}"])
            ],
        )


class MissingIsFailure(MemoryDriver):
    """Takes it for a mistake that what it shall take out is not there."""

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> Outcome:
        """Refuse what is not there."""
        if not self.members.has(request):
            raise sdk.Fail("no such member")
        return await super().deregister_backend(request)


class Reading(MemoryDriver):
    """Refuses what is no address, also where it is to go."""

    async def ensure_backend(self, request: sdk.EnsureBackendRequest) -> Outcome:
        """Refuse what could not be reached."""
        _check_readable(request)
        return await super().ensure_backend(request)

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> Outcome:
        """Refuse what was refused."""
        _check_readable(request)
        return await super().deregister_backend(request)


class ReadingToDrain(MemoryDriver):
    """Refuses what is no address, also where it is to be drained."""

    async def drain_backend(self, request: sdk.DrainBackendRequest) -> Outcome:
        """Refuse what was refused."""
        _check_readable(request)
        return await super().drain_backend(request)


class GoneForGood(MemoryDriver):
    """Takes it for a mistake to be asked twice to take a member out."""

    def __init__(self) -> None:
        super().__init__()
        self.gone: set[str] = set()

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> Outcome:
        """Refuse what was there and is there no more."""
        if self.members.has(request):
            self.gone.add(request.record_id)
        elif request.record_id in self.gone:
            raise sdk.Fail("it was deregistered")
        return await super().deregister_backend(request)


class MissingDrainIsFailure(MemoryDriver):
    """The same for drains."""

    async def drain_backend(self, request: sdk.DrainBackendRequest) -> Outcome:
        """Refuse what is not there."""
        if not self.members.has(request):
            raise sdk.Fail("no such member")
        return await super().drain_backend(request)


class DrainAdds(MemoryDriver):
    """Registers what it is asked to drain."""

    async def drain_backend(self, request: sdk.DrainBackendRequest) -> Outcome:
        """Put it there."""
        if not self.members.has(request):
            await super().ensure_backend(_as_ensure(request))
        return await super().drain_backend(request)


class Keeping(MemoryDriver):
    """Says that it took out a member that was drained, and has not."""

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> Outcome:
        """Do nothing after a drain."""
        return Succ() if request.drained else await super().deregister_backend(request)


class Sweeping(MemoryDriver):
    """Takes out every member, whomever it is asked for."""

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> Outcome:
        """Take out all."""
        if request.dry_run:
            return Succ()
        epoch = self.members.epoch
        self.members.lose_all()
        self.members.epoch = epoch
        return Succ()


class Tombstones(MemoryDriver):
    """Never lets a member back in."""

    def __init__(self, member_key: MemberKey = MemberKey.ADDRESS) -> None:
        super().__init__(member_key)
        self.dead: set[str] = set()

    async def ensure_backend(self, request: sdk.EnsureBackendRequest) -> Outcome:
        """Refuse those who were there."""
        if request.record_id in self.dead:
            raise sdk.Fail("that was deregistered")
        return await super().ensure_backend(request)

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> Outcome:
        """Remember it for ever."""
        self.dead.add(request.record_id)
        return await super().deregister_backend(request)


class ByAddress(MemoryDriver):
    """Says that it names members after records, and goes by addresses."""

    def __init__(self) -> None:
        super().__init__(MemberKey.ADDRESS)
        self.member_key = MemberKey.RECORD


class Guessing(MemoryDriver):
    """Takes out another record at the address of one that is not there."""

    def __init__(self) -> None:
        super().__init__(MemberKey.RECORD)

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> Outcome:
        """Look for the address where there is no such record."""
        if not request.dry_run and not self.members.has(request):
            for one in _at_address_of(request, self.members):
                self.members.remove(_as_deregister(one))
        return await super().deregister_backend(request)


class DrainsAddresses(MemoryDriver):
    """Drains all records at an address."""

    def __init__(self) -> None:
        super().__init__(MemberKey.RECORD)

    async def drain_backend(self, request: sdk.DrainBackendRequest) -> Outcome:
        """Drain them."""
        for one in _at_address_of(request, self.members):
            if not request.dry_run:
                one.state = sdk.BackendState.DRAINING
        return await super().drain_backend(request)


class Particular(MemoryDriver):
    """Finds a member only by what it injected at its registration."""

    def __init__(self) -> None:
        super().__init__(MemberKey.RECORD)

    async def ensure_backend(self, request: sdk.EnsureBackendRequest) -> Outcome:
        """Inject what is needed later."""
        await super().ensure_backend(request)
        return Succ(injected_info={"member": request.record_id})

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> Outcome:
        """Take out what is named so, and nothing else."""
        if request.injected_info.get("member") != request.record_id:
            return Succ()
        return await super().deregister_backend(request)


class Undraining(MemoryDriver):
    """Answers drains, and leaves the member in service."""

    async def drain_backend(self, _request: sdk.DrainBackendRequest) -> Outcome:
        """Do nothing."""
        return Succ()


class UntilDeadline(MemoryDriver):
    """Drains until the deadline, also where nothing is left."""

    async def drain_backend(self, request: sdk.DrainBackendRequest) -> Outcome:
        """Say that it goes on."""
        await super().drain_backend(request)
        return sdk.Running(active_connections=0)


class DrainsAll(MemoryDriver):
    """Drains the whole load balancer."""

    async def drain_backend(self, request: sdk.DrainBackendRequest) -> Outcome:
        """Drain all."""
        for member in () if request.dry_run else self.members:
            member.state = sdk.BackendState.DRAINING
        return await super().drain_backend(request)


class StaysDraining(MemoryDriver):
    """Ensures what is there without ending its drain."""

    async def ensure_backend(self, request: sdk.EnsureBackendRequest) -> Outcome:
        """Leave what is there as it is."""
        if self.members.has(request):
            return Succ()
        return await super().ensure_backend(request)


class Impatient(MemoryDriver):
    """Takes a drain for ended as soon as it has begun."""

    async def drain_backend(self, request: sdk.DrainBackendRequest) -> Outcome:
        """Say that nothing is left."""
        await super().drain_backend(request)
        return Succ()


class Background(MemoryDriver):
    """Answers Running first; what it has begun then takes effect after a later call."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: dict[str, sdk.EnsureBackendRequest] = {}

    async def ensure_backend(self, request: sdk.EnsureBackendRequest) -> Outcome:
        """Begin; done when asked again."""
        is_begun = self.begun.pop(request.record_id, None) is not None
        if request.dry_run or is_begun or self.members.has(request):
            return await super().ensure_backend(request)
        self.begun[request.record_id] = request
        return sdk.Running()

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> Outcome:
        """Take it out; what was begun before puts it back right after."""
        try:
            return await super().deregister_backend(request)
        finally:
            begun = self.begun.pop(request.record_id, None)
            if begun is not None:
                asyncio.get_running_loop().call_soon(self.members.ensure, begun)


class Rechecking(MemoryDriver):
    """Begins anew whenever it has answered Succ."""

    def __init__(self) -> None:
        super().__init__()
        self.checked: set[str] = set()

    async def ensure_backend(self, request: sdk.EnsureBackendRequest) -> Outcome:
        """Check the member first, and answer Succ when asked again."""
        outcome = await super().ensure_backend(request)
        self.checked ^= {request.record_id}
        return sdk.Running() if request.record_id in self.checked else outcome


_HASTE = 0.045
"""Seconds; `HastyClock` makes pauses between two calls of a rule that are longer."""


class Backlog(MemoryDriver):
    """Begins a job at each call that comes without a pause, and ends two of them alone.

    Other rules send the same twice in a row.
    """

    def __init__(self) -> None:
        super().__init__()
        self.called: dict[str, float] = {}
        self.jobs: Counter[str] = Counter()

    async def ensure_backend(self, request: sdk.EnsureBackendRequest) -> Outcome:
        """Begin; done when it is asked about after a pause."""
        if request.dry_run or self.members.has(request):
            return await super().ensure_backend(request)
        now = asyncio.get_running_loop().time()
        last = self.called.get(request.record_id)
        self.called[request.record_id] = now
        if last is not None and now - last > _HASTE:
            return await super().ensure_backend(request)
        self.jobs[request.record_id] += 1
        return sdk.Running()

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> Outcome:
        """Take it out; a third job puts it back."""
        self.called.pop(request.record_id, None)
        outcome = await super().deregister_backend(request)
        if self.jobs.pop(request.record_id, 0) > 2:
            loop = asyncio.get_running_loop()
            loop.call_later(0.01, self.members.ensure, _as_ensure(request))
        return outcome


class AlwaysTheSame(MemoryDriver):
    """Loses its members in a crash, and its epoch says that none are lost."""

    def __init__(self) -> None:
        super().__init__()
        self.members.epoch = "always"


class ListsAll(MemoryDriver):
    """Lists the members of all load balancers, whichever it is asked about."""

    async def list_backends(
        self, request: sdk.ListBackendsRequest
    ) -> sdk.ListBackendsAnswer:
        """List all."""
        answer = await super().list_backends(request)
        listed = [
            sdk.ListedBackend(
                backend_addr=one.backend_addr, record_id=one.record_id, state=one.state
            )
            for one in self.members
        ]
        return sdk.ListBackendsAnswer(epoch=answer.epoch, backends=listed)


class TakesOutAnywhere(MemoryDriver):
    """Takes a member out of whatever load balancer it is on."""

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> Outcome:
        """Look for the address on all of them."""
        for one in list(self.members):
            if one.backend_addr == request.backend_addr and not request.dry_run:
                self.members.remove(_as_deregister(one))
        return Succ()


class DrainsAnywhere(MemoryDriver):
    """Drains a member on whatever load balancer it is."""

    async def drain_backend(self, request: sdk.DrainBackendRequest) -> Outcome:
        """Look for the address on all of them."""
        for one in self.members:
            if one.backend_addr == request.backend_addr and not request.dry_run:
                one.state = sdk.BackendState.DRAINING
        return await super().drain_backend(request)


class Shouting(MemoryDriver):
    """Lists records in capital letters."""

    async def list_backends(
        self, request: sdk.ListBackendsRequest
    ) -> sdk.ListBackendsAnswer:
        """List them so."""
        answer = await super().list_backends(request)
        listed = [
            sdk.ListedBackend(
                backend_addr=one.backend_addr,
                record_id=one.record_id.upper(),
                state=one.state,
            )
            for one in answer.backends
        ]
        return sdk.ListBackendsAnswer(epoch=answer.epoch, backends=listed)


class LostUpdates(MemoryDriver):
    """Reads all members, adds one, and writes all back: with a pause in between."""

    async def ensure_backend(self, request: sdk.EnsureBackendRequest) -> Outcome:
        """Lose what others added meanwhile."""
        before: list[Member] = list(self.members)
        await asyncio.sleep(0.05)
        outcome = await super().ensure_backend(request)
        kept = {one.record_id for one in before} | {request.record_id}
        for one in list(self.members):
            if one.record_id not in kept:
                self.members.remove(_as_deregister(one))
        return outcome


class Forgetful(MemoryDriver):
    """Takes out only what it remembers, which a crash makes it forget."""

    def __init__(self, members: Members) -> None:
        super().__init__()
        self.members = members
        self.control = Control(members)
        self.known: set[str] = set()

    async def ensure_backend(self, request: sdk.EnsureBackendRequest) -> Outcome:
        """Remember what is new."""
        if not self.members.has(request):
            self.known.add(request.backend_addr)
        return await super().ensure_backend(request)

    async def deregister_backend(
        self, request: sdk.DeregisterBackendRequest
    ) -> Outcome:
        """Leave what it does not remember."""
        if request.backend_addr not in self.known:
            return Succ()
        return await super().deregister_backend(request)


def _as_ensure(request: AnyRequest) -> sdk.EnsureBackendRequest:
    """Return the request that would put the member there."""
    return sdk.EnsureBackendRequest(
        record_id=request.record_id,
        lb_info=request.lb_info,
        backend_addr=request.backend_addr,
    )


def _at_address_of(request: AnyRequest, members: Members) -> list[Member]:
    """Return the members of its load balancer at its address, whatever their record."""
    return [one for one in members if _place(_as_deregister(one)) == _place(request)]


def _place(request: AnyRequest) -> str:
    """Return load balancer and address."""
    return f"{request.lb_info} {request.backend_addr}"


def _check_readable(request: AnyRequest) -> None:
    """Refuse what is no address.

    Raises:
        Fail: it is none.
    """
    if read_address(request.backend_addr) is None:
        raise sdk.Fail(f"backendAddr: {request.backend_addr!r:.60} is no IP:port")


def _as_deregister(member: Member) -> sdk.DeregisterBackendRequest:
    """Return the request that would take the member out."""
    return sdk.DeregisterBackendRequest(
        record_id=member.record_id,
        lb_info=dict(member.lb_info),
        backend_addr=member.backend_addr,
    )


def _without(field: str, operation: str = "") -> Twist:
    """Return what keeps a field of requests, or of an operation's, from the driver."""

    def strip(name: str, body: bytes) -> bytes:
        """Take it out of what is JSON."""
        if operation not in {"", name}:
            return body
        said = decoded(body)
        return msgspec.json.encode(_less(said, field)) if field in said else body

    return Twist(request=strip)


def _less(said: Json, field: str) -> Json:
    """Return the rest."""
    return {name: value for name, value in said.items() if name != field}


def _refusing(is_wrong: Callable[[Json], bool]) -> Twist:
    """Return what refuses requests before the driver sees them."""

    def refuse(_name: str, body: bytes) -> bytes | web.Response:
        """Let pass, or say 400."""
        if is_wrong(decoded(body)):
            return web.json_response({"error": "I do not like it"}, status=400)
        return body

    return Twist(request=refuse)


def _forgiving(_name: str, body: bytes) -> bytes | web.Response:
    """Answer Succ to what is no JSON object."""
    is_fine = body == b"{}" or decoded(body)
    return body if is_fine else web.json_response({"status": "Succ"})


def _naming(name: str, body: bytes) -> bytes:
    """Take a missing recordID for an empty one."""
    said = decoded(body)
    is_one = name in {"ensureBackend", "deregisterBackend"} and "backendAddr" in said
    return msgspec.json.encode({"recordID": "", **said}) if is_one else body


def _answering(**fields: object) -> Twist:
    """Return what changes fields of the answers that have a status."""

    def change(_name: str, body: bytes) -> bytes:
        """Change it."""
        said = decoded(body)
        return msgspec.json.encode(said | fields) if "status" in said else body

    return Twist(answer=change)


def _small_states(_name: str, body: bytes) -> bytes:
    """Write the states of members in small letters."""
    return body.replace(b'"Active"', b'"active"')


def _accepted(_name: str, body: bytes) -> web.Response:
    """Answer with another status that means well."""
    return web.Response(body=body, status=202, content_type="application/json")


def _needs_old_port(said: Json) -> bool:
    """Tell whether a pod's port goes by its new name alone."""
    match said.get("podBackend"):
        case {"port": {"portNumber": _}}:
            return False
        case {"port": _}:
            return True
        case _:
            return False


_KNOWN = {
    "recordID", "retryID", "dryRun", "notAfter", "lbInfo", "backendAddr", "memberKey", "parameters",
    "injectedInfo", "drained", "drain", "lbSpec", "attributes", "oldAttributes",
    "operation", "backendType", "OldParameters", "oldParameters", "lbAttributes",
    "podBackend", "notReadyPods", "items",
}  # fmt: skip


@attrs.frozen
class Break:
    """A driver and the rules that it breaks.

    Attributes:
        name: of the break.
        rules: the first is the one that is about it; all of them fail, and no other.
            One cause is one rule, but for a driver that does two things wrong.
        make: makes the driver.
        twist: what happens on the way to it.
        member_key: as it is declared.
        is_timed: what goes wrong depends on which of two calls, or of a call and a kill, is
            first: it is tried many times.
        make_on: makes the driver of members that outlive a crash of it; in place of `make`.
    """

    name: str
    rules: tuple[str, ...]
    make: Made = MemoryDriver
    twist: Twist | None = None
    member_key: MemberKey = MemberKey.ADDRESS
    is_timed: bool = False
    make_on: Callable[[Members], MemoryDriver] | None = None

    def maker(self) -> Made:
        """Return what makes the driver in one test, whose members no other test has."""
        if self.make_on is None:
            return self.make
        return partial(self.make_on, Members(self.member_key, sdk.SystemClock()))


BREAKS = (
    Break("not healthy", ("healthz",), Unhealthy),
    Break("creates another one", ("create-twice",), Recreating),
    Break("another lock key each time", ("lock-key-is-steady",), AnotherKey),
    Break("ensures once", ("ensure-load-balancer-twice",), OnceEnsured),
    Break("refuses all", ("valid-load-balancer", "valid-backend"), Refusing),
    Break("gone is failure", ("gone-load-balancer",), GoneIsFailure),
    Break("never deletes", ("delete-gone-load-balancer",), NeverDeletes),
    Break("new epoch each time", ("epoch-is-steady",), Unsteady),
    Break("judges strangers", ("judged-pods-were-asked-for",), Judging),
    Break("counts as epoch", ("epoch-is-steady",), Counted),
    Break("another lock key after a crash", ("lock-key-is-steady",), KeyOfTheProcess),
    Break("one lock key for all", ("lock-key-is-steady",), OneKey),
    Break("does nothing", ("ensured-is-listed",), Listless),
    Break(
        "ensured is failure",
        ("ensure-twice",),
        Strict,
    ),
    Break(
        "adds twice",
        ("ensure-twice",),
        Doubling,
    ),
    Break(
        "unknown is failure",
        ("deregister-unknown",),
        MissingIsFailure,
    ),
    Break("reads what is to go", ("deregister-refused",), Reading),
    Break("reads what is to drain", ("deregister-refused",), ReadingToDrain),
    Break("twice is failure", ("deregister-twice",), GoneForGood),
    Break(
        "unknown drain is failure",
        ("drain-unknown",),
        MissingDrainIsFailure,
    ),
    Break("a drain registers", ("drain-unknown",), DrainAdds),
    Break("keeps what was drained", ("deregister-removes",), Keeping),
    Break("takes out all", ("others-stay",), Sweeping),
    Break(
        "takes out another record",
        ("others-stay",),
        Guessing,
        member_key=MemberKey.RECORD,
    ),
    Break(
        "never again",
        ("ensure-after-deregister",),
        Tombstones,
    ),
    Break(
        "by address, not by record",
        ("records-share-an-address",),
        ByAddress,
        member_key=MemberKey.RECORD,
    ),
    Break(
        "by what it injected, not by record",
        ("deregister-by-name-alone",),
        Particular,
        member_key=MemberKey.RECORD,
    ),
    Break("says another address each time", ("create-twice",), AnotherPlace),
    Break("performs dry runs", ("dry-run-changes-nothing",), twist=_without("dryRun")),
    Break(
        "performs dry drains",
        ("dry-run-changes-nothing",),
        twist=_without("dryRun", "drainBackend"),
    ),
    *(
        Break(
            f"performs dry {operation}",
            ("dry-run-changes-nothing",),
            twist=Twist(request=batch_breaks.items_without("dryRun", operation)),
        )
        for operation in ("ensureBackends", "deregisterBackends", "drainBackends")
    ),
    *(
        Break(
            f"performs late items of {operation}",
            (rule,),
            twist=Twist(request=batch_breaks.items_without("notAfter", operation)),
        )
        for operation, rule in (
            ("ensureBackends", "batch-poisoned-item"),
            ("deregisterBackends", "batch-late-removals"),
            ("drainBackends", "batch-late-drains"),
        )
    ),
    Break("performs dry deletions", ("dry-run-changes-nothing",), DeletesDry),
    Break(
        "does not drain",
        ("drained-is-out-of-service",),
        Undraining,
    ),
    Break(
        "drains until the deadline",
        ("drain-ends-when-idle",),
        UntilDeadline,
    ),
    Break("drains all", ("drain-leaves-others",), DrainsAll),
    Break(
        "drains all records of an address",
        ("drain-leaves-others",),
        DrainsAddresses,
        member_key=MemberKey.RECORD,
    ),
    Break("stays draining", ("ensure-after-drain",), StaysDraining),
    Break("forgets connections", ("drain-waits-for-connections",), Impatient),
    Break("one spelling", ("both-spellings",), twist=_refusing(_needs_old_port)),
    Break(
        "refuses the unknown",
        ("unknown-fields",),
        twist=_refusing(lambda said: bool(set(said) - _KNOWN)),
    ),
    Break(
        "refuses null",
        ("null-is-missing",),
        twist=_refusing(lambda said: None in said.values()),
    ),
    Break("performs late calls", ("late-calls",), twist=_without("notAfter")),
    Break(
        "performs late drains",
        ("late-calls",),
        twist=_without("notAfter", "drainBackend"),
    ),
    *(
        Break(f"late {one}", ("late-calls",), twist=_without("notAfter", one))
        for one in ("createLoadBalancer", "ensureLoadBalancer", "deleteLoadBalancer")
    ),
    *(
        Break(name, ("malformed-requests",), twist=Twist(request=twist))
        for name, twist in batch_breaks.LENIENT.items()
    ),
    Break("takes anything", ("malformed-requests",), twist=Twist(request=_forgiving)),
    Break(
        "takes what names no record",
        ("malformed-requests",),
        twist=Twist(request=_naming),
    ),
    Break(
        "spells it differently",
        ("valid-answers",),
        twist=_answering(status="SUCC"),
    ),
    Break(
        "spells it in small letters",
        ("valid-answers",),
        twist=_answering(status="succ"),
    ),
    Break(
        "states in small letters",
        ("ensured-is-listed",),
        twist=Twist(answer=_small_states),
    ),
    Break("records in capital letters", ("ensured-is-listed",), Shouting),
    Break("lists all load balancers", ("load-balancers-are-apart",), ListsAll),
    Break("takes out anywhere", ("load-balancers-are-apart",), TakesOutAnywhere),
    Break("drains anywhere", ("load-balancers-are-apart",), DrainsAnywhere),
    Break("the same epoch always", ("losses-change-the-epoch",), AlwaysTheSame),
    Break(
        "other HTTP status",
        ("valid-answers",),
        twist=Twist(answer=_accepted),
    ),
    Break(
        "delay below zero",
        ("valid-answers",),
        twist=_answering(minRetryDelayInSeconds=-1),
    ),
    Break(
        "works on in the background", ("order-of-arrival",), Background, is_timed=True
    ),
    Break("delivers late", ("lost-caller",), twist=Twist(is_late=True), is_timed=True),
    Break("checks anew", ("succ-is-steady",), Rechecking, is_timed=True),
    Break("works off its backlog", ("nothing-after-succ",), Backlog, is_timed=True),
    Break("loses updates", ("parallel-members",), LostUpdates, is_timed=True),
    Break(
        "forgets in a crash",
        ("restart-in-the-middle",),
        make_on=Forgetful,
        is_timed=True,
    ),
    Break(
        "answers a batch as one",
        ("batch-items-have-results",),
        twist=Twist(answer=batch_breaks.as_one),
    ),
    Break(
        "answers a batch twice",
        ("batch-items-have-results",),
        twist=Twist(answer=batch_breaks.twice),
    ),
    Break(
        "leaves out the last of a batch",
        ("batch-items-have-results",),
        twist=Twist(answer=batch_breaks.without_last),
    ),
    Break("ensures a batch once", ("batch-twice",), batch_breaks.OnceTogether),
    Break("all or nothing", ("batch-poisoned-item",), batch_breaks.AllOrNothing),
    Break(
        "leaves out what failed",
        ("batch-poisoned-item",),
        twist=Twist(answer=batch_breaks.without_failures),
    ),
    Break(
        "overtakes batches", ("batch-in-order",), twist=batch_breaks.SLOW, is_timed=True
    ),
    Break(
        "batches overtake",
        ("batch-in-order",),
        twist=batch_breaks.OVERTAKING,
        is_timed=True,
    ),
    Break("drains in part", ("batch-drains",), batch_breaks.DrainsWhatIsThere),
    Break(
        "forgets batches in a crash",
        ("batch-killed-in-the-middle",),
        make_on=batch_breaks.ForgetsBatches,
        is_timed=True,
    ),
)
