"""The driver's operations: requests in, answers out.

`lbcf.sdk` reads the requests and writes the answers; `balancer` does the work. The
controller should know this driver as `memberKey: Address` (ELBv2 knows a target by its
id and port).
"""

import asyncio

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import attrs

from lbcf.sdk import (
    BackendState,
    Batch,
    CreateLoadBalancerRequest,
    DeleteLoadBalancerRequest,
    DeregisterBackendRequest,
    DrainBackendRequest,
    Driver,
    EnsureBackendRequest,
    EnsureLoadBalancerRequest,
    Fail,
    GenerateBackendAddrRequest,
    Ingress,
    ListBackendsAnswer,
    ListBackendsRequest,
    ListedBackend,
    MemberKey,
    RetryAfter,
    Running,
    Succ,
    ValidateBackendRequest,
    ValidateLoadBalancerRequest,
    ValidationOperation,
)
from webhooks.elbv2.backends import backend_target
from webhooks.elbv2.balancer import Found, LoadBalancer, LoadBalancers
from webhooks.elbv2.changes import MOST_TARGETS
from webhooks.elbv2.decisions import LATE_EFFECT
from webhooks.elbv2.errors import (
    Elbv2Error,
    Forbidden,
    LoadBalancerGone,
    Throttled,
    Uncertain,
    Unreachable,
)
from webhooks.elbv2.load_balancers import parse_identity, parse_spec
from webhooks.elbv2.members import Listing, Member, Outcome
from webhooks.elbv2.parameters import check_change, leaving_options, parse_options
from webhooks.elbv2.targets import Health, Standing, Target, TargetType, parse_target
from webhooks.shared.identity import Owner, digest
from webhooks.shared.leaving import leaving
from webhooks.shared.outcomes import DRY_RUN, Finished


ASK_AGAIN = timedelta(seconds=2)
"""What is draining may be gone so soon."""

PATIENCE = timedelta(seconds=8)
"""An operation ends within it, whatever AWS does: callers wait 10 s by default."""

_REGISTERED = "registered"
"""Key in injectedInfo: the target that this driver has registered."""


