"""The driver's operations: requests in, answers out.

`lbcf.sdk` reads the requests and writes the answers. Each operation changes the state, and
then looks at which Envoys have taken it up; it waits for them for a moment, since most
answer within milliseconds. The controller should know this driver as `memberKey: Record`
and `addressSource: Backend`.

When a member counts as registered: as soon as every Envoy of the fleet that is connected,
or may come back, has acknowledged it with the whole load balancer.
"""

import asyncio

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import partial

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
)
from webhooks.envoy.attributes import Settings, difference, parse_attributes
from webhooks.envoy.balancers import (
    Balancer,
    Identity,
    Member,
    parse_identity,
    placed,
    places,
)
from webhooks.envoy.errors import EnvoyError, InvalidInput, NotCreated, NotYet
from webhooks.envoy.fleets import Fleet, some
from webhooks.envoy.keeper import Edit, Keeper
from webhooks.envoy.parameters import parse_options
from webhooks.shared.addresses import Address, read_address
from webhooks.shared.leaving import leaving
from webhooks.shared.outcomes import DRY_RUN
from webhooks.shared.reach import AllowedAddresses, spelling
from webhooks.shared.rules import why_not


ASK_AGAIN = timedelta(seconds=1)
"""An Envoy may be back, or a request over, so soon."""

PATIENCE = timedelta(seconds=3)
"""How long an operation waits for acknowledgements; callers wait 10 s by default."""

ANY_LISTENER = ("*/*:80", "*/*:443", "*/*:8???")
"""What load balancers may listen on where the operator said nothing."""


