"""A shipped driver on the load balancer of its tests: what the shared suite needs of it.

The tests below `tests/webhooks` that take the fixture `rig` run once for each driver in
`tests.webhooks.rigs`. A driver joins with a subclass of `Rig` beside its own tests.
"""

import abc
import asyncio
import contextlib
import enum

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from pathlib import Path
from typing import ClassVar, Self

import attrs
import pytest

from lbcf.sdk import (
    BackendState,
    DeregisterBackendRequest,
    DrainBackendRequest,
    Driver,
    EnsureBackendRequest,
    ListBackendsAnswer,
    MemberKey,
)
from tests.webhooks import requests
from tests.webhooks.requests import ADDRESS, RECORD


OTHER = "0f6ad1f4-3a52-4f0c-8d7e-77a1c2b3d4e5"
"""The uid of somebody else's record."""


class State(enum.StrEnum):
    """What a member is, as its load balancer has it."""

    IN = "in service"
    OUT = "there, and out of service"
    ABSENT = "not there"


@attrs.frozen
class Overlap:
    """Load balancers that name the same members.

    Attributes:
        mine: lbInfo of one of them.
        others: those that are declared for other devices, sockets or target groups.
        same: the first one, written differently.
        parameters: by which others could take a member over.
    """

    mine: dict[str, str]
    others: Sequence[dict[str, str]]
    same: dict[str, str]
    parameters: Mapping[str, str] = {}


