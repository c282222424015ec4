"""The driver's operations where members have slots: `python -m webhooks.haproxy --slots`.

For backends with a static algorithm, which take no servers at run time. The controller
should know this driver as `memberKey: Address`: a slot is known by its address
alone, so that one record at a time may have it.
"""

from collections.abc import Sequence

import attrs

from lbcf.sdk import (
    DeregisterBackendRequest,
    DrainBackendRequest,
    Driver,
    EnsureBackendRequest,
    Fail,
    ListBackendsAnswer,
    ListBackendsRequest,
    ListedBackend,
    MemberKey,
    Running,
    Succ,
    ValidateBackendRequest,
)
from webhooks.haproxy.driver import HaproxyDriver, answer_of, state_of, word_of
from webhooks.haproxy.members import parse_address
from webhooks.haproxy.pool import STARTING, Pool
from webhooks.haproxy.slot_pool import SlotListing, SlotPool
from webhooks.shared.addresses import Address
from webhooks.shared.leaving import leaving
from webhooks.shared.outcomes import DRY_RUN


@attrs.define(eq=False)
class SlotDriver(HaproxyDriver):
    """Keeps members of HAProxy's backends in slots that their operator made."""

    member_key = MemberKey.ADDRESS
    summary = "Registers backends in server slots of HAProxy, over its runtime API."

    # Who takes which slot is found out one by one.
    ensure_backends = Driver.ensure_backends
    deregister_backends = Driver.deregister_backends

    async def validate_backend(self, request: ValidateBackendRequest) -> None:
        """Refuse parameters: what members are like is said by the `server-template`."""
        _check_no_parameters(request.parameters)

    async def ensure_backend(self, request: EnsureBackendRequest) -> Succ:
        """Put the member into full service on all HAProxys."""
        async with self._attempt():
            balancer = self.load_balancers.find(request.lb_info, request.namespace)
            address = self.load_balancers.member_address(request.backend_addr)
            _check_no_parameters(request.parameters)
            if request.dry_run:
                return DRY_RUN
            owner = balancer.owner(self._name(request.record_id).record_id)
            outcome = await balancer.settle(
                lambda pool: self._slots(pool).ensure(address, owner)
            )
        return Succ(msg=outcome.note, in_service=outcome.note != STARTING)

    async def drain_backend(self, request: DrainBackendRequest) -> Succ | Running:
        """Send nothing new to the member; finished when nothing is left anywhere."""
        async with self._attempt():
            balancer = self.load_balancers.find(request.lb_info)
            address = leaving(parse_address, request.backend_addr)
            if request.dry_run:
                return DRY_RUN
            outcome = await balancer.settle(
                lambda pool: self._slots(pool).drain(
                    address, request.record_id, locked=_is_locked(request)
                )
            )
        return answer_of(outcome, counted=True)

    async def deregister_backend(
        self, request: DeregisterBackendRequest
    ) -> Succ | Running:
        """Free the member's slot on all HAProxys.

        What is in progress is cut unless the member was drained to the end.
        """
        async with self._attempt():
            balancer = self.load_balancers.find(request.lb_info)
            address = leaving(parse_address, request.backend_addr)
            if request.dry_run:
                return DRY_RUN
            outcome = await balancer.settle(
                lambda pool: self._slots(pool).deregister(
                    address,
                    request.record_id,
                    locked=_is_locked(request),
                    may_cut=not request.drained,
                )
            )
        return answer_of(outcome, counted=False)

    async def list_backends(self, request: ListBackendsRequest) -> ListBackendsAnswer:
        """List the members that have slots, without their records: nobody knows these.

        Epochs and states are those of `HaproxyDriver`.
        """
        async with self._attempt():
            balancer = self.load_balancers.find(request.lb_info)
            listings = await balancer.on_all(
                lambda pool: self._slots(pool).list_members()
            )
        addresses = dict.fromkeys(one for each in listings for one in each.members)
        return ListBackendsAnswer(
            epoch=",".join(listing.epoch for listing in listings),
            backends=[_listed(address, listings) for address in addresses],
        )

    async def _examine(self, pool: Pool) -> None:
        """Find out whether members can be put into slots of a backend."""
        await self._slots(pool).probe()

    def _slots(self, pool: Pool) -> SlotPool:
        return SlotPool(pool, self.prefix)


def _is_locked(request: DrainBackendRequest | DeregisterBackendRequest) -> bool:
    """Tell whether the record alone may have its address (no memberKey: LBCF)."""
    return request.member_key is not MemberKey.RECORD


def _check_no_parameters(parameters: dict[str, str]) -> None:
    """Let pass a backend without parameters.

    Raises:
        Fail: it has one.
    """
    if parameters:
        raise Fail(
            f"parameters: {min(parameters)!r:.60} cannot be set with --slots; say in "
            "the backend's `server-template` what members are like"
        )


def _listed(address: Address, listings: Sequence[SlotListing]) -> ListedBackend:
    """Return one member as all HAProxys together have it."""
    servers = [listing.members.get(address) for listing in listings]
    return ListedBackend(
        backend_addr=str(address),
        state=state_of(servers),
        reason=word_of(servers),
        active_connections=sum(one.loads.get(address, 0) for one in listings),
    )
