"""The driver's operations: requests in, answers out.

`lbcf.sdk` reads the requests and writes the answers; `load_balancers` does the work.
The controller should know this driver as `memberKey: Address` (a BIG-IP has one member
per address and port) and `addressSource: Backend` (it has nothing to add to a pod's IP
and port).

A member counts as registered as soon as it is in the pool and enabled; from then on
the pool's monitors decide whether it is sent anything.
"""

import contextlib

from collections.abc import Mapping, Sequence
from datetime import timedelta

import attrs

from lbcf.sdk import (
    BackendState,
    Batch,
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
from lbcf.sdk import Outcome as ItemOutcome
from webhooks.device.attempts import ASK_AGAIN, PATIENCE, attempt, validation
from webhooks.device.errors import InvalidInput
from webhooks.f5.load_balancers import LoadBalancer, LoadBalancers, parse_identity
from webhooks.f5.members import Member, Wanted
from webhooks.f5.parameters import parse_options
from webhooks.f5.pool import LATER, UNCOUNTED, Listed
from webhooks.shared.batches import earliest, together
from webhooks.shared.leaving import all_leaving, leaving
from webhooks.shared.outcomes import DRY_RUN, Finished, Outcome
from webhooks.shared.parameters import check_no_attributes


NEXT = timedelta(milliseconds=200)
"""When to ask again for what an attempt had no time for."""


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
    # A unit makes one transaction at a time: what comes meanwhile goes with the next one.
    batch = Batch(max_items=100, max_delay=timedelta(milliseconds=500))

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

        Where nobody answers, this is an outage and no refusal. An update of one whose
        units are down for the moment is let pass.
        """
        async with validation(self.clock, patience=self.patience):
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
            wanted = self._wanted(balancer, request)
            if request.dry_run:
                return DRY_RUN
            return _answer(await balancer.ensure(wanted, request.record_id))

    async def ensure_backends(
        self, requests: Sequence[EnsureBackendRequest]
    ) -> Mapping[str, ItemOutcome]:
        """Put many members into full service, by a transaction."""
        return await together(requests, self._ensure_alike)

    async def _ensure_alike(
        self, requests: Sequence[EnsureBackendRequest]
    ) -> Mapping[str, ItemOutcome]:
        first, wanted = requests[0], dict[str, Wanted]()
        async with attempt(self.clock, earliest(requests), self.patience) as until:
            balancer = self.load_balancers.find(first.lb_info, first.namespace)
            for one in requests:
                with contextlib.suppress(InvalidInput):
                    wanted[one.record_id] = self._wanted(balancer, one)
            return _answers(await balancer.ensure_all(wanted, until))

    def _wanted(self, balancer: LoadBalancer, request: EnsureBackendRequest) -> Wanted:
        """Return what a member is to be like.

        Raises:
            InvalidInput: it cannot be.
        """
        address = balancer.address(request.backend_addr)
        self.load_balancers.allowed.check_address(
            request.backend_addr, address, balancer.identity.devices
        )
        owner = balancer.owner(request.record_id)
        return Wanted(
            address,
            self.load_balancers.mark.of_member(owner),
            parse_options(request.parameters),
        )

    async def drain_backend(self, request: DrainBackendRequest) -> Succ | Running:
        """Disable the member; finished when no connection is left."""
        async with attempt(self.clock, request.not_after, self.patience):
            balancer = self.load_balancers.find_known(request.lb_info)
            address = leaving(balancer.address, request.backend_addr)
            if request.dry_run:
                return DRY_RUN
            return _answer(await balancer.drain(address, request.record_id))

    async def drain_backends(
        self, requests: Sequence[DrainBackendRequest]
    ) -> Mapping[str, ItemOutcome]:
        """Disable many members by a transaction; one reading tells what is left on all."""
        return await together(requests, self._drain_alike)

    async def _drain_alike(
        self, requests: Sequence[DrainBackendRequest]
    ) -> Mapping[str, ItemOutcome]:
        async with attempt(self.clock, earliest(requests), self.patience) as until:
            balancer = self.load_balancers.find_known(requests[0].lb_info)
            places, gone = all_leaving(balancer.address, requests)
            return {**gone, **_answers(await balancer.drain_all(places, until))}

    async def deregister_backend(
        self, request: DeregisterBackendRequest
    ) -> Succ | Running:
        """Force the member offline, then take it out.

        Neither cuts what is established: with a drain's deadline passed, too, a
        BIG-IP lets it run on until one of its ends is closed.
        """
        async with attempt(self.clock, request.not_after, self.patience):
            balancer = self.load_balancers.find_known(request.lb_info)
            address = leaving(balancer.address, request.backend_addr)
            if request.dry_run:
                return DRY_RUN
            return _answer(await balancer.deregister(address, request.record_id))

    async def deregister_backends(
        self, requests: Sequence[DeregisterBackendRequest]
    ) -> Mapping[str, ItemOutcome]:
        """Force many members offline, then take them out, by a transaction each."""
        return await together(requests, self._deregister_alike)

    async def _deregister_alike(
        self, requests: Sequence[DeregisterBackendRequest]
    ) -> Mapping[str, ItemOutcome]:
        async with attempt(self.clock, earliest(requests), self.patience) as until:
            balancer = self.load_balancers.find_known(requests[0].lb_info)
            places, gone = all_leaving(balancer.address, requests)
            return {**gone, **_answers(await balancer.deregister_all(places, until))}

    async def list_backends(self, request: ListBackendsRequest) -> ListBackendsAnswer:
        """List our members on the unit that is active."""
        async with attempt(self.clock, patience=self.patience):
            balancer = self.load_balancers.find_known(request.lb_info)
            listing = await balancer.list_members()
        return ListBackendsAnswer(
            epoch=listing.epoch, backends=[_listed(one) for one in listing.members]
        )


def _answers(outcomes: Mapping[str, Outcome]) -> Mapping[str, ItemOutcome]:
    """Return the answers that outcomes stand for."""
    return {record: _answer(outcome) for record, outcome in outcomes.items()}


def _answer(outcome: Outcome) -> Succ | Running:
    """Return the answer that an outcome stands for."""
    if isinstance(outcome, Finished):
        return Succ(msg=outcome.note)
    if outcome is LATER:  # nobody has counted, and there is nothing to wait for
        return Running(msg=outcome.note, retry_after=NEXT)
    if outcome is UNCOUNTED:
        return Running(msg=outcome.note, retry_after=ASK_AGAIN)
    left = outcome.connections
    return Running(
        msg=f"{outcome.note} ({left} left)",
        retry_after=ASK_AGAIN,
        active_connections=left,
    )


def _listed(listed: Listed) -> ListedBackend:
    """Return a member as the protocol has it."""
    member = listed.member
    return ListedBackend(
        backend_addr=str(listed.address),
        record_id=listed.record_id,
        state=_state(member),
        active_connections=listed.connections,
        reason=_word(member),
    )


def _word(member: Member) -> str:
    """Return why it is not in full service, as the device has it; empty: it is."""
    if member.is_offline or member.is_down:
        return member.state
    return member.session if member.is_disabled else ""


def _state(member: Member) -> BackendState:
    """Return the state of a member."""
    if member.is_offline or member.is_down:
        return BackendState.DOWN
    return BackendState.DRAINING if member.is_disabled else BackendState.ACTIVE
