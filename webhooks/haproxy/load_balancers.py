"""One load balancer: the same backend in one or several HAProxys.

`driver` asks for an operation, `pool` performs it on each HAProxy, here the answers
become one: it is done where it is done everywhere.
"""

import ipaddress

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary

import attrs

from webhooks.haproxy.commands import checked_backend
from webhooks.haproxy.connection import Limits
from webhooks.haproxy.endpoints import AllowedEndpoints, Endpoint, parse_endpoint
from webhooks.haproxy.errors import (
    HaproxyError,
    InvalidInput,
    PartlyFailed,
    Uncertain,
    Unreadable,
)
from webhooks.haproxy.members import parse_address
from webhooks.haproxy.pool import Pool
from webhooks.haproxy.runtime_api import RuntimeApi
from webhooks.shared import identity
from webhooks.shared.addresses import Address
from webhooks.shared.gathering import gathered
from webhooks.shared.identity import Owner
from webhooks.shared.outcomes import Finished, Outcome, Unfinished
from webhooks.shared.parameters import wrong_field
from webhooks.shared.reach import FLAG, AllowedAddresses, spelling


MOST_ENDPOINTS = 16
"""HAProxys behind one load balancer."""
KEPT = 1000
"""Endpoints that are remembered although no HAProxy has ever answered there: whoever may
make load balancers may name any number of them."""

_COOKIES = "dynamicCookies"
_NEEDED = ("sockets", "backend")
_KNOWN = (*_NEEDED, _COOKIES)

_T = TypeVar("_T")


@attrs.frozen
class Identity:
    """What a load balancer is known by.

    Attributes:
        endpoints: of its HAProxys; one at least, none twice.
        backend: name of the backend, the same in all of them.
        cookies: whether members are to have dynamic cookies.
    """

    endpoints: Sequence[Endpoint]
    backend: str
    cookies: bool = False

    @property
    def lock_key(self) -> str:
        """What the backend is known by, with or without cookies."""
        return identity.lock_key("haproxy", self.endpoints, self.backend)

    def render(self) -> dict[str, str]:
        """Return it as the controller keeps it: the same for whatever order."""
        sockets = ",".join(sorted(str(endpoint) for endpoint in self.endpoints))
        cookies = {_COOKIES: "true"} if self.cookies else {}
        return {"sockets": sockets, "backend": self.backend} | cookies


def parse_identity(fields: Mapping[str, str]) -> Identity:
    """Read `sockets` (comma-separated), `backend` and `dynamicCookies`.

    Raises:
        InvalidInput: one is missing, unknown or cannot be used.
    """
    wrong = wrong_field(fields, _NEEDED, _KNOWN)
    if wrong:
        raise InvalidInput(f"load balancer: {wrong}; it has {', '.join(_KNOWN)}")
    cookies = fields.get(_COOKIES, "false")
    if cookies not in {"true", "false"}:
        raise InvalidInput(f"{_COOKIES} must be true or false, not {cookies!r:.60}")
    texts = [text.strip() for text in fields["sockets"].split(",")]
    endpoints = list(dict.fromkeys(parse_endpoint(text) for text in texts))
    if len(endpoints) > MOST_ENDPOINTS:
        raise InvalidInput(f"sockets: {len(endpoints)} are more than {MOST_ENDPOINTS}")
    backend = checked_backend(fields["backend"])
    return Identity(endpoints, backend, cookies == "true")


@attrs.frozen
class LoadBalancer:
    """The same backend in one or several HAProxys."""

    pools: Sequence[Pool]
    lock_key: str = ""

    def owner(self, record_id: str) -> Owner:
        """Return whose a member of a record here is."""
        return Owner(record_id, identity.digest(self.lock_key))

    async def on_all(self, operation: Callable[[Pool], Awaitable[_T]]) -> list[_T]:
        """Perform an operation on all HAProxys at once; one failure stops no other.

        Raises:
            HaproxyError: that of the only HAProxy.
            PartlyFailed: one or more of several failed; says which, and why.
            Uncertain: as `PartlyFailed`, and a change was sent and not answered.
        """

        async def named(pool: Pool) -> _T:
            """Perform it on one; what cannot be read says where it came from."""
            try:
                return await operation(pool)
            except Unreadable as error:
                raise Unreadable(
                    f"what HAProxy at {pool.api.endpoint} answered cannot be read "
                    f"({error}): is it HAProxy 2.6 or newer that listens there?"
                ) from error

        values, failures = await gathered(named, self.pools, HaproxyError)
        if failures:
            raise _joined(failures, len(self.pools))
        return values

    async def settle(self, operation: Callable[[Pool], Awaitable[Outcome]]) -> Outcome:
        """Perform an operation on all HAProxys; finished when all are.

        Raises:
            HaproxyError: as `on_all` says.
        """
        outcomes = await self.on_all(operation)
        left = [outcome for outcome in outcomes if isinstance(outcome, Unfinished)]
        if left:
            return Unfinished(sum(one.connections for one in left), left[0].note)
        notes = [outcome.note for outcome in outcomes if outcome.note]
        return Finished(notes[0] if notes else "")


