"""The state of a load balancer that exists in memory only.

`webhooks.memory` changes it by the protocol, `webhooks.memory_control` by the wishes of
a test: sessions come and go, and a restart forgets every member.
"""

from collections.abc import Collection, Iterator, Mapping

import attrs

from lbcf import sdk


AnyRequest = sdk.BackendRequest[sdk.BackendAnswer]
"""A request about one member, whichever it is."""


@attrs.define
class Member:
    """A backend on a load balancer.

    Attributes:
        lb_info: the load balancer.
        backend_addr: where it sends to.
        record_id: who put it there, or ensured it last.
        parameters: as ensured last.
        state: Active, or Draining: nothing new comes.
        sessions: connections that are open now.
        up_at: monotonic seconds at which its first check passes; None: it is not checked.
    """

    lb_info: Mapping[str, str]
    backend_addr: str
    record_id: str
    parameters: Mapping[str, str]
    state: sdk.BackendState = sdk.BackendState.ACTIVE
    sessions: int = 0
    up_at: float | None = None


class Members:
    """All members of all load balancers.

    Attributes:
        epoch: another one after each loss of all members.
        cut: how many sessions were cut by taking their member out.
    """

    def __init__(self, member_key: sdk.MemberKey, clock: sdk.Clock) -> None:
        self.cut = 0
        self._member_key = member_key
        self._clock = clock
        self._members: dict[frozenset[tuple[str, str]], dict[str, Member]] = {}
        self.epoch = clock.new_id()

    def __iter__(self) -> Iterator[Member]:
        """Go through all members, load balancer by load balancer."""
        for members in self._members.values():
            yield from members.values()

    def of(self, lb_info: Mapping[str, str]) -> Collection[Member]:
        """Return the members of a load balancer, the oldest first."""
        return self._members.get(frozenset(lb_info.items()), {}).values()

    def ensure(self, request: sdk.EnsureBackendRequest) -> bool | None:
        """Put the member into full service; its sessions go on.

        Returns:
            Whether its first check has passed, `checkSeconds` of its parameters after it
            came; None where it has no such parameter.

        Raises:
            Fail: `checkSeconds` is no number.
        """
        before = self._at(request)
        sessions = before.sessions if before else 0
        up_at = (
            self._first_check(request.parameters) if before is None else before.up_at
        )
        load_balancer, name = self._key(request)
        self._members.setdefault(load_balancer, {})[name] = Member(
            lb_info=request.lb_info,
            backend_addr=request.backend_addr,
            record_id=request.record_id,
            parameters=request.parameters,
            sessions=sessions,
            up_at=up_at,
        )
        return None if up_at is None else self._clock.monotonic() >= up_at

    def _first_check(self, parameters: Mapping[str, str]) -> float | None:
        seconds = parameters.get("checkSeconds", "")
        if not seconds:
            return None
        if not seconds.isdecimal():
            raise sdk.Fail(
                f"checkSeconds must be a number of seconds, not {seconds!r:.60}"
            )
        return self._clock.monotonic() + int(seconds)

    def state_of(self, member: Member) -> sdk.BackendState:
        """Return the member's state: down until its first check has passed."""
        waits = member.up_at is not None and self._clock.monotonic() < member.up_at
        if member.state is sdk.BackendState.ACTIVE and waits:
            return sdk.BackendState.DOWN
        return member.state

    def has(self, request: AnyRequest) -> bool:
        """Tell whether there is a member, whosever it is."""
        return self._at(request) is not None

    def find(self, request: AnyRequest) -> Member:
        """Return the member.

        Raises:
            NotThere: it is not on this load balancer, or may be another record's.
        """
        member = self._at(request)
        if member is None:
            raise sdk.NotThere(f"{request.backend_addr} is not there")
        # Nobody locks addresses under memberKey Record: that of another record lives on.
        is_locked = request.member_key is not sdk.MemberKey.RECORD
        if not is_locked and member.record_id != request.record_id:
            other = member.record_id
            raise sdk.NotThere(f"{request.backend_addr} is that of record {other}")
        return member

    def remove(self, request: AnyRequest) -> None:
        """Take the member out and cut its sessions.

        Raises:
            NotThere: as `find` says.
        """
        self.cut += self.find(request).sessions
        load_balancer, name = self._key(request)
        del self._members[load_balancer][name]
        if not self._members[load_balancer]:
            del self._members[load_balancer]

    def lose_all(self) -> None:
        """Forget every member, as a load balancer does that was restarted."""
        self._members.clear()
        self.epoch = self._clock.new_id()

    def _at(self, request: AnyRequest) -> Member | None:
        """Return the member that the load balancer knows by that name, if there is one."""
        load_balancer, name = self._key(request)
        return self._members.get(load_balancer, {}).get(name)

    def _key(self, request: AnyRequest) -> tuple[frozenset[tuple[str, str]], str]:
        """Return the load balancer, and what tells its members apart."""
        by_record = self._member_key is sdk.MemberKey.RECORD
        name = request.record_id if by_record else request.backend_addr
        return frozenset(request.lb_info.items()), name