@attrs.define(eq=False)
class Rig(abc.ABC):
    """A driver, and the load balancer that it works on.

    Attributes:
        folder: for what the driver reads and keeps.
        stack: closed when the test is over, after the drivers have stopped.
        drivers: those that were started.

    Class attributes say what of the suite concerns the driver:

        marks: of its tests: what the load balancer needs.
        module: what `python -m` starts.
        address: of the member that tests make.
        parameters: of that member.
        valid_parameters: of members that the conformance kit makes.
        at_last: what a member is once an operation is done.
        faults: what can go wrong, with a pattern of what is said of it.
        passing: those that pass by themselves: the operation is Running meanwhile.
        no_pool: what is said when the pool is gone.
        left_alone: what is said when that member is drained, or taken out.
        taken: what is said of an address that somebody else's member has.
        gone: makes another identity of it, that of a pool that is not there.
        superseded: the same where the member is that of a later record, called new.
        not_offered: rules of the conformance kit that do not concern the driver.
        names_records: whether the list tells the records of members.
        is_shared: whether several processes may change one load balancer.
        replaces_records: whether a record takes over the member that another one left.
        removal_is_loss: whether a removal by hand changes the epoch.
        unchecked: how a new member that nobody listens at is listed.
        has_sessions: whether the driver logs in.
        has_hands: whether others can change its members beside the driver.
        bad_flags: flags that cannot be, each with what is said of it.
    """

    folder: Path
    stack: contextlib.AsyncExitStack
    drivers: list[Driver] = attrs.field(factory=list, init=False)

    marks: ClassVar[Sequence[pytest.MarkDecorator]] = ()
    module: ClassVar[str]
    address: ClassVar[str] = ADDRESS
    parameters: ClassVar[Mapping[str, str]] = {}
    valid_parameters: ClassVar[Mapping[str, str]] = {}
    at_last: ClassVar[Mapping[str, State]] = {
        "ensure": State.IN,
        "drain": State.OUT,
        "deregister": State.ABSENT,
        "list": State.IN,
    }
    faults: ClassVar[Mapping[str, str]]
    passing: ClassVar[Collection[str]] = ()
    no_pool: ClassVar[str]
    taken: ClassVar[str]
    left_alone: ClassVar[str] = ""
    superseded: ClassVar[str] = "left alone: .*new"
    gone: ClassVar[Mapping[str, str]]
    not_offered: ClassVar[set[str]]
    member_key: ClassVar[MemberKey] = MemberKey.ADDRESS
    names_records: ClassVar[bool] = True
    is_shared: ClassVar[bool] = True
    replaces_records: ClassVar[bool] = True
    removal_is_loss: ClassVar[bool] = False
    unchecked: ClassVar[BackendState] = BackendState.ACTIVE
    has_sessions: ClassVar[bool] = False
    has_hands: ClassVar[bool] = True
    bad_flags: ClassVar[Sequence[tuple[Sequence[str], str]]] = ()

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, folder: Path) -> AsyncIterator[Self]:
        """Serve the load balancer for a block."""
        async with contextlib.AsyncExitStack() as stack:
            rig = cls(folder, stack)
            await rig.serve()
            yield rig
            for driver in rig.drivers:
                await driver.stop()

    def closed(self) -> Driver:
        """Return a driver whose operator opened no network; whoever asks stops it."""
        return self.make()

    def start(self, make: Callable[[], Driver] | None = None) -> Driver:
        """Return another driver; it is stopped at the end of the test."""
        self.drivers.append((make or self.make)())
        return self.drivers[-1]

    @abc.abstractmethod
    async def serve(self) -> None:
        """Serve the load balancer until the stack is closed."""

    @property
    @abc.abstractmethod
    def lb_info(self) -> dict[str, str]:
        """Identity of the load balancer."""

    @abc.abstractmethod
    def make(self) -> Driver:
        """Return a driver that has never done anything; whoever asks stops it."""

    @abc.abstractmethod
    async def state(self) -> State:
        """Return what the member at `address` is."""

    @abc.abstractmethod
    async def trace(self) -> object:
        """Return something that each change of the load balancer changes."""

    @abc.abstractmethod
    async def left(self) -> Sequence[str]:
        """Return all that is on the load balancer because of the driver."""

    @abc.abstractmethod
    async def remove(self) -> None:
        """Take the member out by hand."""

    @abc.abstractmethod
    async def occupy(self, address: str) -> None:
        """Have somebody else's member at an address."""

    @abc.abstractmethod
    async def strangers(self) -> object:
        """Return what there is of other people, to be compared."""

    @abc.abstractmethod
    async def overlap(self) -> Overlap:
        """Return load balancers that overlap."""

    @abc.abstractmethod
    def fenced(self) -> Driver:
        """Return a driver that lets only kube-system use the load balancer."""

    @abc.abstractmethod
    async def begin(self, fault: str, operation: str, /) -> None:
        """Have something go wrong with an operation."""

    @abc.abstractmethod
    async def end(self, fault: str, /) -> None:
        """Have it end."""

    def subject(self, _fault: str, _operation: str, /) -> str:
        """Return what is named, too, in what is said of an operation under a fault."""
        return ""

    def end_sessions(self) -> None:
        """End all sessions, or tokens, of the driver."""
        raise NotImplementedError

    def logins(self) -> int:
        """Return how often the driver has logged in."""
        raise NotImplementedError

    def connector(self) -> Callable[[str, str, int], Awaitable[None]] | None:
        """Return what gives a member connections, by address, record and number."""
        return None

    def kit(self) -> dict[str, str]:
        """Return the load balancer that the conformance kit may use."""
        return self.lb_info

    async def fresh(self) -> None:
        """Wait until lists show what was changed by hand."""
        await asyncio.sleep(0)

    def ensure(
        self, record: str = RECORD, lb_info: dict[str, str] | None = None
    ) -> EnsureBackendRequest:
        """Return a request to ensure the member."""
        return EnsureBackendRequest(
            record_id=record,
            lb_info=self.lb_info if lb_info is None else lb_info,
            backend_addr=self.address,
            parameters=dict(self.parameters),
        )

    def drain(
        self, record: str = RECORD, lb_info: dict[str, str] | None = None
    ) -> DrainBackendRequest:
        """Return a request to drain it."""
        lb_info = self.lb_info if lb_info is None else lb_info
        return requests.a_drain(lb_info, self.address, record)

    def deregister(
        self,
        record: str = RECORD,
        lb_info: dict[str, str] | None = None,
        *,
        drained: bool = True,
    ) -> DeregisterBackendRequest:
        """Return a request to deregister it."""
        lb_info = self.lb_info if lb_info is None else lb_info
        return requests.a_deregister(lb_info, self.address, record, drained=drained)

    async def listed(self, driver: Driver) -> ListBackendsAnswer:
        """Return the driver's list, with all that was changed by hand."""
        await self.fresh()
        return await driver.list_backends(requests.a_list(self.lb_info))
