"""The driver's operations: requests in, answers out.

`lbcf.sdk` reads the requests and writes the answers; `load_balancers` does the work.
The controller should know this driver as `memberKey: Record` (a server's name comes
from the record's id, so that two records may hold one address side by side) and
`addressSource: Backend` (it has nothing to add to a pod's IP and port).

When a member counts as registered: as soon as it is in HAProxy and not in maintenance.
From then on HAProxy's own checks decide whether it is sent requests, and they go on
deciding; a member that never passes them harms nobody and needs nobody to ask again.

What a reload leaves in the old process is out of reach: requests that it still has do
not show in a drain.
"""

import asyncio
import contextlib

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import NoReturn

import attrs

from lbcf.sdk import (
    BackendAnswer,
    BackendRequest,
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
from lbcf.sdk import Outcome as ItemOutcome
from webhooks.haproxy.errors import HaproxyError, InvalidInput, Uncertain, Unreachable
from webhooks.haproxy.load_balancers import LoadBalancers, parse_identity
from webhooks.haproxy.members import (
    Member,
    MemberName,
    checked_prefix,
)
from webhooks.haproxy.parameters import check_change, parse_options
from webhooks.haproxy.pool import STARTING, Listing, Pool, Wanted
from webhooks.haproxy.replies import Server
from webhooks.haproxy.restoring import Watch
from webhooks.shared.addresses import Address
from webhooks.shared.batches import alike, one_by_one
from webhooks.shared.outcomes import DRY_RUN, Finished, Outcome
from webhooks.shared.parameters import check_no_attributes


ASK_AGAIN = timedelta(seconds=1)
"""What is left on a member may be gone so soon."""

PATIENCE = timedelta(seconds=8)
"""An operation ends within it, whatever HAProxy does: callers wait 10 s by default."""

_OPTIONS = "options"
"""Key in injectedInfo: the options that a member was added with."""


@attrs.define(eq=False)
class HaproxyDriver(Driver):
    """Keeps members of HAProxy's backends over the runtime API.

    Attributes:
        load_balancers: finds the HAProxys that a request is about.
        prefix: names of our servers begin with it and `-`.
        patience: how long one operation may take.
    """

    member_key = MemberKey.RECORD
    summary = "Registers backends as servers of HAProxy, over its runtime API."
    batch = Batch(max_items=100)

    load_balancers: LoadBalancers
    prefix: str = attrs.field(default="lbcf", converter=checked_prefix)
    patience: timedelta = PATIENCE
    _watching: asyncio.Task[NoReturn] | None = attrs.field(default=None, init=False)

    async def start(self) -> None:
        """Look for reloads from now on, if members are to be put back after them."""
        if self.load_balancers.restores:
            watch = Watch(self.load_balancers.remembered)
            self._watching = asyncio.create_task(watch.run())

    async def stop(self) -> None:
        """Look no more."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    async def validate_load_balancer(
        self, request: ValidateLoadBalancerRequest
    ) -> None:
        """Refuse what no member could be added to, and say why.

        One whose HAProxy is down for the moment is let pass: that says nothing about the
        load balancer, and both may have been applied together. createLoadBalancer tells.
        """
        async with self._attempt():
            balancer = self.load_balancers.find(request.lb_spec, request.namespace)
            check_no_attributes(request.attributes)
            if request.operation is ValidationOperation.CREATE:
                await balancer.on_all(self._examine_if_up)

    async def create_load_balancer(self, request: CreateLoadBalancerRequest) -> Succ:
        """Find the backend in all HAProxys; it is the operator who makes it."""
        await self._probe(request.lb_spec, request)
        identity = parse_identity(request.lb_spec)
        return Succ(lb_info=identity.render(), lock_key=identity.lock_key)

    async def ensure_load_balancer(self, request: EnsureLoadBalancerRequest) -> Succ:
        """Find the backend in all HAProxys, still."""
        await self._probe(request.lb_info, request)
        return Succ(lock_key=parse_identity(request.lb_info).lock_key)

    async def delete_load_balancer(self, request: DeleteLoadBalancerRequest) -> Succ:
        """Leave the backend as it is: it belongs to the operator.

        What was abandoned in it is not put back after a reload any more, unless another
        load balancer has the same backend: whose a member is nobody tells the driver.
        """
        if request.dry_run:
            return DRY_RUN
        with contextlib.suppress(InvalidInput):
            where = request.lb_info or request.lb_spec
            for pool in self.load_balancers.find(where).pools:
                is_last = pool.api.memory.unused_by(pool.backend, request.record_id)
                # One that was never answered Succ has abandoned nothing.
                if is_last and request.lb_info:
                    pool.api.memory.forget_backend(pool.backend)
        return Succ()

    async def validate_backend(self, request: ValidateBackendRequest) -> None:
        """Refuse parameters that HAProxy would not take, or not while it runs."""
        async with self._attempt():
            parse_options(request.parameters)
            if request.old_parameters is not None:
                check_change(request.old_parameters, request.parameters)

    async def ensure_backend(self, request: EnsureBackendRequest) -> Succ:
        """Put the member into full service on all HAProxys."""
        return await self._ensure(request, self._deadline())

    async def _ensure(self, request: EnsureBackendRequest, deadline: float) -> Succ:
        """Ensure one member, alone or what is left of a batch."""
        async with self._attempt(deadline):
            balancer = self.load_balancers.find(request.lb_info, request.namespace)
            wanted, added_with = self._wanted(request)
            if request.dry_run:
                return DRY_RUN
            outcome = await balancer.settle(
                lambda pool: pool.ensure(wanted, added_with=added_with)
            )
        kept = {_OPTIONS: wanted.options.fixed}
        return _ensured(outcome.note, kept)

    async def ensure_backends(
        self, requests: Sequence[EnsureBackendRequest]
    ) -> Mapping[str, ItemOutcome]:
        """Put many members into service by few lines; each that resists by itself."""
        deadline, wanted = self._deadline(), dict[MemberName, Wanted]()
        for one in alike(requests):
            with contextlib.suppress(HaproxyError):
                wanted[self._name(one.record_id)] = self._wanted(one)
        found = await self._together(
            requests[0],
            requests[0].namespace,
            lambda pool: pool.ensure_all(wanted),
            deadline,
        )
        said = {
            name.record_id: _ensured(note, {_OPTIONS: wanted[name][0].options.fixed})
            for name, note in found.items()
        }
        left = [one for one in requests if one.record_id not in said]
        return said | await one_by_one(lambda one: self._ensure(one, deadline), left)

    async def deregister_backends(
        self, requests: Sequence[DeregisterBackendRequest]
    ) -> Mapping[str, ItemOutcome]:
        """Take many members out by few lines; each that has connections by itself."""
        deadline, names = self._deadline(), list[MemberName]()
        for one in alike(requests):
            with contextlib.suppress(HaproxyError):
                names.append(self._name(one.record_id))
        found = await self._together(
            requests[0], None, lambda pool: pool.deregister_all(names), deadline
        )
        said = {name.record_id: Succ() for name in found}
        left = [one for one in requests if one.record_id not in said]
        alone = await one_by_one(lambda one: self._deregister(one, deadline), left)
        return said | alone

    async def _together(
        self,
        request: BackendRequest[BackendAnswer],
        namespace: str | None,
        operation: Callable[[Pool], Awaitable[Mapping[MemberName, str]]],
        deadline: float,
    ) -> Mapping[MemberName, str]:
        """Perform an operation on all HAProxys; return who is through on each of them.

        Raises:
            RetryAfter: what was sent may still take effect.
        """
        try:
            async with self._attempt(deadline):
                balancer = self.load_balancers.find(request.lb_info, namespace)
                found = await balancer.on_all(operation)
        except Fail:
            return {}  # who asks for each by itself is told why
        first, *others = found
        return {
            name: next(filter(None, (one[name] for one in found)), "")
            for name in first
            if all(name in other for other in others)
        }

    def _wanted(self, request: EnsureBackendRequest) -> Wanted:
        """Return what a member is to be like.

        Raises:
            HaproxyError: it cannot be.
        """
        member = Member(
            self._name(request.record_id),
            self.load_balancers.member_address(request.backend_addr),
            parse_options(request.parameters),
        )
        return member, request.injected_info.get(_OPTIONS)

    async def drain_backend(self, request: DrainBackendRequest) -> Succ | Running:
        """Send nothing new to the member; finished when nothing is left anywhere."""
        async with self._attempt():
            balancer = self.load_balancers.find(request.lb_info)
            name = self._name(request.record_id)
            if request.dry_run:
                return DRY_RUN
            outcome = await balancer.settle(lambda pool: pool.drain(name))
        return answer_of(outcome, counted=True)

    async def deregister_backend(
        self, request: DeregisterBackendRequest
    ) -> Succ | Running:
        """Take the member out of all HAProxys.

        A member that was drained to the end, and still has connections, is asked for
        again. One that was not (its deadline passed, or nobody wanted to wait) is cut
        as soon as its connections stand in the way.
        """
        return await self._deregister(request, self._deadline())

    async def _deregister(
        self, request: DeregisterBackendRequest, deadline: float
    ) -> Succ | Running:
        """Deregister one member, alone or what is left of a batch."""
        async with self._attempt(deadline):
            balancer = self.load_balancers.find(request.lb_info)
            name = self._name(request.record_id)
            if request.dry_run:
                return DRY_RUN
            outcome = await balancer.settle(
                lambda pool: pool.deregister(name, may_cut=not request.drained)
            )
        return answer_of(outcome, counted=False)

    async def list_backends(self, request: ListBackendsRequest) -> ListBackendsAnswer:
        """List our members on all HAProxys.

        The epoch changes when any HAProxy was reloaded or restarted. A member that is
        not on all of them, or not up on all of them, is `Down`.
        """
        async with self._attempt():
            balancer = self.load_balancers.find(request.lb_info)
            listings = await balancer.on_all(
                lambda pool: pool.list_members(self.prefix)
            )
        names = dict.fromkeys(name for one in listings for name in one.members)
        return ListBackendsAnswer(
            epoch=",".join(str(listing.generation) for listing in listings),
            backends=[_listed(name, listings) for name in names],
        )

    async def _probe(
        self,
        fields: Mapping[str, str],
        request: CreateLoadBalancerRequest | EnsureLoadBalancerRequest,
    ) -> None:
        """Find out whether members can be added to this load balancer, and note it."""
        async with self._attempt():
            check_no_attributes(request.attributes)
            balancer = self.load_balancers.find(fields, request.namespace)
            await balancer.on_all(self._examine)
        if not request.dry_run:
            for pool in balancer.pools:
                pool.api.memory.used_by(pool.backend, request.record_id)

    async def _examine(self, pool: Pool) -> None:
        await pool.probe(self.prefix)

    async def _examine_if_up(self, pool: Pool) -> None:
        with suppress(Unreachable):
            await self._examine(pool)

    def _name(self, record_id: str) -> MemberName:
        return MemberName(self.prefix, record_id)

    def _deadline(self) -> float:
        """Return when an operation that begins now has to end, in the loop's seconds."""
        return asyncio.get_running_loop().time() + self.patience.total_seconds()

    @asynccontextmanager
    async def _attempt(self, deadline: float | None = None) -> AsyncIterator[None]:
        """Turn what goes wrong into an answer, and end in time.

        Commands wait for each other where a HAProxy hangs; an operation that waited
        on without end could add a member long after its record is gone.

        Args:
            deadline: when it has to end, in the loop's seconds; one for all parts of a
                batch. None: it begins now.

        Raises:
            RetryAfter: what was sent may still take effect.
            Fail: all else.
        """
        try:
            async with asyncio.timeout_at(deadline or self._deadline()):
                yield
        except TimeoutError as error:
            seconds = self.patience.total_seconds()
            text = f"HAProxy is too slow: not finished within {seconds:g} s"
            raise RetryAfter(ASK_AGAIN, text) from error
        except Uncertain as error:
            raise RetryAfter(ASK_AGAIN, str(error)) from error
        except HaproxyError as error:
            raise Fail(str(error)) from error


def _ensured(note: str, kept: Mapping[str, str]) -> Succ:
    return Succ(msg=note, injected_info=kept, in_service=note != STARTING)


def answer_of(outcome: Outcome, *, counted: bool) -> Succ | Running:
    """Return the answer that an outcome stands for."""
    if isinstance(outcome, Finished):
        return Succ(msg=outcome.note)
    left = outcome.connections
    return Running(
        msg=f"{outcome.note} ({left} left)",
        retry_after=ASK_AGAIN,
        active_connections=left if counted else None,
    )


def _listed(name: MemberName, listings: Sequence[Listing]) -> ListedBackend:
    """Return one member as all HAProxys together have it."""
    servers = [listing.members.get(name) for listing in listings]
    known = next(server for server in servers if server is not None)
    return ListedBackend(
        backend_addr=_address(known),
        record_id=name.record_id,
        state=state_of(servers),
        reason=word_of(servers),
        active_connections=sum(one.loads.get(name, 0) for one in listings),
    )


def _address(server: Server) -> str:
    """Return where a server listens; empty where HAProxy has no address for it."""
    return str(Address(server.address, server.port)) if server.address else ""


def word_of(servers: Sequence[Server | None]) -> str:
    """Return why a member is not in full service, as HAProxy shows it; empty: it is."""
    words = dict.fromkeys("missing" if s is None else s.word for s in servers)
    words.pop("UP", None)
    return ", ".join(words)


def state_of(servers: Sequence[Server | None]) -> BackendState:
    """Return the state of a member that is these servers; None: it is not there."""
    if any(server is not None and server.draining for server in servers):
        return BackendState.DRAINING
    if all(server is not None and not server.admin and server.up for server in servers):
        return BackendState.ACTIVE
    return BackendState.DOWN
