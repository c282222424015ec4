"""What a rule is, and what it works with: calls, backends of its own, listBackends.

A rule's id is its function's name, its sentence the first line of the docstring. `kit`
makes a bench for each rule, and deregisters at the end what the rule has left.
"""

import asyncio
import contextlib
import hashlib
import itertools

from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import timedelta
from typing import NoReturn
from uuid import UUID

import attrs
import msgspec

from lbcf.conformance.client import RecordingClient, read_answer
from lbcf.conformance.findings import Broken, Exchange, NotApplicable
from lbcf.conformance.target import Target
from lbcf.core.model.operations import Operation
from lbcf.core.model.values import MemberKey
from lbcf.runtime.clock import Clock
from lbcf.wire.driver import Answer
from lbcf.wire.driver_answers import (
    BackendAnswer,
    BackendState,
    ListBackendsAnswer,
    ListedBackend,
    RetriedAnswer,
    Status,
)


Fields = Mapping[str, object]
Check = Callable[["Bench"], Awaitable[None]]

ENSURE = Operation.ENSURE_BACKEND
DRAIN = Operation.DRAIN_BACKEND
DEREGISTER = Operation.DEREGISTER_BACKEND
LIST = Operation.LIST_BACKENDS

BOTH_SIDES = "docs/protocol.md#rules"
COMMON = "docs/protocol.md#answers"
OPERATIONS = "docs/protocol.md#answers"
DRAINING = "docs/protocol.md#drainbackend"
LOCK_KEY = "docs/protocol.md#lockkey"
ADDITIONS = "docs/protocol.md#rules"

NOT_SERVED = frozenset({404, 405, 501})
"""HTTP statuses of servers that do not have the operation."""

NO_ADDRESSES = ("nonsense", "198.18.0.1", "198.18.0.1:99999")
"""What a member may be written at, and no driver can send to."""

FIRST_DELAY = timedelta(milliseconds=200)
LONGEST_PAUSE = timedelta(seconds=5)
"""Between two attempts, also where the driver's minRetryDelayInSeconds is longer."""

_CLEANUP_SECONDS = 5.0
"""For deregistering what a rule has left."""


@attrs.frozen
class Rule:
    """One thing that drivers must do, and how to find out.

    Attributes:
        name: its id, in words with `-`.
        sentence: what drivers do that keep to it.
        source: the part of the protocol that says so.
        needs: optional operations without which it cannot be looked at.
        presumes: rules that it builds on: where one is broken, this one says nothing.
        check: raises a Finding unless the rule is kept.
    """

    name: str
    sentence: str
    source: str
    needs: tuple[Operation, ...]
    check: Check
    presumes: tuple[str, ...] = ()


ANSWERED = ("valid-answers",)
"""Presumed by all other rules."""

REGISTERED = (*ANSWERED, "ensured-is-listed")
"""Presumed by the rules that register a member."""


def rule(
    source: str, *needs: Operation, presumes: tuple[str, ...] = REGISTERED
) -> Callable[[Check], Rule]:
    """Make a rule of a function."""

    def decorate(check: Check) -> Rule:
        name = getattr(check, "__name__", "").replace("_", "-")
        sentence = (check.__doc__ or "").splitlines()[0]
        return Rule(name, sentence, source, needs, check, presumes)

    return decorate


def seeded_ids(*parts: object) -> Iterator[str]:
    """Generate UUIDs without end, the same ones for the same parts."""
    for number in itertools.count():
        text = ":".join(str(part) for part in (*parts, number))
        yield str(UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4))


@attrs.define
class Member:
    """A backend that the rule registers, or pretends to have registered.

    Attributes:
        record_id: of its record.
        address: where it is.
        injected_info: as the driver's last Succ had it.
    """

    record_id: str
    address: str
    injected_info: dict[str, str] = attrs.Factory(dict)