@attrs.define(eq=False)
class EnvoyDriver(Driver):
    """Serves Envoys their listeners, clusters and members.

    Attributes:
        keeper: of the state.
        listeners: rules of `FLEET/IP:PORT` that load balancers may listen on.
        addresses: which ones members may have.
        patience: how long an operation waits for Envoys, and for the disk.
    """

    member_key = MemberKey.RECORD
    summary = "Registers backends at Envoys, as their management server (xDS v3)."
    # All items of a batch meet in the keeper: they share a write and a snapshot.
    batch = Batch(max_items=100)
    batch_concurrency = 100

    keeper: Keeper
    listeners: Sequence[str] = ANY_LISTENER
    addresses: AllowedAddresses = attrs.field(factory=AllowedAddresses)
    patience: timedelta = PATIENCE

    async def start(self) -> None:
        """Serve Envoys from now on."""
        await self.keeper.open()

    async def stop(self) -> None:
        """End all streams; Envoys go on with what they have."""
        await self.keeper.close()

    async def healthz(self) -> bool:
        """Tell whether this process has the state directory, and can write there.

        Raises:
            Fail: says what is wrong with the directory.
        """
        trouble = self.keeper.trouble(self.patience)
        if trouble is not None:
            raise Fail(str(trouble))
        return self.keeper.is_open

    async def validate_load_balancer(
        self, request: ValidateLoadBalancerRequest
    ) -> None:
        """Refuse what no Envoy could be told, and say why."""
        async with _attempt():
            self._asked(request)

    async def create_load_balancer(self, request: CreateLoadBalancerRequest) -> Succ:
        """Make listener and cluster at all Envoys of the fleet."""
        async with _attempt():
            return await self._made(*self._asked(request), request)

    async def ensure_load_balancer(self, request: EnsureLoadBalancerRequest) -> Succ:
        """Give them these attributes; requests under way go on."""
        async with _attempt():
            known = self._identity(request.lb_info, request.namespace)
            settings = parse_attributes(request.attributes, udp=known.udp)
            if placed(known, settings) != known:
                raise InvalidInput(
                    f"address: the load balancer {known} keeps its address "
                    f"{known.listen.ip}: delete it, and make another one"
                )
            there = self._listening(known, settings, request.namespace)
            return await self._made(known, there, request)

    async def delete_load_balancer(self, request: DeleteLoadBalancerRequest) -> Succ:
        """Take all of it away from the Envoys."""
        async with _attempt():
            await self.keeper.ready()
            known, *others = self._to_delete(request)
            if request.dry_run:
                return DRY_RUN
            # The others first: who has acknowledged that one is gone has them no more.
            for one in (*others, known):
                await self._change(one, partial(_left_by, request.record_id))
            if self.keeper.find(known) is not None:
                return Succ(
                    msg=f"{known} stays: it is that of another LoadBalancer, too"
                )
            await self._acknowledged(known)
        return Succ()

    async def validate_backend(self, request: ValidateBackendRequest) -> None:
        """Refuse parameters that no member can have."""
        async with _attempt():
            parse_options(request.parameters)

    async def ensure_backend(self, request: EnsureBackendRequest) -> Succ:
        """Put the member into full service at all Envoys."""
        async with _attempt():
            known = self._identity(request.lb_info, request.namespace)
            address = self._member_address(request.backend_addr)
            options = parse_options(request.parameters)
            member = Member(
                request.record_id, str(address), options.weight, options.zone
            )
            await self.keeper.ready()
            _checked(known, self.keeper.find(known), member)
            if request.dry_run:
                return DRY_RUN
            await self._change(
                known, lambda one: _checked(known, one, member).having(member)
            )
            await self._acknowledged(known, needs_envoy=True)
        return Succ()

    async def drain_backend(self, request: DrainBackendRequest) -> Succ | Running:
        """Send nothing new to the member; finished when no Envoy has any of it left."""
        async with _attempt():
            known, record = parse_identity(request.lb_info), request.record_id
            balancer = await self._with(known, record)
            if balancer is None:
                await self._written(known)
                await self._acknowledged(known, members_alone=True)
                return Succ(msg="no such member")
            if request.dry_run:
                return DRY_RUN
            await self._change(known, partial(_drained, record))
            await self._acknowledged(known, members_alone=True)
            after = self.keeper.find(known)
            if after is None or record not in after.members:
                return Succ(msg="the member was taken out meanwhile")
            return self._left(known, after, record)

    async def deregister_backend(self, request: DeregisterBackendRequest) -> Succ:
        """Take the member out; what it still has is left to end by itself.

        That is so after a drain's deadline as well: Envoy closes neither requests nor connections
        of one member when it is removed, or told to be unhealthy.
        """
        async with _attempt():
            known, record = parse_identity(request.lb_info), request.record_id
            await self.keeper.ready()
            if request.dry_run:
                return DRY_RUN
            # Also where it is out already: that may not be on disk, and no Envoy was told then.
            await self._change(known, partial(_taken_out, record))
            await self._acknowledged(known, members_alone=True)
        return Succ()

    async def list_backends(self, request: ListBackendsRequest) -> ListBackendsAnswer:
        """List the members; the epoch names what the state directory remembers of them."""
        async with _attempt():
            known = parse_identity(request.lb_info)
            await self.keeper.ready()
            await self._written(known)
            balancer = self.keeper.find(known)
            if balancer is None:
                raise _no_such(known)
            late = await self._late(known)
        return ListBackendsAnswer(
            epoch=self.keeper.memory,
            backends=[_listed(one, late) for one in balancer.members.values()],
        )

    def _identity(self, fields: Mapping[str, str], namespace: str) -> Identity:
        """Read what is to have members, or to be made, for a namespace.

        Raises:
            InvalidInput: it cannot be, or may not.
        """
        known = parse_identity(fields)
        self._check_allowed(known, namespace)
        return known

    def _check_allowed(self, known: Identity, namespace: str) -> None:
        """Refuse what this driver may not have listened on for a namespace.

        Raises:
            InvalidInput: says where it may.
        """
        why = why_not(self.listeners, partial(is_listener, known), namespace)
        if why:
            raise InvalidInput(f"listen: {known} {why} (--allow-listeners)")

    def _listening(
        self, known: Identity, settings: Settings, namespace: str
    ) -> Sequence[Address]:
        """Return all addresses that a load balancer is to listen on.

        Raises:
            InvalidInput: it cannot, or may not.
        """
        there = places(known, settings)
        for one in there:
            self._check_allowed(attrs.evolve(known, listen=one), namespace)
        return there

    def _asked(
        self, request: ValidateLoadBalancerRequest | CreateLoadBalancerRequest
    ) -> tuple[Identity, Sequence[Address]]:
        """Read what is to be made, and where it is to listen.

        Raises:
            InvalidInput: it cannot be, or may not.
        """
        said = parse_identity(request.lb_spec)
        settings = parse_attributes(request.attributes, udp=said.udp)
        known = self._identity(placed(said, settings).render(), request.namespace)
        return known, self._listening(known, settings, request.namespace)

    def _to_delete(self, request: DeleteLoadBalancerRequest) -> Sequence[Identity]:
        """Return what is to go, at least one.

        The address is unknown where the creation was never answered, and creations that were
        not answered may have left others.

        Raises:
            NotThere: it was never created, since its lbSpec cannot be read.
            InvalidInput: what it was created as cannot be read.
        """
        if request.lb_info:
            known = parse_identity(request.lb_info)
        else:
            known = leaving(parse_identity, request.lb_spec)
        made = self.keeper.made_for(known.fleet, request.record_id)
        if request.lb_info or not made:
            return [known, *(one for one in made if one != known)]
        return made

    async def _made(
        self,
        known: Identity,
        there: Sequence[Address],
        request: CreateLoadBalancerRequest | EnsureLoadBalancerRequest,
    ) -> Succ:
        """Make a load balancer, or make it so.

        Raises:
            EnvoyError: not all Envoys have it.
        """
        await self.keeper.ready()
        is_new = isinstance(request, CreateLoadBalancerRequest)
        owner = request.record_id
        # Creations that were not answered may have made it at other addresses.
        made = self.keeper.made_for(known.fleet, owner) if is_new else []
        given_up = [one for one in made if one != known]
        rivals = [
            one
            for one in self.keeper.rivals(known, there)
            if one.identity not in given_up or one.left_by(owner) is not None
        ]
        if rivals:
            raise InvalidInput(
                f"listen: connections to {known} would also be those of the load balancer "
                f"that listens on {rivals[0].listen}: choose another port or address"
            )
        edit = partial(_owned, known, request)
        if request.dry_run:
            _check_agreed(known, edit(self.keeper.find(known)), request)
            return DRY_RUN
        for one in given_up:
            await self._change(one, partial(_left_by, owner))
        await self._change(known, edit)
        _check_agreed(known, self.keeper.find(known), request)
        await self._acknowledged(known, needs_envoy=True)
        return Succ(
            lb_info=known.render() if is_new else None,
            lock_key=known.lock_key,
            ingress=_ingress(known),
        )

    async def _change(self, known: Identity, edit: Edit) -> None:
        """Change a load balancer; returns when it is on disk and due to the Envoys.

        Raises:
            EnvoyError: it is not, for now or for good.
        """
        await self.keeper.change(known, edit, self.patience)

    async def _written(self, known: Identity) -> None:
        """Wait until what is wanted of a load balancer is on disk and due to the Envoys.

        Raises:
            EnvoyError: it is not, for now or for good.
        """
        await self._change(known, lambda one: one)

    def _member_address(self, text: str) -> Address:
        """Read the address of a member that is to come.

        Raises:
            InvalidInput: it is none, or not one that members may have.
        """
        address = read_address(text)
        if address is None:
            raise InvalidInput(f"backendAddr: {text!r:.120} is not IP:port")
        own = read_address(str(self.keeper.address))
        control = [own] if own is not None else []
        wrong = self.addresses.objection(address, control) or spelling(text, address)
        if wrong:
            raise InvalidInput(f"backendAddr: {wrong}")
        return address

    async def _with(self, known: Identity, record: str) -> Balancer | None:
        """Return a load balancer that has a record's member; None: it has not."""
        await self.keeper.ready()
        balancer = self.keeper.find(known)
        return balancer if balancer and record in balancer.members else None

    async def _acknowledged(
        self, known: Identity, *, members_alone: bool = False, needs_envoy: bool = False
    ) -> None:
        """Wait until all Envoys have what they shall have.

        Raises:
            EnvoyError: one has not, for now or for good.
        """
        fleet = self.keeper.fleet(known)

        def objection() -> EnvoyError | None:
            absent = self.keeper.fleets.absent(fleet)
            if needs_envoy and not fleet.sessions and not absent:
                return _none(fleet)
            return fleet.objection(known.name, absent, members_alone=members_alone)

        await self._waited(fleet, objection)

    async def _waited(
        self, fleet: Fleet, objection: Callable[[], EnvoyError | None]
    ) -> None:
        """Wait until nothing is objected to.

        Raises:
            EnvoyError: it is, for good or when the patience is at its end.
        """
        found: EnvoyError | None = None
        try:
            async with asyncio.timeout(self.patience.total_seconds()):
                while isinstance(found := objection(), NotYet):
                    await fleet.change()
        except TimeoutError:
            pass  # what is objected to is said below
        if found is not None:
            raise found

    async def _late(self, known: Identity) -> EnvoyError | None:
        """Return what a connected Envoy has not of a load balancer; None: all have it.

        Raises:
            NotYet: none is connected.
        """
        fleet = self.keeper.fleet(known)

        def objection() -> EnvoyError | None:
            if not fleet.sessions:
                return _none(fleet)
            return fleet.objection(known.name, (), members_alone=False)

        try:
            await self._waited(fleet, objection)
        except EnvoyError as error:
            if not fleet.sessions:
                raise
            return error
        return None

    def _left(self, known: Identity, balancer: Balancer, record: str) -> Succ | Running:
        """Tell what Envoys still have of a member that is sent nothing new.

        A request that chose the member just before may still be connecting: so reports
        count from then on when that has ended.
        """
        if balancer.shares(record):
            return Succ(msg="another record has the same address, and goes on there")
        address, fleet = balancer.members[record].address, self.keeper.fleet(known)
        settling = balancer.settings.connect_timeout
        left = fleet.left(known.name, address, settling)
        why = "it has not reported yet"
        if address in balancer.uncounted:
            # None of them may say that it is over: what is left may be what they do not count.
            left = dict.fromkeys(fleet.connected())
            why = (
                "the load balancer's cluster, or the member's zone, was changed while it was in, "
                "and Envoy does not count what it had before"
            )
        if not left:
            return Succ()
        counts = [one for one in left.values() if one is not None]
        where = some(
            [
                f"{'?' if one is None else one} at {envoy}"
                for envoy, one in sorted(left.items())
            ]
        )
        return Running(
            msg=f"requests or connections left: {where} (?: {why})",
            retry_after=ASK_AGAIN,
            active_connections=sum(counts) if counts else None,
        )


