"""What a rule does with the driver: calls, members of its own, and a look at the list.

`lbcf.conformance.kit` makes one for each rule and clears it up at the end; the rules
read like the sentences that they check.
"""

import asyncio
import contextlib
import itertools

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import NoReturn

import attrs
import msgspec

from lbcf.conformance.answers import read_answer
from lbcf.conformance.findings import Broken, Exchange, NotApplicable
from lbcf.conformance.identities import Member, seeded_ids
from lbcf.conformance.line import Line
from lbcf.conformance.target import Target
from lbcf.core.model.operations import Operation
from lbcf.core.model.values import MemberKey
from lbcf.runtime.clock import Clock
from lbcf.wire.driver import Answer
from lbcf.wire.driver_answers import (
    BackendAnswer,
    ListBackendsAnswer,
    ListedBackend,
    RetriedAnswer,
    Status,
)


Fields = Mapping[str, object]

NOT_SERVED = frozenset({404, 405, 501})
"""How servers say that there is no such operation."""

FIRST_DELAY = timedelta(milliseconds=200)
LONGEST_PAUSE = timedelta(seconds=5)
"""Between two attempts, whatever the driver wishes: the kit's patience is short."""

_CLEARING = 5.0
"""Seconds for deregistering what a rule has left."""


@attrs.define(eq=False)
class Bench:
    """One rule's driver, load balancer and members.

    Attributes:
        target: what is examined.
        line: what it is asked over.
        clock: for delays and moments.
        lb_info: the identity of the load balancer.
        name: of the rule.
        haste: how often it asks again without a pause while the answer is Running.
    """

    target: Target
    line: Line
    clock: Clock
    lb_info: dict[str, str]
    name: str
    haste: int = 0
    _members: list[Member] = attrs.field(factory=list, init=False)
    _ids: Iterator[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the ids depend on the seed and the rule."""
        self._ids = seeded_ids(self.target.seed, self.name)

    @property
    def lists(self) -> bool:
        """Tell whether the driver says what it has."""
        return not self.target.lacks(Operation.LIST_BACKENDS)

    @property
    def drains(self) -> bool:
        """Tell whether the driver drains."""
        return not self.target.lacks(Operation.DRAIN_BACKEND)

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
        made = Member(self.new_id(), chosen)
        self._members.append(made)
        return made

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
        exchanges = self.line.exchanges
        raise Broken(text, exchanges[-1] if exchanges else None)

    def expect(self, fine: bool, text: str) -> None:
        """Go on if it is fine.

        Raises:
            Broken: it is not; the text says what was seen and expected.
        """
        if not fine:
            self.fail(text)

    async def warm(self, connections: int) -> None:
        """Open so many connections, so that calls arrive in the order of their sending.

        One that waits for its connection is overtaken by one that found another's.
        """
        calls = (self.exchange(Operation.HEALTHZ, {}) for _ in range(connections))
        await asyncio.gather(*calls)

    async def exchange(
        self, operation: Operation, fields: Fields, written: asyncio.Event | None = None
    ) -> Exchange:
        """Send a request, whatever it says; return what came back."""
        return await self.line.send(operation, msgspec.json.encode(fields), written)

    async def begin(
        self, operation: Operation, fields: Fields
    ) -> asyncio.Task[Exchange]:
        """Send a request and come back when it has gone out, or has ended."""
        written = asyncio.Event()
        call = asyncio.create_task(self.exchange(operation, fields, written))
        call.add_done_callback(lambda _call: written.set())
        await written.wait()
        return call

    async def ask(self, operation: Operation, fields: Fields) -> Answer:
        """Call an operation once; return its valid answer, whatever that says.

        Raises:
            NotApplicable: it is not served, and need not be.
            Broken: there is no valid answer.
        """
        exchange = await self.exchange(operation, fields)
        if exchange.status in NOT_SERVED and not self.target.must_serve(operation):
            text = f"{operation} is not served (HTTP {exchange.status})"
            raise NotApplicable(text, exchange)
        return read_answer(operation, exchange)

    async def attempt(self, operation: Operation, fields: Fields) -> RetriedAnswer:
        """Call a retried operation once, as a new attempt that is not late."""
        said = {"retryID": self.new_id(), "dryRun": False} | dict(fields)
        said.setdefault("notAfter", self.moment(timedelta(minutes=1)))
        answer = await self.ask(operation, said)
        assert isinstance(answer, RetriedAnswer)  # noqa: S101  (ANSWERS says so)
        return answer

    async def settle(self, operation: Operation, fields: Fields) -> RetriedAnswer:
        """Call until it succeeds, as the controller does.

        Raises:
            Broken: it failed, or never succeeded.
        """
        limit = self.clock.monotonic() + self.target.patience.total_seconds()
        delay = FIRST_DELAY
        for number in itertools.count():
            answer = await self.attempt(operation, fields)
            if answer.status is Status.SUCC:
                return answer
            if answer.status is Status.FAIL:
                self.fail(f"{operation} answered Fail, not Succ: {answer.msg!r:.120}")
            if self.clock.monotonic() > limit:
                waited = self.target.patience.total_seconds()
                self.fail(f"{operation} is Running still after {waited:g} s")
            if number < self.haste:
                continue
            await self.clock.sleep(min(answer.min_retry_delay or delay, LONGEST_PAUSE))
            delay = min(delay * 2, LONGEST_PAUSE)
        raise AssertionError

    def fields(self, member: Member, **more: object) -> dict[str, object]:
        """Return what every request about a member says, and more."""
        return {
            "recordID": member.record_id,
            "lbInfo": self.lb_info,
            "backendAddr": member.address,
            "parameters": dict(self.target.parameters),
            "injectedInfo": member.injected_info,
        } | more

    async def ensure(self, member: Member, **more: object) -> None:
        """Put the member into full service."""
        await self._settled(Operation.ENSURE_BACKEND, member, more)

    async def drain(self, member: Member, **more: object) -> None:
        """Drain the member to the end."""
        said = {"drain": self.drain_times()} | more
        await self._settled(Operation.DRAIN_BACKEND, member, said)

    async def deregister(self, member: Member, **more: object) -> None:
        """Take the member out."""
        said: dict[str, object] = {"drained": False} | more
        await self._settled(Operation.DEREGISTER_BACKEND, member, said)

    async def _settled(
        self, operation: Operation, member: Member, more: Fields
    ) -> None:
        """Settle an operation on the member, and keep what the driver injects."""
        answer = await self.settle(operation, self.fields(member, **more))
        if isinstance(answer, BackendAnswer) and answer.injected_info is not None:
            member.injected_info = answer.injected_info

    def drain_times(self) -> dict[str, str]:
        """Return when a drain began and ends: now, and long after our patience."""
        late = self.target.patience + timedelta(minutes=1)
        return {"startedAt": self.moment(timedelta()), "deadline": self.moment(late)}

    def moment(self, ahead: timedelta) -> str:
        """Return a moment from now as RFC 3339 in UTC."""
        return (self.clock.now() + ahead).strftime("%Y-%m-%dT%H:%M:%SZ")

    async def listing(self) -> ListBackendsAnswer:
        """Return what the driver says it has on the load balancer."""
        fields = {"lbInfo": self.lb_info, "attributes": {}}
        answer = await self.ask(Operation.LIST_BACKENDS, fields)
        assert isinstance(answer, ListBackendsAnswer)  # noqa: S101  (ANSWERS says so)
        if answer.status is not Status.SUCC:
            self.fail(f"listBackends answered {answer.status}: {answer.msg!r:.120}")
        return answer

    async def listed(self, member: Member) -> list[ListedBackend]:
        """Return the entries of the list that are this member; at best one or none."""
        by_record = self.target.member_key is MemberKey.RECORD
        return [
            entry
            for entry in (await self.listing()).backends
            if (by_record and entry.record_id == member.record_id)
            or (not by_record and entry.backend_addr == member.address)
        ]

    async def expect_present(self, member: Member, after: str) -> ListedBackend | None:
        """Look for the member, where the driver tells; None: it does not.

        Raises:
            Broken: it is not there, or more than once.
        """
        if not self.lists:
            return None
        found = await self.listed(member)
        if len(found) != 1:
            self.fail(
                f"{after}, {_named(member)} is listed {len(found)} times, not once"
            )
        return found[0]

    async def expect_absent(self, member: Member, after: str) -> None:
        """Look for the member, where the driver tells.

        Raises:
            Broken: it is there.
        """
        if self.lists and await self.listed(member):
            self.fail(f"{after}, {_named(member)} is listed still")

    async def clear(self) -> None:
        """Take out all members of the rule; what fails here is no rule's fault."""
        with contextlib.suppress(Broken, NotApplicable, TimeoutError):
            async with asyncio.timeout(_CLEARING):
                for member in self._members:
                    with contextlib.suppress(Broken):
                        await self.deregister(member)


def _named(member: Member) -> str:
    """Return how messages call a member."""
    return f"{member.address} of record {member.record_id}"
