"""A load balancer that takes effect when it is told to, and a driver in front of it.

It does what `webhooks.memory` does (`test_contracts` holds both to one suite) but it
keeps no order, knows no `notAfter` and remembers nobody: the plainest driver that the
protocol allows. Whoever calls `perform` decides the moment of the effect.
"""

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import cast

import attrs

from lbcf.core.model.operations import Operation
from lbcf.core.model.values import MemberKey
from lbcf.wire import driver_answers as answers
from lbcf.wire import driver_requests as requests
from lbcf.wire.driver import Answer, Request, render_answer
from lbcf.wire.driver_answers import BackendState, Status


AnyMember = requests.BackendRequest[answers.BackendAnswer]
_SUCC = answers.BackendAnswer(status=Status.SUCC)


@attrs.define
class Member:
    """A backend on the load balancer.

    Attributes:
        target: which pool it is in (`target_of`).
        record_id: who put it there, or ensured it last.
        sessions: connections that are open now.
    """

    target: str
    address: str
    record_id: str
    parameters: Mapping[str, str]
    state: BackendState = BackendState.ACTIVE
    sessions: int = 0


def target_of(lb_info: Mapping[str, object]) -> str:
    """Say which pool an identity means; upper and lower case are two spellings of one."""
    return ",".join(f"{k}={v}".lower() for k, v in sorted(lb_info.items()))


