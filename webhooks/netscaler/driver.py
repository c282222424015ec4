"""The driver's operations: requests in, answers out.

`lbcf.sdk` reads the requests and writes the answers; `group` does the work. The
controller should know this driver as `memberKey: Address` (a service group has one
member per address and port) and `addressSource: Backend`.

When a member counts as registered: as soon as it is bound and enabled. The group's
monitors decide when it is sent requests, and go on deciding.
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
    SystemClock,
    ValidateBackendRequest,
    ValidateLoadBalancerRequest,
    ValidationOperation,
)
from lbcf.sdk import Outcome as ItemOutcome
from webhooks.device.attempts import ASK_AGAIN, PATIENCE, attempt, validation
from webhooks.device.errors import InvalidInput
from webhooks.device.flags import Ground
from webhooks.device.looks import LOOK_PERIOD
from webhooks.netscaler.decisions import Wanted
from webhooks.netscaler.group import Group
from webhooks.netscaler.load_balancers import LoadBalancers, parse_identity
from webhooks.netscaler.members import (
    DEFAULT_PREFIX,
    Mark,
    checked_prefix,
    parse_address,
)
from webhooks.netscaler.parameters import parse_options
from webhooks.netscaler.replies import MemberRow
from webhooks.shared.addresses import Address
from webhooks.shared.batches import earliest, together
from webhooks.shared.leaving import all_leaving, leaving
from webhooks.shared.outcomes import DRY_RUN, Finished, Outcome
from webhooks.shared.parameters import check_no_attributes


@attrs.define(eq=False)
class NetscalerDriver(Driver):
    """Keeps members of service groups over NITRO.

    Attributes:
        ground: which devices, and how they are reached.
        prefix: marks of our members, and names of our servers, begin with it and `-`.
        clock: for times.
        patience: how long one operation may take.
        look_period: how long what was listed may be told again.
    """

    member_key = MemberKey.ADDRESS
    max_concurrent_calls = 16
    summary = "Registers backends as service group members of Citrix ADC, over NITRO."
    # An appliance makes one bulk request at a time: who comes meanwhile goes with the next.
    batch = Batch(max_items=100, max_delay=timedelta(milliseconds=500))

    ground: Ground
    prefix: str = attrs.field(default=DEFAULT_PREFIX, converter=checked_prefix)
    clock: Clock = attrs.field(factory=SystemClock)
    patience: timedelta = PATIENCE
    look_period: timedelta = LOOK_PERIOD
    _load_balancers: LoadBalancers = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Know no load balancer yet."""
        self._load_balancers = LoadBalancers(
            self.ground, self.prefix, self.clock, self.look_period
        )

    async def stop(self) -> None:
        """Save what is not saved, and end all sessions."""
        await self._load_balancers.close()

    async def validate_load_balancer(
        self, request: ValidateLoadBalancerRequest
    ) -> None:
        """Refuse what no member could be added to, and say why.

        Where nobody answers, this is an outage and no refusal. An update of one whose
        appliance is down for the moment is let pass.
        """
        async with validation(self.clock, self.patience):
            group = self._load_balancers.find(request.lb_spec, request.namespace)
            check_no_attributes(request.attributes)
            if request.operation is ValidationOperation.CREATE:
                await group.probe()

    async def create_load_balancer(self, request: CreateLoadBalancerRequest) -> Succ:
        """Find the service group; it is the operator who makes it."""
        async with attempt(self.clock, request.not_after, self.patience):
            check_no_attributes(request.attributes)
            await self._load_balancers.find(request.lb_spec, request.namespace).probe()
        identity = parse_identity(request.lb_spec)
        return Succ(lb_info=identity.render(), lock_key=identity.lock_key)

    async def ensure_load_balancer(self, request: EnsureLoadBalancerRequest) -> Succ:
        """Find the service group, still."""
        async with attempt(self.clock, request.not_after, self.patience):
            check_no_attributes(request.attributes)
            await self._load_balancers.find(request.lb_info, request.namespace).probe()
        return Succ(lock_key=parse_identity(request.lb_info).lock_key)

    async def delete_load_balancer(self, _: DeleteLoadBalancerRequest) -> Succ:
        """Leave the service group as it is: it belongs to the operator."""
        return Succ()

    async def validate_backend(self, request: ValidateBackendRequest) -> None:
        """Refuse parameters that the appliance would not take."""
        async with attempt(self.clock, patience=self.patience):
            parse_options(request.parameters)

    async def ensure_backend(self, request: EnsureBackendRequest) -> Succ | Running:
        """Put the member into the state that its parameters ask for."""
        async with attempt(self.clock, request.not_after, self.patience):
            group = self._load_balancers.find(request.lb_info, request.namespace)
            wanted = self._wanted(group, request)
            if request.dry_run:
                return DRY_RUN
            outcome = await group.ensure(wanted)
        return _answer(outcome, counted=False)

    async def ensure_backends(
        self, requests: Sequence[EnsureBackendRequest]
    ) -> Mapping[str, ItemOutcome]:
        """Put many members into service by few bulk requests."""
        return await together(requests, self._ensure_alike)

    async def _ensure_alike(
        self, requests: Sequence[EnsureBackendRequest]
    ) -> Mapping[str, ItemOutcome]:
        first, wanted = requests[0], dict[str, Wanted]()
        async with attempt(self.clock, earliest(requests), self.patience):
            group = self._load_balancers.find(first.lb_info, first.namespace)
            for one in requests:
                with contextlib.suppress(InvalidInput):
                    wanted[one.record_id] = self._wanted(group, one)
            done = await group.ensure_all(wanted)
        return _answers(done, counted=False)

    def _wanted(self, group: Group, request: EnsureBackendRequest) -> Wanted:
        """Return what a member is to be like.

        Raises:
            InvalidInput: it cannot be.
        """
        address = parse_address(request.backend_addr)
        devices = parse_identity(request.lb_info).devices
        self.ground.allowed.check_address(request.backend_addr, address, devices)
        return Wanted(
            Mark(self.prefix, request.record_id, group.pool),
            address,
            parse_options(request.parameters),
        )

    async def drain_backend(self, request: DrainBackendRequest) -> Succ | Running:
        """Disable the member gracefully; finished when nothing is left on it."""
        async with attempt(self.clock, request.not_after, self.patience):
            group = self._load_balancers.find(request.lb_info)
            address = leaving(parse_address, request.backend_addr)
            if request.dry_run:
                return DRY_RUN
            until = request.drain.deadline if request.drain else None
            outcome = await group.drain(address, request.record_id, until)
        return _answer(outcome, counted=True)

    async def drain_backends(
        self, requests: Sequence[DrainBackendRequest]
    ) -> Mapping[str, ItemOutcome]:
        """Disable many members by a bulk request; one reading tells what is on all."""
        return await together(requests, self._drain_alike)

    async def _drain_alike(
        self, requests: Sequence[DrainBackendRequest]
    ) -> Mapping[str, ItemOutcome]:
        async with attempt(self.clock, earliest(requests), self.patience):
            group = self._load_balancers.find(requests[0].lb_info)
            places, gone = all_leaving(parse_address, requests)
            until = {
                one.record_id: one.drain.deadline if one.drain else None
                for one in requests
            }
            done = await group.drain_all(places, until)
        return {**gone, **_answers(done, counted=True)}

    async def deregister_backend(
        self, request: DeregisterBackendRequest
    ) -> Succ | Running:
        """Unbind the member; finished when the configuration is saved without it."""
        async with attempt(self.clock, request.not_after, self.patience):
            group = self._load_balancers.find(request.lb_info)
            address = leaving(parse_address, request.backend_addr)
            if request.dry_run:
                return DRY_RUN
            outcome = await group.deregister(
                address, request.record_id, drained=request.drained
            )
        return _answer(outcome, counted=False)

    async def deregister_backends(
        self, requests: Sequence[DeregisterBackendRequest]
    ) -> Mapping[str, ItemOutcome]:
        """Unbind many members by a bulk request; each is done once that is saved."""
        return await together(requests, self._deregister_alike)

    async def _deregister_alike(
        self, requests: Sequence[DeregisterBackendRequest]
    ) -> Mapping[str, ItemOutcome]:
        async with attempt(self.clock, earliest(requests), self.patience):
            group = self._load_balancers.find(requests[0].lb_info)
            places, gone = all_leaving(parse_address, requests)
            drained = {one.record_id for one in requests if one.drained}
            done = await group.deregister_all(places, drained)
        return {**gone, **_answers(done, counted=False)}

    async def list_backends(self, request: ListBackendsRequest) -> ListBackendsAnswer:
        """List our members; the epoch changes with a reboot and with a failover.

        It may be told a while later than it is so, as what other people change may be.
        """
        async with attempt(self.clock, patience=self.patience):
            listing = await self._load_balancers.find(request.lb_info).list_members()
        return ListBackendsAnswer(
            epoch=listing.epoch,
            backends=[
                _listed(address, mark, row, listing.loads)
                for address, (mark, row) in listing.members.items()
            ],
        )


