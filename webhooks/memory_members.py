"""The state of a load balancer that exists in memory only.

`webhooks.memory` changes it by the protocol, `webhooks.memory_control` by the wishes of
a test: sessions come and go, and a restart forgets every member.
"""

from collections.abc import Hashable, Iterator, Mapping

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
    """

    lb_info: Mapping[str, str]
    backend_addr: str
    record_id: str
    parameters: Mapping[str, str]
    state: sdk.BackendState = sdk.BackendState.ACTIVE
    sessions: int = 0


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
        self._members: dict[Hashable, Member] = {}
        self.epoch = clock.new_id()

    def __iter__(self) -> Iterator[Member]:
        """Go through all members, the oldest first."""
        return iter(self._members.values())

    def ensure(self, request: sdk.EnsureBackendRequest) -> None:
        """Put the member into full service; its sessions go on."""
        sessions = self.find(request).sessions if self.has(request) else 0
        self._members[self._key(request)] = Member(
            lb_info=request.lb_info,
            backend_addr=request.backend_addr,
            record_id=request.record_id,
            parameters=request.parameters,
            sessions=sessions,
        )

    def has(self, request: AnyRequest) -> bool:
        """Tell whether the member is there."""
        return self._key(request) in self._members

    def find(self, request: AnyRequest) -> Member:
        """Return the member.

        Raises:
            NotThere: it is not on this load balancer.
        """
        try:
            return self._members[self._key(request)]
        except KeyError:
            raise sdk.NotThere(f"{request.backend_addr} is not there") from None

    def remove(self, request: AnyRequest) -> None:
        """Take the member out and cut its sessions.

        Raises:
            NotThere: it is not on this load balancer.
        """
        self.cut += self.find(request).sessions
        del self._members[self._key(request)]

    def lose_all(self) -> None:
        """Forget every member, as a load balancer does that was restarted."""
        self._members.clear()
        self.epoch = self._clock.new_id()

    def _key(self, request: AnyRequest) -> Hashable:
        """Return what tells members apart: the record, or the address."""
        by_record = self._member_key is sdk.MemberKey.RECORD
        name = request.record_id if by_record else request.backend_addr
        return (frozenset(request.lb_info.items()), name)