def is_listener(known: Identity, rule: str) -> bool:
    """Tell whether a rule of `FLEET/IP:PORT` means a listener, for TCP and UDP alike.

    Each part is compared for itself: else `?` would be the colon before a port, too, and
    `*:8???` port 9 of `[2001:db8::8]`. A rule without all parts is compared with the whole.
    """
    place = f"{known.fleet}/{known.listen}"
    parts, asked = _parts(place), _parts(rule)
    if not all(asked):
        return fnmatchcase(place, rule)
    return all(map(fnmatchcase, parts, asked))


def _parts(place: str) -> tuple[str, str, str]:
    """Return fleet, address and port; one that is not there is empty."""
    fleet, _, rest = place.partition("/")
    address, _, port = rest.rpartition(":")
    return fleet, address, port


@asynccontextmanager
async def _attempt() -> AsyncIterator[None]:
    """Turn what goes wrong into an answer.

    Raises:
        RetryAfter: Envoys have not taken it up yet.
        Fail: all else.
    """
    try:
        yield
    except NotYet as error:
        raise RetryAfter(ASK_AGAIN, str(error)) from error
    except EnvoyError as error:
        raise Fail(str(error)) from error


def _ingress(known: Identity) -> Sequence[Ingress] | None:
    """Return where clients reach a listener; None: at all addresses of the Envoys."""
    if known.listen.ip.is_unspecified:
        return None
    return [Ingress(ip=str(known.listen.ip))]