def _answers(
    outcomes: Mapping[str, Outcome], *, counted: bool
) -> Mapping[str, ItemOutcome]:
    """Return the answers that outcomes stand for."""
    return {record: _answer(one, counted=counted) for record, one in outcomes.items()}


def _answer(outcome: Outcome, *, counted: bool) -> Succ | Running:
    """Return the answer that an outcome stands for.

    What waits for connections is worth a look each second; what waits for something
    else is left to the caller's own pace.
    """
    if isinstance(outcome, Finished):
        return Succ(msg=outcome.note)
    left = outcome.connections
    return Running(
        msg=f"{outcome.note} ({left} left)" if left else outcome.note,
        retry_after=ASK_AGAIN if left else None,
        active_connections=left if counted else None,
    )


def _listed(
    address: Address, mark: Mark, row: MemberRow, loads: Mapping[Address, int]
) -> ListedBackend:
    """Return one member as the appliance has it."""
    return ListedBackend(
        backend_addr=str(address),
        record_id=mark.record_id,
        state=_state(row),
        active_connections=loads.get(address, 0),
        reason="" if row.is_up else row.svrstate,
    )


def _state(row: MemberRow) -> BackendState:
    """Return the state of a member."""
    if not row.enabled:
        return BackendState.DRAINING
    return BackendState.ACTIVE if row.is_up else BackendState.DOWN