@attrs.define(eq=False)
class Bench:
    """One rule's driver, load balancer and members.

    Attributes:
        target: what is examined.
        client: sends its calls.
        clock: for delays and deadlines.
        lb_info: the identity of the load balancer.
        name: of the rule.
        hasty_calls: how often it asks again without a pause while the answer is Running.
    """

    target: Target
    client: RecordingClient
    clock: Clock
    lb_info: dict[str, str]
    name: str
    hasty_calls: int = 0
    _members: list[Member] = attrs.field(factory=list, init=False)
    _ids: Iterator[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the ids depend on the seed and the rule."""
        self._ids = seeded_ids(self.target.seed, self.name)

    @property
    def can_list(self) -> bool:
        """Return whether the driver serves listBackends."""
        return not self.target.lacks(LIST)

    @property
    def can_drain(self) -> bool:
        """Return whether the driver serves drainBackend."""
        return not self.target.lacks(DRAIN)

    @property
    def other_lb_info(self) -> dict[str, str]:
        """Return an identity that is not this load balancer's: as told, or made up.

        Raises:
            NotApplicable: a driver might take it for this one.
        """
        made_up = {key: f"{value}-gone" for key, value in self.lb_info.items()}
        other = self.lb_info | (dict(self.target.gone) or made_up)
        if other == self.lb_info or other.keys() != self.lb_info.keys():
            text = "there is no identity of another load balancer (--gone-lb)"
            raise NotApplicable(text)
        return other

    def new_id(self) -> str:
        """Return an id that this rule has not had yet."""
        return next(self._ids)

    def member(self, address: str | None = None) -> Member:
        """Return a new member; without an address, one that no other has.

        Raises:
            NotApplicable: members go by address, and there are no more of them.
        """
        addresses = self.target.addresses
        number = len(self._members)
        by_address = self.target.member_key is MemberKey.ADDRESS
        if address is None and by_address and number >= len(addresses):
            raise NotApplicable(f"more than {number} addresses are needed (--address)")
        chosen = addresses[number % len(addresses)] if address is None else address
        member = Member(self.new_id(), chosen)
        self._members.append(member)
        return member

    def members(self, most: int) -> list[Member]:
        """Return so many new members, or fewer where addresses are scarce."""
        if self.target.member_key is MemberKey.ADDRESS:
            most = min(most, len(self.target.addresses) - len(self._members))
        return [self.member() for _ in range(most)]

    def fail(self, text: str) -> NoReturn:
        """End the rule: the last exchange showed it.

        Raises:
            Broken: always.
        """
        exchanges = self.client.exchanges
        raise Broken(text, exchanges[-1] if exchanges else None)

    def expect(self, holds: bool, text: str) -> None:
        """Fail with the text, which says what was seen and expected, unless it holds.

        Raises:
            Broken: it does not hold.
        """
        if not holds:
            self.fail(text)

    async def open_connections(self, number: int) -> None:
        """Open connections, so that calls arrive in the order of their sending.

        A call that waits for its connection is overtaken by one that reuses another's.
        """
        calls = (self.send(Operation.HEALTHZ, {}) for _ in range(number))
        await asyncio.gather(*calls)

    async def send(
        self, operation: Operation, fields: Fields, sent: asyncio.Event | None = None
    ) -> Exchange:
        """Send a request, valid or not; return the exchange."""
        return await self.client.send(operation, msgspec.json.encode(fields), sent)

    async def start_call(
        self, operation: Operation, fields: Fields
    ) -> asyncio.Task[Exchange]:
        """Send a request; return when it has gone out, or has ended."""
        sent = asyncio.Event()
        call = asyncio.create_task(self.send(operation, fields, sent))
        call.add_done_callback(lambda _call: sent.set())
        await sent.wait()
        return call

    async def call(self, operation: Operation, fields: Fields) -> Answer:
        """Call an operation once; return its valid answer, whatever that says.

        Raises:
            NotApplicable: it is not served, and need not be.
            Broken: there is no valid answer.
        """
        exchange = await self.send(operation, fields)
        if exchange.status in NOT_SERVED and not self.target.must_serve(operation):
            text = f"{operation} is not served (HTTP {exchange.status})"
            raise NotApplicable(text, exchange)
        return read_answer(operation, exchange)

    async def attempt(self, operation: Operation, fields: Fields) -> RetriedAnswer:
        """Call a retried operation once, as a new attempt that is not late."""
        request = {"retryID": self.new_id(), "dryRun": False} | dict(fields)
        request.setdefault("notAfter", self.timestamp(timedelta(minutes=1)))
        answer = await self.call(operation, request)
        assert isinstance(answer, RetriedAnswer)  # noqa: S101  (ANSWERS says so)
        return answer

    async def call_until_success(
        self, operation: Operation, fields: Fields
    ) -> RetriedAnswer:
        """Call until the answer is Succ, as the controller does.

        Raises:
            Broken: the answer was Fail, or Running for longer than the patience.
        """
        patience = self.target.patience.total_seconds()
        limit = self.clock.monotonic() + patience
        delay = FIRST_DELAY
        for number in itertools.count():
            answer = await self.attempt(operation, fields)
            if answer.status is Status.SUCC:
                return answer
            if answer.status is Status.FAIL:
                self.fail(f"{operation} answered Fail, not Succ: {answer.msg!r:.120}")
            if self.clock.monotonic() > limit:
                self.fail(f"{operation} is Running still after {patience:g} s")
            if number < self.hasty_calls:
                continue
            await self.clock.sleep(min(answer.min_retry_delay or delay, LONGEST_PAUSE))
            delay = min(delay * 2, LONGEST_PAUSE)
        raise AssertionError

    def fields(self, member: Member, **more: object) -> dict[str, object]:
        """Return the fields of every request about a member, and more."""
        return {
            "recordID": member.record_id,
            "lbInfo": self.lb_info,
            "backendAddr": member.address,
            "parameters": dict(self.target.parameters),
            "injectedInfo": member.injected_info,
            "memberKey": self.target.member_key.value,
        } | more

    async def ensure(self, member: Member, **more: object) -> None:
        """Ensure the member until that succeeds."""
        await self._complete(ENSURE, member, more)

    async def drain(self, member: Member, **more: object) -> None:
        """Drain the member until that succeeds."""
        await self._complete(DRAIN, member, {"drain": self.drain_times()} | more)

    async def deregister(self, member: Member, **more: object) -> None:
        """Deregister the member until that succeeds."""
        await self._complete(DEREGISTER, member, {"drained": False} | more)

    async def _complete(
        self, operation: Operation, member: Member, more: Fields
    ) -> None:
        fields = self.fields(member, **more)
        answer = await self.call_until_success(operation, fields)
        if isinstance(answer, BackendAnswer) and answer.injected_info is not None:
            member.injected_info = answer.injected_info

    def drain_times(self) -> dict[str, str]:
        """Return when a drain began and ends: now, and after the target's patience."""
        late = self.target.patience + timedelta(minutes=1)
        return {
            "startedAt": self.timestamp(timedelta()),
            "deadline": self.timestamp(late),
        }

    def timestamp(self, ahead: timedelta) -> str:
        """Return a moment from now as RFC 3339 in UTC."""
        return (self.clock.now() + ahead).strftime("%Y-%m-%dT%H:%M:%SZ")

    async def listing(self) -> ListBackendsAnswer:
        """Return the answer of listBackends.

        Raises:
            Broken: it is not Succ.
        """
        answer = await self.call(LIST, {"lbInfo": self.lb_info, "attributes": {}})
        assert isinstance(answer, ListBackendsAnswer)  # noqa: S101  (ANSWERS says so)
        if answer.status is not Status.SUCC:
            self.fail(f"listBackends answered {answer.status}: {answer.msg!r:.120}")
        return answer

    async def listed(self, member: Member) -> list[ListedBackend]:
        """Return the entries of listBackends that are this member; one, if all is well."""
        return self.entries_of(member, await self.listing())

    def entries_of(
        self, member: Member, listing: ListBackendsAnswer
    ) -> list[ListedBackend]:
        """Return the entries of an answer of listBackends that are this member."""
        by_record = self.target.member_key is MemberKey.RECORD
        return [
            entry
            for entry in listing.backends
            if (by_record and entry.record_id == member.record_id)
            or (not by_record and entry.backend_addr == member.address)
        ]

    async def expect_present(self, member: Member, after: str) -> ListedBackend | None:
        """Return the member's entry in listBackends; None: the driver has no such call.

        Raises:
            Broken: it is not there, or more than once.
        """
        if not self.can_list:
            return None
        found = await self.listed(member)
        if len(found) != 1:
            self.fail(
                f"{after}, {_name(member)} is listed {len(found)} times, not once"
            )
        return found[0]

    async def expect_in_service(self, member: Member, after: str) -> None:
        """Check that listBackends, where served, has the member, and not as Draining.

        Raises:
            Broken: it is not there, more than once, or Draining.
        """
        entry = await self.expect_present(member, after)
        is_draining = entry is not None and entry.state is BackendState.DRAINING
        self.expect(not is_draining, f"{after}, {member.address} is listed as Draining")

    async def expect_absent(self, member: Member, after: str) -> None:
        """Check that listBackends, where served, does not have the member.

        Raises:
            Broken: it is there.
        """
        if self.can_list and await self.listed(member):
            self.fail(f"{after}, {_name(member)} is listed")

    async def clean_up(self) -> None:
        """Deregister all members of the rule; what fails here is no rule's fault."""
        with contextlib.suppress(Broken, NotApplicable, TimeoutError):
            async with asyncio.timeout(_CLEANUP_SECONDS):
                for member in self._members:
                    with contextlib.suppress(Broken):
                        await self.deregister(member)


def _name(member: Member) -> str:
    return f"{member.address} of record {member.record_id}"