@attrs.define(eq=False)
class Elbv2Driver(Driver):
    """Keeps targets of ELBv2's target groups.

    Attributes:
        load_balancers: finds the target groups that a request is about.
        patience: how long one operation may take.
        ask_again: after what time a drain is asked for again.
    """

    member_key = MemberKey.ADDRESS
    late_effect = LATE_EFFECT
    summary = "Registers backends as targets of AWS ELBv2 target groups."
    # All items of a batch meet in `changes`, and share a call.
    batch = Batch(max_items=MOST_TARGETS, max_delay=timedelta(milliseconds=500))
    batch_concurrency = MOST_TARGETS

    load_balancers: LoadBalancers
    patience: timedelta = PATIENCE
    ask_again: timedelta = ASK_AGAIN

    async def stop(self) -> None:
        """Close the connections and the claims."""
        await self.load_balancers.close()

    async def validate_load_balancer(
        self, request: ValidateLoadBalancerRequest
    ) -> None:
        """Refuse what no target could be registered at, and say why.

        While AWS cannot be asked that is an outage and no refusal; an update is let pass.
        """
        async with self._attempt():
            parse_spec(request.lb_spec)
            if request.operation is ValidationOperation.CREATE:
                try:
                    await self.load_balancers.look_up(
                        request.lb_spec, request.namespace
                    )
                except Unreachable as error:
                    raise RetryAfter(self.ask_again, str(error)) from error

    async def create_load_balancer(self, request: CreateLoadBalancerRequest) -> Succ:
        """Find the target groups, and give them their attributes.

        It is the operator who makes them.
        """
        async with self._attempt():
            found = await self.load_balancers.look_up(
                request.lb_spec, request.namespace
            )
            info = found.identity.render()
            if not request.dry_run:
                await self._set_attributes(info, request.attributes)
            return attrs.evolve(await self._reached(found), lb_info=info)

    async def ensure_load_balancer(self, request: EnsureLoadBalancerRequest) -> Succ:
        """Find the target groups, still, and give them their attributes."""
        async with self._attempt():
            found = await self.load_balancers.look_up(
                request.lb_info, request.namespace
            )
            if not request.dry_run:
                await self._set_attributes(request.lb_info, request.attributes)
            return await self._reached(found)

    async def delete_load_balancer(self, _: DeleteLoadBalancerRequest) -> Succ:
        """Leave the target groups as they are: they belong to the operator."""
        return Succ()

    async def validate_backend(self, request: ValidateBackendRequest) -> None:
        """Refuse parameters that AWS would not take, or not while it is registered."""
        async with self._attempt():
            parse_options(request.parameters)
            if request.old_parameters is not None:
                check_change(request.old_parameters, request.parameters)

    async def generate_backend_addr(self, request: GenerateBackendAddrRequest) -> Succ:
        """Answer what ELBv2 will know the backend by."""
        async with self._attempt():
            identity = parse_identity(request.lb_info)
            target = backend_target(request, identity.target_type or TargetType.IP)
        return Succ(backend_addr=str(target))

    async def ensure_backend(self, request: EnsureBackendRequest) -> Succ:
        """Put the member into full service in all target groups."""
        async with self._attempt():
            balancer, member = await self._found(request)
            if request.dry_run:
                return DRY_RUN
            note = await balancer.ensure(member)
        kept = {_REGISTERED: str(member.target)}
        return Succ(msg=note, injected_info=kept, in_service=not note)

    async def drain_backend(self, request: DrainBackendRequest) -> Succ | Running:
        """Take the member out; finished when no target group shows it any more."""
        async with self._attempt():
            balancer, member = await self._found(request)
            if request.dry_run:
                return DRY_RUN
            outcome = await balancer.settle(lambda group: group.drain(member))
        return self._answer(outcome)

    async def deregister_backend(
        self, request: DeregisterBackendRequest
    ) -> Succ | Running:
        """Take the member out of all target groups, if this driver put it there."""
        async with self._attempt():
            balancer, member = await self._found(request)
            if request.dry_run:
                return DRY_RUN
            outcome = await balancer.settle(lambda group: group.deregister(member))
        return self._answer(outcome)

    async def list_backends(self, request: ListBackendsRequest) -> ListBackendsAnswer:
        """List our members in all target groups.

        The epoch changes when somebody else took out what is ours, and when it is not
        known any more what is. A member that is not in all of them, or not healthy in
        all of them, is `Down`.
        """
        async with self._attempt():
            balancer = await self.load_balancers.find(request.lb_info)
            listings = await balancer.on_all(lambda group: group.listing())
        targets = dict.fromkeys(one for listing in listings for one in listing.targets)
        losses = ",".join(str(listing.losses) for listing in listings)
        return ListBackendsAnswer(
            epoch=f"{self.load_balancers.claims.memory}/{losses}",
            backends=[_listed(target, listings) for target in targets],
        )

    async def _found(self, request: "AnyBackendRequest") -> tuple[LoadBalancer, Member]:
        """Return the load balancer and the member that a request is about.

        Raises:
            NotThere: the member is to leave, and there can be none at its address.
        """
        namespace: str | None = None
        if isinstance(request, EnsureBackendRequest):
            target, namespace = parse_target(request.backend_addr), request.namespace
            self.load_balancers.check_address(request.backend_addr, target)
            options = parse_options(request.parameters)
        else:
            target = leaving(parse_target, request.backend_addr)
            options = leaving_options(request.parameters)
        balancer = await self.load_balancers.find(request.lb_info, namespace)
        member = Member(
            target,
            Owner(request.record_id, digest(balancer.identity.lock_key)),
            options,
            proven=request.injected_info.get(_REGISTERED) == str(target),
        )
        return balancer, member

    async def _set_attributes(
        self, lb_info: Mapping[str, str], attributes: Mapping[str, str]
    ) -> None:
        """Give all target groups these attributes.

        Raises:
            Fail: they do not have one of that name.
        """
        if not attributes:
            return
        balancer = await self.load_balancers.find(lb_info)
        unknown = await balancer.on_all(lambda group: group.set_attributes(attributes))
        for name in filter(None, unknown):
            raise Fail(
                f"attributes: the target group has no attribute {name!r:.60}; those "
                "that it has are what DescribeTargetGroupAttributes lists"
            )

    async def _reached(self, found: Found) -> Succ:
        """Answer where clients reach a load balancer: at AWS' own.

        A role that may not ask for it serves members all the same.
        """
        key = found.identity.lock_key
        try:
            names = await self.load_balancers.hostnames(found.balancers)
        except Forbidden as error:
            return Succ(msg=str(error), lock_key=key)
        return Succ(lock_key=key, ingress=[Ingress(hostname=one) for one in names])

    def _answer(self, outcome: Outcome) -> Succ | Running:
        if isinstance(outcome, Finished):
            return Succ(msg=outcome.note)
        return Running(msg=outcome.note, retry_after=self.ask_again)

    @asynccontextmanager
    async def _attempt(self) -> AsyncIterator[None]:
        """Turn what goes wrong into an answer, and end in time.

        Raises:
            RetryAfter: it was too early, or what was sent may still take effect.
            Fail: all else.
        """
        try:
            async with asyncio.timeout(self.patience.total_seconds()):
                yield
        except TimeoutError as error:
            seconds = self.patience.total_seconds()
            text = f"AWS is too slow: not finished within {seconds:g} s"
            raise RetryAfter(self.ask_again, text) from error
        except Throttled as error:
            raise RetryAfter(error.delay, str(error)) from error
        except (Uncertain, LoadBalancerGone) as error:
            raise RetryAfter(self.ask_again, str(error)) from error
        except Elbv2Error as error:
            raise Fail(str(error)) from error


AnyBackendRequest = (
    EnsureBackendRequest | DrainBackendRequest | DeregisterBackendRequest
)


def _listed(target: Target, listings: Sequence[Listing]) -> ListedBackend:
    """Return one member as all target groups together have it."""
    records = [one.records[target] for one in listings if target in one.records]
    healths = [listing.targets.get(target) for listing in listings]
    return ListedBackend(
        backend_addr=str(target),
        record_id=records[0],
        state=_state(healths),
        reason=_word(healths),
    )


def _word(healths: Sequence[Health | None]) -> str:
    """Return why it is not in full service, in AWS' words; empty: it is."""
    words = dict.fromkeys(
        "missing" if one is None else str(one)
        for one in healths
        if one is None or not one.serves
    )
    return ", ".join(words)


def _state(healths: Sequence[Health | None]) -> BackendState:
    """Return the state of a member that is these targets; None: it is not there."""
    if any(one is not None and one.standing is Standing.DRAINING for one in healths):
        return BackendState.DRAINING
    if all(one is not None and one.serves for one in healths):
        return BackendState.ACTIVE
    return BackendState.DOWN