def _joined(failures: Sequence[HaproxyError], asked: int) -> HaproxyError:
    """Return one error for those of all HAProxys."""
    if asked == 1:
        return failures[0]
    text = f"{len(failures)} of {asked} HAProxys failed: " + "; ".join(
        str(failure) for failure in failures
    )
    if any(isinstance(failure, Uncertain) for failure in failures):
        return Uncertain(text)
    return PartlyFailed(text)


@attrs.define(eq=False)
class LoadBalancers:
    """All load balancers of this driver; they share the HAProxys.

    Attributes:
        allowed: which endpoints load balancers may name.
        limits: of each answer of a HAProxy.
        restores: whether members that a reload has lost are put back.
        connect: makes the client of one HAProxy.
        addresses: which ones members may have.
    """

    allowed: AllowedEndpoints
    limits: Limits = attrs.field(factory=Limits)
    restores: bool = False
    connect: Callable[[Endpoint, Limits], RuntimeApi] = RuntimeApi
    addresses: AllowedAddresses = attrs.field(factory=AllowedAddresses)
    # What is in use is the same for all who use it: they take turns by it.
    _apis: WeakValueDictionary[Endpoint, RuntimeApi] = attrs.field(
        factory=WeakValueDictionary, init=False
    )
    _answered: dict[Endpoint, RuntimeApi] = attrs.field(factory=dict, init=False)
    _recent: OrderedDict[Endpoint, RuntimeApi] = attrs.field(
        factory=OrderedDict, init=False
    )

    def find(
        self, fields: Mapping[str, str], namespace: str | None = None
    ) -> LoadBalancer:
        """Return the load balancer of this lbSpec or lbInfo; asks nobody.

        Args:
            fields: what it says.
            namespace: of it; None: something there is to go, or to be told.

        Raises:
            InvalidInput: it names no HAProxy that may be used, or no backend.
        """
        found = parse_identity(fields)
        for endpoint in found.endpoints:
            self.allowed.check(endpoint, namespace)
        apis = [self._api(one) for one in found.endpoints]
        pools = [Pool(api, found.backend, found.cookies) for api in apis]
        return LoadBalancer(pools, found.lock_key)

    def remembered(self) -> Sequence[RuntimeApi]:
        """Return the HAProxys that have members which would be put back."""
        return [api for api in self._apis.values() if api.memory.holds]

    def member_address(self, text: str) -> Address:
        """Read the address of a member that is to come.

        A runtime API asks for no password: whoever reaches it by a member of theirs has
        all of HAProxy. Where it is named by host, any address with its port may be it.

        Raises:
            InvalidInput: it is none, or not one that members may have.
        """
        address = parse_address(text)
        known = {*self._answered, *self._recent, *self.allowed.said_in_full()}
        control = [
            Address(ipaddress.ip_address(one.host), one.port)
            for one in known
            if one.is_literal
        ]
        wrong = self.addresses.objection(address, control) or spelling(text, address)
        named = {one.port: one for one in known if one.host and not one.is_literal}
        if address.port in named and not self.addresses.opens(address.ip):
            wrong = wrong or (
                f"{address} may be the runtime API at {named[address.port]}, which has "
                f"that port: the driver's operator can open its network with {FLAG}"
            )
        if wrong:
            raise InvalidInput(f"backendAddr: {wrong}")
        return address

    def _api(self, endpoint: Endpoint) -> RuntimeApi:
        """Return the one client of this HAProxy."""
        api = self._apis.get(endpoint)
        if api is None:
            api = self._apis[endpoint] = self.connect(endpoint, self.limits)
            api.memory.enabled = self.restores
        self._recent[endpoint] = api
        self._recent.move_to_end(endpoint)
        if len(self._recent) > KEPT:
            oldest, left = self._recent.popitem(last=False)
            if left.has_answered:
                self._answered[oldest] = left
        return api
