"""A member as a unit tells it, and as it should be. Pure.

`icontrol` reads documents into these; `decisions` compares.
"""

from collections.abc import Mapping

import attrs

from webhooks.device.errors import Unreadable
from webhooks.f5.names import Address, ObjectPath, port_of
from webhooks.f5.parameters import Options, normal_monitor


USER_DISABLED = "user-disabled"
USER_DOWN = "user-down"

ENABLED: Mapping[str, object] = {"state": "user-up", "session": "user-enabled"}
DISABLED: Mapping[str, object] = {"state": "user-up", "session": USER_DISABLED}
"""Connections go on, and clients with a persistence record come still."""
OFFLINE: Mapping[str, object] = {"state": USER_DOWN, "session": USER_DISABLED}
"""Connections go on, nobody new comes. Always both fields: what one of them alone
does to the other is written nowhere."""


@attrs.frozen
class Node:
    """What an address is called on a unit."""

    path: ObjectPath
    address: str
    description: str = ""


@attrs.frozen
class Member:
    """A member of a pool, as it is.

    Attributes:
        path: of the member below its pool.
        address: without the port, as the unit writes it: with the route domain or
            without.
        port: None: all ports.
        session: user-enabled, monitor-enabled, user-disabled.
        state: user-down if it was forced offline; else what monitors say.
        description: whose it is.
        options: as it has them.
    """

    path: ObjectPath
    address: str
    port: int | None
    session: str
    state: str
    description: str
    options: Options

    @property
    def is_offline(self) -> bool:
        """Whether it was forced offline: nobody new comes."""
        return self.state == USER_DOWN

    @property
    def is_disabled(self) -> bool:
        """Whether only clients that it knows may come."""
        return self.session == USER_DISABLED or self.is_offline

    @property
    def is_down(self) -> bool:
        """Whether its monitors say that it does not work."""
        return self.state == "down"


@attrs.frozen
class Wanted:
    """A member as it should be."""

    address: Address
    description: str
    options: Options


def read_node(document: Mapping[str, object]) -> Node:
    """Read a node.

    Raises:
        Unreadable: it has no name or address.
    """
    return Node(_path(document), _text(document, "address"), _said(document))


def read_member(document: Mapping[str, object]) -> Member:
    """Read a member of a pool.

    Raises:
        Unreadable: a field is missing or of another type.
    """
    path = _path(document)
    return Member(
        path=path,
        address=_text(document, "address"),
        port=port_of(path.name),
        session=_text(document, "session"),
        state=_text(document, "state"),
        description=_said(document),
        options=Options(
            ratio=_number(document, "ratio", 1),
            connection_limit=_number(document, "connectionLimit", 0),
            priority_group=_number(document, "priorityGroup", 0),
            monitor=normal_monitor(str(document.get("monitor", "default"))),
        ),
    )


def _path(document: Mapping[str, object]) -> ObjectPath:
    """Return where the object is."""
    try:
        return ObjectPath(_text(document, "fullPath"))
    except ValueError as error:
        raise Unreadable(f"an object with a strange name: {error}") from error


def _text(document: Mapping[str, object], name: str) -> str:
    """Return a field that must be a text."""
    text = document.get(name)
    if not isinstance(text, str) or not text:
        raise Unreadable(f"an object without {name}: {document!r:.200}")
    return text


def _said(document: Mapping[str, object]) -> str:
    """Return the description; an object without one has no such field."""
    text = document.get("description")
    return text if isinstance(text, str) else ""


def _number(document: Mapping[str, object], name: str, default: int) -> int:
    """Return a field that must be a number."""
    number = document.get(name, default)
    if not isinstance(number, int):
        raise Unreadable(f"{name} is {number!r:.60}, not a number")
    return number
