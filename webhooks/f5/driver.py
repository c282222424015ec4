"""The driver's operations: requests in, answers out.

`lbcf.sdk` reads the requests and writes the answers; `load_balancers` does the work.
The controller should know this driver as `memberKey: Address` (a BIG-IP has one member
per address and port) and `addressSource: Backend` (it has nothing to add to a pod's IP
and port).

A member counts as registered as soon as it is in the pool and enabled; from then on
the pool's monitors decide whether it is sent anything.
"""

from datetime import timedelta

import attrs

from lbcf.sdk import (
    BackendState,
    Clock,
    CreateLoadBalancerRequest,
    DeleteLoadBalancerRequest,
    DeregisterBackendRequest,
    DrainBackendRequest,
    Driver,
    EnsureBackendRequest,
    EnsureLoadBalancerRequest,
    ListBackendsAnswer,
    ListBackendsRequest,
    ListedBackend,
    MemberKey,
    Running,
    Succ,
    ValidateBackendRequest,
    ValidateLoadBalancerRequest,
    ValidationOperation,
)
from webhooks.device.attempts import ASK_AGAIN, PATIENCE, attempt
from webhooks.f5.load_balancers import LoadBalancers, parse_identity
from webhooks.f5.members import Member, Wanted
from webhooks.f5.parameters import parse_options
from webhooks.f5.pool import Listed
from webhooks.shared.outcomes import DRY_RUN, Finished, Outcome
from webhooks.shared.parameters import check_no_attributes


@attrs.define(eq=False)
class F5Driver(Driver):
    """Keeps members of BIG-IP's pools over iControl REST.

    Attributes:
        load_balancers: finds the pool that a request is about.
        clock: for the time that a call has.
        patience: how long one operation may take.
    """

    member_key = MemberKey.ADDRESS
    max_concurrent_calls = 8
    summary = "Registers backends as pool members of F5 BIG-IP, over iControl REST."

    load_balancers: LoadBalancers
    clock: Clock
    patience: timedelta = PATIENCE

    async def stop(self) -> None:
        """Save what is not saved, give tokens back, hang up."""
        await self.load_balancers.units.close()

    async def validate_load_balancer(
        self, request: ValidateLoadBalancerRequest
    ) -> None:
        """Refuse what no member could be added to, and say why.

        An update of one whose units are down for the moment is let pass.
        """
        async with attempt(self.clock, patience=self.patience):
            balancer = self.load_balancers.find(request.lb_spec, request.namespace)
            check_no_attributes(request.attributes)
            if request.operation is ValidationOperation.CREATE:
                await balancer.check()

    async def create_load_balancer(self, request: CreateLoadBalancerRequest) -> Succ:
        """Find the pool; it is the operator who makes it."""
        async with attempt(self.clock, request.not_after, self.patience):
            check_no_attributes(request.attributes)
            await self.load_balancers.find(request.lb_spec, request.namespace).check()
        identity = parse_identity(request.lb_spec)
        return Succ(lb_info=identity.render(), lock_key=identity.lock_key)

    async def ensure_load_balancer(self, request: EnsureLoadBalancerRequest) -> Succ:
        """Find the pool, still."""
        async with attempt(self.clock, request.not_after, self.patience):
            check_no_attributes(request.attributes)
            await self.load_balancers.find(request.lb_info, request.namespace).check()
        return Succ(lock_key=parse_identity(request.lb_info).lock_key)

    async def delete_load_balancer(self, _: DeleteLoadBalancerRequest) -> Succ:
        """Leave the pool as it is: it belongs to the operator."""
        return Succ()

    async def validate_backend(self, request: ValidateBackendRequest) -> None:
        """Refuse parameters that a BIG-IP would not take."""
        async with attempt(self.clock, patience=self.patience):
            parse_options(request.parameters)

    async def ensure_backend(self, request: EnsureBackendRequest) -> Succ | Running:
        """Put the member into full service."""
        async with attempt(self.clock, request.not_after, self.patience):
            balancer = self.load_balancers.find(request.lb_info, request.namespace)
            address = balancer.address(request.backend_addr)
            self.load_balancers.allowed.check_address(
                request.backend_addr, address, balancer.identity.devices
            )
            wanted = Wanted(
                address,
                self.load_balancers.mark.of_member(balancer.owner(request.record_id)),
                parse_options(request.parameters),
            )
            if request.dry_run:
                return DRY_RUN
            return _answer(await balancer.ensure(wanted, request.record_id))

    async def drain_backend(self, request: DrainBackendRequest) -> Succ | Running:
        """Disable the member; finished when no connection is left."""
        async with attempt(self.clock, request.not_after, self.patience):
            balancer = self.load_balancers.find(request.lb_info)
            address = balancer.address(request.backend_addr)
            if request.dry_run:
                return DRY_RUN
            return _answer(await balancer.drain(address, request.record_id))

    async def deregister_backend(
        self, request: DeregisterBackendRequest
    ) -> Succ | Running:
        """Force the member offline, then take it out.

        Neither cuts what is established: with a drain's deadline passed, too, a
        BIG-IP lets it run on until one of its ends is closed.
        """
        async with attempt(self.clock, request.not_after, self.patience):
            balancer = self.load_balancers.find(request.lb_info)
            address = balancer.address(request.backend_addr)
            if request.dry_run:
                return DRY_RUN
            return _answer(await balancer.deregister(address, request.record_id))

    async def list_backends(self, request: ListBackendsRequest) -> ListBackendsAnswer:
        """List our members on the unit that is active."""
        async with attempt(self.clock, patience=self.patience):
            balancer = self.load_balancers.find(request.lb_info)
            listing = await balancer.list_members()
        return ListBackendsAnswer(
            epoch=listing.epoch, backends=[_listed(one) for one in listing.members]
        )


def _answer(outcome: Outcome) -> Succ | Running:
    """Return the answer that an outcome stands for."""
    if isinstance(outcome, Finished):
        return Succ(msg=outcome.note)
    left = outcome.connections
    return Running(
        msg=f"{outcome.note} ({left} left)",
        retry_after=ASK_AGAIN,
        active_connections=left,
    )


def _listed(listed: Listed) -> ListedBackend:
    """Return a member as the protocol has it."""
    member = listed.member
    host = member.address.partition("%")[0]
    return ListedBackend(
        backend_addr=f"[{host}]:{member.port}"
        if ":" in host
        else f"{host}:{member.port}",
        record_id=listed.record_id,
        state=_state(member),
        active_connections=listed.connections,
    )


def _state(member: Member) -> BackendState:
    """Return the state of a member."""
    if member.is_offline or member.is_down:
        return BackendState.DOWN
    return BackendState.DRAINING if member.is_disabled else BackendState.ACTIVE