class Balancer:
    """Members and operations of one physical system, whatever drivers are called.

    Attributes:
        members: by what tells them apart.
        epoch: another one after each loss of all members.
        replicas: processes of the driver that answer in turn, each with an epoch of its
            own; none: one process.
        names_pools: a load balancer's lockKey is answered when it is created.
        busy: sessions that a member has from the start, by address.
        on_empty: told the record whose drain found nothing left.
        on_cut: told the record that takes a member out, and how many sessions it has.
        on_change: told the call that puts a member in or takes one out, and the member
            that was there.
    """

    def __init__(self, member_key: MemberKey) -> None:
        self.members: dict[Hashable, Member] = {}
        self.epoch = "epoch-1"
        self.replicas: deque[str] = deque()
        self.busy: dict[str, int] = {}
        self.on_empty: Callable[[str], None] = lambda _record_id: None
        self.on_cut: Callable[[str, int], None] = lambda _record_id, _sessions: None
        self.on_change: Callable[[AnyMember, Member | None], None] = lambda *_: None
        self.member_key = member_key
        self.names_pools = False
        self._operations: Mapping[Operation, Callable[[Request[Answer]], Answer]] = {
            Operation.CREATE_LOAD_BALANCER: self._create,
            Operation.ENSURE_LOAD_BALANCER: _nothing,
            Operation.DELETE_LOAD_BALANCER: _nothing,
            Operation.GENERATE_BACKEND_ADDR: _address,
            Operation.ENSURE_BACKEND: self._ensure,
            Operation.DRAIN_BACKEND: self._drain,
            Operation.DEREGISTER_BACKEND: self._deregister,
            Operation.LIST_BACKENDS: self._list,
            Operation.VALIDATE_BACKEND: _agree,
            Operation.VALIDATE_LOAD_BALANCER: _agree,
            Operation.JUDGE_POD_DEREGISTER: _let_go,
        }

    def perform(self, operation: Operation, request: Request[Answer]) -> bytes:
        """Take the effect of a call now, and answer."""
        return render_answer(self._operations[operation](request))

    def find(self, address: str) -> list[Member]:
        """Return all members with an address."""
        return [m for m in self.members.values() if m.address == address]

    def lose_all(self) -> None:
        """Forget every member, as a load balancer does that was reloaded."""
        self.members.clear()
        self.epoch = f"epoch-{int(self.epoch.rpartition('-')[2]) + 1}"

    def _key(self, request: AnyMember) -> Hashable:
        """Say what tells a member apart."""
        named = request.record_id
        if self.member_key is MemberKey.ADDRESS:
            named = request.backend_addr
        return (target_of(request.lb_info), named)

    def _ensure(self, request: Request[Answer]) -> Answer:
        """Put the member into full service, with these parameters."""
        wanted = cast("requests.EnsureBackendRequest", request)
        key = self._key(wanted)
        before = self.members.get(key)
        address = wanted.backend_addr
        sessions = self.busy.get(address, 0) if before is None else before.sessions
        self.on_change(wanted, before)
        self.members[key] = Member(
            target_of(wanted.lb_info),
            address,
            wanted.record_id,
            wanted.parameters,
            sessions=sessions,
        )
        return _SUCC

    def _drain(self, request: Request[Answer]) -> Answer:
        """Let nothing new in; one that is not there is drained."""
        wanted = cast("AnyMember", request)
        member = self.members.get(self._key(wanted))
        if member is not None:
            member.state = BackendState.DRAINING
        if member is None or not member.sessions:
            self.on_empty(wanted.record_id)
            return answers.DrainBackendAnswer(status=Status.SUCC)
        return answers.DrainBackendAnswer(
            status=Status.RUNNING, active_connections=member.sessions
        )

    def _deregister(self, request: Request[Answer]) -> Answer:
        """Take the member out; one that is not there is out.

        One that was drained, and has sessions again, is asked for again.
        """
        wanted = cast("requests.DeregisterBackendRequest", request)
        member = self.members.get(self._key(wanted))
        if member is not None and member.sessions:
            if wanted.drained:
                return answers.BackendAnswer(status=Status.RUNNING)
            self.on_cut(wanted.record_id, member.sessions)
        self.on_change(wanted, self.members.pop(self._key(wanted), None))
        return _SUCC

    def _list(self, request: Request[Answer]) -> Answer:
        """List the members of a load balancer."""
        target = target_of(cast("requests.ListBackendsRequest", request).lb_info)
        listed = [
            answers.ListedBackend(
                backend_addr=member.address,
                record_id=member.record_id,
                state=member.state,
                active_connections=member.sessions,
            )
            for member in self.members.values()
            if member.target == target
        ]
        self.replicas.rotate()
        epoch = self.replicas[0] if self.replicas else self.epoch
        return answers.ListBackendsAnswer(epoch=epoch, backends=listed)

    def _create(self, request: Request[Answer]) -> Answer:
        """Know the load balancer by its spec."""
        spec = cast("requests.CreateLoadBalancerRequest", request).lb_spec
        key = target_of(spec) if self.names_pools else ""
        return answers.CreateLoadBalancerAnswer(
            status=Status.SUCC, lb_info=spec, lock_key=key
        )


def _nothing(_request: Request[Answer]) -> Answer:
    """Succeed without a change."""
    return answers.RetriedAnswer(status=Status.SUCC)


def _agree(_request: Request[Answer]) -> Answer:
    """Object to nothing."""
    return answers.ValidationAnswer(succ=True)


def _let_go(_request: Request[Answer]) -> Answer:
    """Keep no unready pod."""
    return answers.JudgePodDeregisterAnswer(succ=True)


def _address(request: Request[Answer]) -> Answer:
    """Answer host:port of a pod, a node or a node port."""
    asked = cast("requests.GenerateBackendAddrRequest", request)
    host, port = "", 0
    if asked.pod_backend is not None:
        port = asked.pod_backend.port.port
        match asked.pod_backend.pod:
            case {"status": {"podIP": str(found)}}:
                host = found
            case _:
                pass
    elif asked.node_backend is not None:
        port = asked.node_backend.port.port
        match asked.node_backend.node:
            case {"status": {"addresses": [{"address": str(found)}]}}:
                host = found
            case _:
                pass
    if not host:
        return answers.GenerateBackendAddrAnswer(status=Status.FAIL, msg="no address")
    return answers.GenerateBackendAddrAnswer(
        status=Status.SUCC, backend_addr=f"{host}:{port}"
    )
