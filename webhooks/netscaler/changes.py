"""The changes that this driver makes, one class each, and the call that each one is.

`decisions` composes them, `group` carries them out. A change of a member holds its
`Mark` and the server and port that it was read or is to be bound at; there is none that
names a whole group, and none for a member without a mark of ours.

NITRO reference: binding a member is PUT on servicegroup_servicegroupmember_binding,
changing one is PUT on servicegroup, enabling and disabling are actions of servicegroup
that take the whole group where the member's name is missing.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol
from urllib.parse import quote

import attrs

from webhooks.netscaler.members import LAST_PORT, Mark, checked_name
from webhooks.netscaler.parameters import Options


BINDING = "servicegroup_servicegroupmember_binding"


@attrs.frozen
class Call:
    """One request of NITRO.

    Attributes:
        method: of HTTP.
        path: behind /nitro/v1/config/, encoded.
        body: what JSON is made of; None: none is sent.
        patience: for what takes longer than all else; None: the usual time.
        goes_on: of several resources in the body: the others are changed, too, where one
            cannot be.
    """

    method: str
    path: str
    body: object = None
    patience: timedelta | None = None
    goes_on: bool = False


@attrs.frozen
class Bulk:
    """The same for several resources of a kind, by as few requests as may be.

    Attributes:
        method: of HTTP.
        path: behind /nitro/v1/config/, encoded.
        items: what is said of each.
    """

    method: str
    path: str
    items: Sequence[Mapping[str, object]]

    def parts(self, most: int) -> Sequence[Call]:
        """Return the requests, with so many items each at most."""
        resource = self.path.partition("?")[0]
        return [
            Call(
                self.method,
                self.path,
                {resource: self.items[first : first + most]},
                goes_on=True,
            )
            for first in range(0, len(self.items), most)
        ]


def named(resource: str, name: str) -> str:
    """Return the path of one resource; both official clients encode names twice."""
    return f"{resource}/{quote(quote(name, safe=''), safe='')}"


def argued(path: str, option: str, **arguments: object) -> str:
    """Return a path with `args` or `filter`, whose values are encoded once."""
    pairs = (
        f"{name}:{quote(str(value), safe='')}" for name, value in arguments.items()
    )
    return f"{path}?{option}={','.join(pairs)}"


@attrs.frozen
class Target:
    """One member of ours.

    Attributes:
        group: name of the service group.
        server: name of the server object; no name is empty.
        port: 1 to 65534.
        mark: whose it is.
    """

    group: str = attrs.field(converter=checked_name)
    server: str = attrs.field(converter=checked_name)
    port: int = attrs.field(
        validator=[attrs.validators.ge(1), attrs.validators.le(LAST_PORT)]
    )
    mark: Mark = attrs.field(validator=attrs.validators.instance_of(Mark))

    @property
    def fields(self) -> dict[str, object]:
        """What names it in a body."""
        return {
            "servicegroupname": self.group,
            "servername": self.server,
            "port": self.port,
        }

    def __str__(self) -> str:
        return f"{self.server} port {self.port} of service group {self.group}"


class Change(Protocol):
    """Something to do to one member."""

    @property
    def target(self) -> Target:
        """Which member."""

    @property
    def item(self) -> Mapping[str, object]:
        """What a body says of it."""

    @property
    def call(self) -> Call:
        """How it is done."""


@attrs.frozen
class Bind:
    """Bind a server and port to the group."""

    target: Target
    options: Options

    @property
    def item(self) -> Mapping[str, object]:
        """What a body says of it."""
        return self.target.fields | {
            "weight": self.options.weight,
            "customserverid": str(self.target.mark),
            "state": "ENABLED" if self.options.serves else "DISABLED",
        }

    @property
    def call(self) -> Call:
        """How it is done."""
        return Call("PUT", BINDING, {BINDING: self.item})


@attrs.frozen
class Adjust:
    """Give a member its weight, and the mark of the record that it stands for now."""

    target: Target
    options: Options

    @property
    def item(self) -> Mapping[str, object]:
        """What a body says of it."""
        return self.target.fields | {
            "weight": self.options.weight,
            "customserverid": str(self.target.mark),
        }

    @property
    def call(self) -> Call:
        """How it is done."""
        return Call("PUT", "servicegroup", {"servicegroup": self.item})


@attrs.frozen
class Enable:
    """Put a member into service."""

    target: Target

    @property
    def item(self) -> Mapping[str, object]:
        """What a body says of it."""
        return self.target.fields

    @property
    def call(self) -> Call:
        """How it is done."""
        return Call("POST", "servicegroup?action=enable", {"servicegroup": self.item})


@attrs.frozen
class Disable:
    """Send nothing new to a member, and let its connections end.

    Attributes:
        delay: seconds after which the appliance cuts what is left; None: it waits.
    """

    target: Target
    delay: int | None = attrs.field(
        validator=attrs.validators.optional(attrs.validators.ge(1))
    )

    @property
    def item(self) -> Mapping[str, object]:
        """What a body says of it."""
        how: dict[str, object] = {"graceful": "YES"}
        if self.delay is not None:
            how["delay"] = self.delay
        return self.target.fields | how

    @property
    def call(self) -> Call:
        """How it is done."""
        return Call("POST", "servicegroup?action=disable", {"servicegroup": self.item})


@attrs.frozen
class Unbind:
    """Take a member out, and cut what is left on it."""

    target: Target

    @property
    def item(self) -> Mapping[str, object]:
        """What a body says of it, where there are several."""
        return self.target.fields

    @property
    def call(self) -> Call:
        """How it is done."""
        path = named(BINDING, self.target.group)
        chosen = {"servername": self.target.server, "port": self.target.port}
        return Call("DELETE", argued(path, "args", **chosen))


def bulk(changes: Sequence[Change]) -> Bulk:
    """Return how changes of one kind are made together.

    A list in the body makes it a bulk request; the vendor's own libraries take bindings
    out by `action=unbind`, as DELETE has no body. Nothing here says what the whole group
    is to be like, as `servicegroup_servicegroupmemberlist_binding` does: whoever such a
    list does not name is unbound, strangers included.
    """
    first = changes[0].call
    method, path = first.method, first.path
    if method == "DELETE":
        method, path = "POST", f"{BINDING}?action=unbind"
    return Bulk(method, path, [one.item for one in changes])