def _none(fleet: Fleet) -> NotYet:
    """Return what to say where there is no Envoy."""
    return NotYet(
        f"no Envoy of fleet {fleet.name!r} is connected to this driver: is one running "
        "with that node.cluster, and does it reach the driver's xDS address?"
    )


def _no_such(known: Identity) -> NotCreated:
    """Return what to say of a load balancer that there is not."""
    return NotCreated(f"there is no load balancer {known}: create it first")


def _owned(
    known: Identity,
    request: CreateLoadBalancerRequest | EnsureLoadBalancerRequest,
    before: Balancer | None,
) -> Balancer:
    """Return a load balancer as one of its owners wants it, if the others do.

    Raises:
        InvalidInput: it is that of another namespace, or of others who want it otherwise.
    """
    if before is None:
        namespace = request.namespace
        before = Balancer(known.fleet, known.listener, namespace, frozenset(), {})
    if before.namespace != request.namespace:
        raise InvalidInput(
            f"listen: {known} is that of a load balancer of another namespace: choose "
            "another port or address"
        )
    if request.record_id not in before.owners:
        _check_agreed(known, before, request)
    return before.owned(request.record_id, request.attributes)


def _check_agreed(
    known: Identity,
    balancer: Balancer | None,
    request: CreateLoadBalancerRequest | EnsureLoadBalancerRequest,
) -> None:
    """Refuse attributes that other owners of the same listener do not want.

    The wish of an owner is kept: what all of them ask for, one after the other, is done.

    Raises:
        InvalidInput: names one of them, and the attribute.
    """
    there = balancer.attributes if balancer else request.attributes
    found = difference(there, request.attributes, udp=known.udp)
    owner = balancer and balancer.opponent(request.record_id, request.attributes)
    if found is None or owner is None:
        return
    name, theirs, mine = found
    raise InvalidInput(
        f"attributes: {known} is that of LoadBalancer {owner} (its UID), too, and {name} is "
        f"{theirs!r:.60} there, and {mine!r:.60} here: give all that listen there the same "
        "attributes, or choose another port or address"
    )


