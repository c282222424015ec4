"""Load balancers and their members as values, and what changes them. Pure.

A load balancer is one listener of one fleet. Its members are known by their records, so
that two records may have one address.
"""

import re

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address

import attrs
import msgspec

from webhooks.envoy.attributes import Settings, difference, parse_attributes
from webhooks.envoy.errors import InvalidInput
from webhooks.shared import identity
from webhooks.shared.addresses import Address, IPAddress, read_address
from webhooks.shared.parameters import wrong_field
from webhooks.shared.reach import spelling


_KNOWN = ("fleet", "listen")
_FLEET = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_UDP = "/udp"
_EVERY: Mapping[int, IPAddress] = {4: IPv4Address("0.0.0.0"), 6: IPv6Address("::")}  # noqa: S104  (as users say it)
_TRANSPORT = re.compile(r"/(tcp|udp)", re.IGNORECASE)
"""As a LoadBalancerClass has it from `{protocol}`; TCP is left out of what is kept."""


@attrs.frozen
class Identity:
    """What a load balancer is known by.

    Attributes:
        fleet: `node.cluster` of its Envoys.
        listen: where they listen; the unspecified address is all of theirs.
        udp: whether for datagrams, else for TCP.
    """

    fleet: str
    listen: Address
    udp: bool = False

    @property
    def listener(self) -> str:
        """Where they listen and for what."""
        return f"{self.listen}{_UDP if self.udp else ''}"

    @property
    def name(self) -> str:
        """Name of its listener, cluster and endpoints; no static one is called so."""
        return f"lbcf/{self.listener}"

    @property
    def lock_key(self) -> str:
        """What its members are known by."""
        return identity.lock_key("envoy", [self.fleet], self.listener)

    def render(self) -> dict[str, str]:
        """Return it as the controller keeps it."""
        return {"fleet": self.fleet, "listen": self.listener}

    def __str__(self) -> str:
        return f"{self.fleet}/{self.listener}"


def is_fleet(name: str) -> bool:
    """Tell whether a `node.cluster` can be the fleet of a load balancer."""
    return _FLEET.fullmatch(name) is not None


def parse_identity(fields: Mapping[str, str]) -> Identity:
    """Read `fleet` and `listen` of an lbSpec or lbInfo.

    Raises:
        InvalidInput: one is missing, unknown or cannot be used.
    """
    wrong = wrong_field(fields, _KNOWN, _KNOWN)
    if wrong:
        raise InvalidInput(f"load balancer: {wrong}; it has {', '.join(_KNOWN)}")
    if not is_fleet(fields["fleet"]):
        raise InvalidInput(
            f"fleet: {fields['fleet']!r:.80} is no node.cluster: write letters, digits, "
            "`.`, `_` and `-`, at most 63"
        )
    address, slash, transport = fields["listen"].partition("/")
    listen = read_address(address)
    is_said = _TRANSPORT.fullmatch(slash + transport) or not slash
    if listen is None or listen.ip.is_multicast or not is_said:
        raise InvalidInput(
            f"listen: {fields['listen']!r:.80} is not IP:port, such as 0.0.0.0:80, or "
            "0.0.0.0:53/udp"
        )
    if wrong := spelling(address, listen):
        raise InvalidInput(f"listen: {wrong}")
    return Identity(fields["fleet"], listen, transport.lower() == "udp")


def placed(known: Identity, settings: Settings) -> Identity:
    """Return what is to be made: at the address of its attributes, where they have one."""
    if settings.address is None:
        return known
    return attrs.evolve(known, listen=Address(settings.address, known.listen.port))


