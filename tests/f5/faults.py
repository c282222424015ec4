"""What goes wrong with an emulated unit, on wish.

Tests set it; `server` and `routes` look.
"""

import attrs


NO_RIGHT = (
    "Authorization failed: user=https://localhost/mgmt/shared/authz/users/lbcf "
    "resource={} verb={} uri:http://localhost:8100/mgmt referrer:127.0.0.1 "
    "sender:127.0.0.1"
)
"""What the authorization of iControl REST says, as recorded on 12.1 and 15.1."""


@attrs.define
class Faults:
    """What goes wrong next; each number counts requests down.

    Attributes:
        busy: answered 503, as while a task runs.
        pages: answered with a page of HTML.
        page_status: of HTTP, with such pages; not counted.
        lost: changes that are made and not answered.
        unmade: changes that are neither made nor answered.
        bogus: adds of members that are made, and answered 404.
        slow: seconds that each request takes; not counted.
        slow_saves: the same of saving.
        slow_syncs: the same of bringing other units up to date.
        slow_changes: seconds that each change takes, one after the other: one made by
            itself, or the commit of a transaction; not counted.
        slow_commands: seconds that a transaction takes a command in.
        without_transactions: whether there are none, as for a user who may not.
        absent_is_ok: members that are not there are answered 200, as of old.
        forbidden: what the user may not: beginnings of `METHOD path`.
        forbidding: what is said then, with 401; `{}` are the path and the method.
    """

    busy: int = 0
    pages: int = 0
    page_status: int = 503
    lost: int = 0
    unmade: int = 0
    bogus: int = 0
    slow: float = 0
    slow_saves: float = 0
    slow_syncs: float = 0
    slow_changes: float = 0
    slow_commands: float = 0
    without_transactions: bool = False
    absent_is_ok: bool = False
    forbidden: tuple[str, ...] = ()
    forbidding: str = NO_RIGHT

    def take(self, name: str) -> bool:
        """Tell whether it is to happen now, and count it."""
        left: int = getattr(self, name)
        setattr(self, name, max(left - 1, 0))
        return left > 0