def _checked(known: Identity, balancer: Balancer | None, member: Member) -> Balancer:
    """Return the load balancer that a member comes to.

    Raises:
        NotCreated: there is none.
        InvalidInput: its record is there with another address.
    """
    if balancer is None:
        raise _no_such(known)
    before = balancer.members.get(member.record)
    if before is not None and before.address != member.address:
        raise InvalidInput(
            f"backendAddr: the record's member is there at {before.address}, and a member "
            f"keeps its address: deregister it before it comes at {member.address}"
        )
    return balancer


def _left_by(owner: str, balancer: Balancer | None) -> Balancer | None:
    """Return what is left of a load balancer without an owner."""
    return balancer.left_by(owner) if balancer else None


def _drained(record: str, balancer: Balancer | None) -> Balancer | None:
    """Return it with a member that is sent nothing new, if it is still there."""
    is_there = balancer is not None and record in balancer.members
    return balancer.draining(record) if balancer and is_there else balancer


def _taken_out(record: str, balancer: Balancer | None) -> Balancer | None:
    """Return it without a member."""
    return balancer.without(record) if balancer else None


def _listed(member: Member, late: EnvoyError | None) -> ListedBackend:
    """Return one member as the list has it."""
    state = BackendState.DOWN if late else BackendState.ACTIVE
    return ListedBackend(
        backend_addr=member.address,
        record_id=member.record,
        state=BackendState.DRAINING if member.draining else state,
        reason=str(late) if late and not member.draining else "",
    )
