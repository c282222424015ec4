"""Which appliance a load balancer means, and which of them it may mean.

A load balancer names its devices, and users write load balancers: without a list of
what is allowed they could have the driver's password sent to a server of their own.
"""

import contextlib
import ipaddress
import re

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial

import attrs
import yarl

from webhooks.device.errors import InvalidInput
from webhooks.shared.addresses import Address, is_literal
from webhooks.shared.reach import AllowedAddresses, spelling
from webhooks.shared.rules import parse_rule, why_not


MOST_DEVICES = 8
"""Units behind one load balancer."""

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*|[0-9A-Fa-f:.]+")


@attrs.frozen
class Device:
    """An appliance's management interface.

    Attributes:
        host: an IP address, or a name in small letters.
        port: 1 to 65535.
        scheme: https, or http where the operator allowed exactly that.
    """

    host: str
    port: int = 443
    scheme: str = "https"

    @property
    def is_literal(self) -> bool:
        """Whether the host is an IP address, which nobody can point elsewhere."""
        return is_literal(self.host)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        standard = {"https": 443, "http": 80}[self.scheme]
        return f"{self.scheme}://{host}" + (
            "" if self.port == standard else f":{self.port}"
        )


def parse_device(text: str) -> Device:
    """Read `https://host` or `https://host:port`; without a scheme it is https.

    Raises:
        InvalidInput: anything else; a path, a user or a query has no place here.
    """
    try:
        url = yarl.URL(text if "://" in text else f"https://{text}")
        host, port = url.host, url.port
    except ValueError as error:
        raise _not_a_device(text) from error
    bare = url == url.origin() if host and url.scheme in {"https", "http"} else False
    if not host or not port or not bare or _HOST.fullmatch(host) is None:
        raise _not_a_device(text)
    return Device(host.lower(), port, url.scheme)


def parse_devices(text: str) -> Sequence[Device]:
    """Read devices with commas between them; one at least, none twice.

    Raises:
        InvalidInput: one cannot be used, or there are too many.
    """
    found = list(dict.fromkeys(parse_device(part.strip()) for part in text.split(",")))
    if len(found) > MOST_DEVICES:
        raise InvalidInput(f"devices: {len(found)} are more than {MOST_DEVICES}")
    return found


def _not_a_device(text: str) -> InvalidInput:
    return InvalidInput(
        f"device {text!r:.120}: write https://HOST or https://HOST:PORT, nothing behind"
    )


@attrs.frozen
class AllowedDevices:
    """The devices that load balancers may name.

    Attributes:
        patterns: rules (`webhooks.shared.rules`), with patterns as devices are written;
            `*`, `?` and `[...]` stand for characters of an IP address and its port. A
            host name must be said in full: with a wildcard anybody's domain could
            match.
        addresses: which ones members may have.
    """

    patterns: Sequence[str]
    addresses: AllowedAddresses = attrs.field(factory=AllowedAddresses)

    def check_address(
        self, text: str, address: Address, devices: Iterable[Device]
    ) -> None:
        """Let pass the address of a member that is to come.

        Args:
            text: as the request has it.
            address: as it was read.
            devices: of the load balancer. Those that are IP addresses are no members'
                addresses, nor are those that the operator named in full.

        Raises:
            InvalidInput: no member may have it.
        """
        control = [
            Address(ipaddress.ip_address(one.host), one.port)
            for one in (*devices, *self.said_in_full())
            if one.is_literal
        ]
        wrong = self.addresses.objection(address, control)
        wrong = wrong or spelling(text, address)
        if wrong:
            raise InvalidInput(f"backendAddr: {wrong}")

    def said_in_full(self) -> Iterator[Device]:
        """Return the devices that rules name without a wildcard."""
        for rule in map(parse_rule, self.patterns):
            with contextlib.suppress(InvalidInput):
                yield parse_device(rule.pattern)

    def check(self, device: Device, namespace: str | None = None) -> None:
        """Let an allowed device pass.

        Args:
            device: that a load balancer names.
            namespace: of the load balancer; None: something there is to go.

        Raises:
            InvalidInput: no rule allows it.
        """
        why = why_not(self.patterns, partial(_matches, device), namespace)
        if why:
            raise InvalidInput(f"devices: {device} {why} (--allow-devices)")


def _matches(device: Device, pattern: str) -> bool:
    """Tell whether the pattern allows the device."""
    full = pattern if "://" in pattern else f"https://{pattern}"
    if str(device) == full:
        return True
    # Brackets of an IPv6 address are no character class.
    escaped = full.replace("://[", "://[[]", 1)
    return device.is_literal and fnmatchcase(str(device), escaped)