def places(known: Identity, settings: Settings) -> Sequence[Address]:
    """Return all addresses that Envoys listen on, in order of the versions of IP.

    The unspecified address is all of theirs, in the families that are asked for.

    Raises:
        InvalidInput: a family is asked for that the one address has not.
    """
    families = settings.families
    listen = known.listen
    if not families or families == {listen.ip.version}:
        return [listen]
    if not listen.ip.is_unspecified:
        raise InvalidInput(
            f"attributes: ipFamilies asks for more than {listen} has, which is one address of "
            f"IPv{listen.ip.version}: listen on 0.0.0.0, or leave the Service that family"
        )
    return [Address(_EVERY[one], listen.port) for one in sorted(families)]


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member as it shall be at all Envoys.

    Attributes:
        record: id of the record that it stands for.
        address: `IP:port`.
        weight: 1 to 128.
        zone: of its locality; empty: unsaid.
        draining: whether it is sent nothing new.
    """

    record: str
    address: str
    weight: int = 1
    zone: str = ""
    draining: bool = False


class Balancer(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A load balancer as it shall be.

    What has its default is not written: a driver before the field reads that, too.

    Attributes:
        fleet, listen: its identity.
        namespace: of the LoadBalancers that it is; those of others are refused.
        owners: ids of these, of which the last one takes it away.
        attributes: as users said them, checked; all owners want these, or did when they were made.
        members: by record, in the order in which they came.
        uncounted: addresses of members at which Envoys may have more under way than they report.
        wishes: attributes of owners that want others than there are, by owner.
    """

    fleet: str
    listen: str
    namespace: str
    owners: frozenset[str]
    attributes: dict[str, str]
    members: dict[str, Member] = {}
    uncounted: frozenset[str] = frozenset()
    wishes: dict[str, dict[str, str]] = {}

    @property
    def identity(self) -> Identity:
        """What it is known by."""
        return parse_identity({"fleet": self.fleet, "listen": self.listen})

    @property
    def settings(self) -> Settings:
        """What it is like."""
        return parse_attributes(self.attributes, udp=self.identity.udp)

    @property
    def places(self) -> Sequence[Address]:
        """All addresses that Envoys listen on."""
        return places(self.identity, self.settings)

    def having(self, member: Member) -> "Balancer":
        """Return it with a member, new or changed."""
        return self._with({**self.members, member.record: member})

    def draining(self, record: str) -> "Balancer":
        """Return it with a member that is sent nothing new."""
        member = self.members[record]
        return self.having(msgspec.structs.replace(member, draining=True))

    def without(self, record: str) -> "Balancer":
        """Return it without a member."""
        return self._with({r: m for r, m in self.members.items() if r != record})

    def owned(self, owner: str, attributes: Mapping[str, str]) -> "Balancer":
        """Return it as one of its owners wants it, if all others do; else with that wish."""
        wishes = {**self.wishes, owner: dict(attributes)}
        return self._of(self.owners | {owner}, wishes)

    def left_by(self, owner: str) -> "Balancer | None":
        """Return it without an owner, as the others want it; None: there is no other."""
        wishes = {one: said for one, said in self.wishes.items() if one != owner}
        owners = self.owners - {owner}
        return self._of(owners, wishes) if owners else None

    def opponent(self, owner: str, attributes: Mapping[str, str]) -> str | None:
        """Return another owner that does not want these attributes; None: there is none."""
        others = (
            one
            for one in sorted(self.owners - {owner})
            if self._differ(self.wishes.get(one, self.attributes), attributes)
        )
        return next(others, None)

    def _differ(self, some: Mapping[str, str], others: Mapping[str, str]) -> bool:
        return difference(some, others, udp=self.identity.udp) is not None

    def _of(
        self, owners: frozenset[str], wishes: Mapping[str, dict[str, str]]
    ) -> "Balancer":
        """Return it with these owners, and what they want if that is the same."""
        wanted = [wishes.get(one, self.attributes) for one in sorted(owners)]
        agreed = not any(self._differ(wanted[0], one) for one in wanted)
        attributes = wanted[0] if agreed else self.attributes
        open_wishes = {
            one: said for one, said in wishes.items() if self._differ(said, attributes)
        }
        return msgspec.structs.replace(
            self, owners=owners, attributes=attributes, wishes=open_wishes
        )

    def shares(self, record: str) -> bool:
        """Tell whether another record in service has the address of a record."""
        mine = self.members[record].address
        return any(
            one.address == mine and one.record != record and not one.draining
            for one in self.members.values()
        )

    def _with(self, members: dict[str, Member]) -> "Balancer":
        return msgspec.structs.replace(self, members=members)


@attrs.frozen
class Endpoint:
    """All members at one address, which Envoy knows as one host.

    Attributes:
        address: of them.
        weight: the largest of those in service.
        zone: that of the first.
        draining: whether all of them are.
    """

    address: str
    weight: int
    zone: str
    draining: bool


def endpoints(members: Mapping[str, Member]) -> Sequence[Endpoint]:
    """Return the hosts that members are, in order of their addresses."""
    by_address: dict[str, list[Member]] = {}
    for member in members.values():
        by_address.setdefault(member.address, []).append(member)
    return [_joined(by_address[address]) for address in sorted(by_address)]


def _joined(members: Sequence[Member]) -> Endpoint:
    """Return the host of members at one address."""
    serving = [one for one in members if not one.draining] or members
    return Endpoint(
        members[0].address,
        max(one.weight for one in serving),
        serving[0].zone,
        all(one.draining for one in members),
    )
