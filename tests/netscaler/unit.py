"""One appliance: a running and a saved configuration, sessions, its role in a pair.

`nitro` lets clients in and calls the methods; `pair` hands what is changed on. A reboot
takes everything that was not saved.
"""

import itertools

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import attrs

from tests.netscaler.configuration import (
    Configuration,
    Member,
    MemberKey,
    is_disabled,
    svrstate,
)
from tests.netscaler.errors import (
    NOT_LOGGED_IN,
    SESSION_EXPIRED,
    WRONG_PASSWORD,
    NitroRefusal,
)
from tests.netscaler.traffic import Traffic


_FIRST = datetime(2026, 11, 2, 3, 4, 5, tzinfo=UTC)
_ids = itertools.count(1)


@attrs.frozen
class Event:
    """Something that happened to a member.

    Attributes:
        what: bound, disabled, idle, enabled or gone.
        key: of the member.
        left: how many connections it had then.
    """

    what: str
    key: MemberKey
    left: int


@attrs.define(eq=False)
class Unit:
    """An appliance.

    Attributes:
        clock: seconds that never go back.
        username: of the one user.
        password: of that user.
        idle: seconds after which an unused session ends.
        running: the configuration in force.
        saved: the one on disk.
        traffic: connections through it.
        events: what happened to members, the oldest first.
        role: Primary or Secondary; in a pair, only a primary hands changes on.
        in_pair: whether there is another unit.
        reboots: how often it was started anew.
        saves: how often its configuration was saved.
        spoilt: what is said to the binding of a member, by its address.
    """

    clock: Callable[[], float]
    username: str = "lbcf"
    password: str = "secret"  # noqa: S105  (nobody's)
    idle: float = 1800.0
    running: Configuration = attrs.field(factory=Configuration)
    saved: Configuration = attrs.field(factory=Configuration)
    traffic: Traffic = attrs.field(init=False)
    events: list[Event] = attrs.field(factory=list)
    role: str = "Primary"
    in_pair: bool = False
    reboots: int = 0
    saves: int = 0
    spoilt: dict[str, str] = attrs.field(factory=dict)
    changed: bool = False
    sessions: dict[str, float] = attrs.field(factory=dict)
    hand_on: Callable[[], None] = attrs.field(default=lambda: None)
    _last: dict[MemberKey, str] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        """Have no traffic yet."""
        self.traffic = Traffic(self.clock)

    @property
    def started(self) -> str:
        """When it was started, as appliances write it."""
        moment = _FIRST + timedelta(hours=self.reboots)
        return moment.strftime("%a %b %d %H:%M:%S %Y")

    def log_in(self, username: str, password: str) -> str:
        """Open a session; return its id."""
        self.check_password(username, password)
        token = f"##{next(_ids):030X}"
        self.sessions[token] = self.clock()
        return token

    def check_password(self, username: str, password: str) -> None:
        """Refuse whoever is not the user."""
        if (username, password) != (self.username, self.password):
            raise NitroRefusal(WRONG_PASSWORD, "Invalid username or password")

    def check_session(self, token: str | None) -> None:
        """Refuse a session that has ended, or was never there."""
        if token is None:
            raise NitroRefusal(
                NOT_LOGGED_IN, "Not logged in or connection timed out. Please login"
            )
        used = self.sessions.get(token)
        if used is None or self.clock() - used > self.idle:
            self.sessions.pop(token, None)
            raise NitroRefusal(
                SESSION_EXPIRED, "Session expired or killed. Please login again"
            )
        self.sessions[token] = self.clock()

    def change(self, change: Callable[[Configuration], None]) -> None:
        """Change the running configuration, and see what it does to traffic."""
        self.tick()
        before = set(self.running.members)
        change(self.running)
        self.changed = True
        for key in before - set(self.running.members):
            self._note("gone", key)
            self.traffic.cut(key)
        for key in set(self.running.members) - before:
            self._note("bound", key)
        self.hand_on()

    def disable(self, member: Member, *, graceful: str, delay: int) -> None:
        """Disable a member; its connections end by themselves, or with the delay."""
        self.tick()
        if member.state == "DISABLED":
            return
        member.state, member.graceful, member.delay = "DISABLED", graceful, delay
        member.disabled_at = self.clock()
        self._note("disabled", member.key)
        if graceful != "YES" and not delay:
            self.traffic.cut(member.key)
        self.changed = True
        self.hand_on()
        self.tick()

    def enable(self, member: Member) -> None:
        """Enable a member."""
        self.tick()
        member.state, member.graceful, member.delay = "ENABLED", "NO", 0
        self._note("enabled", member.key)
        self.changed = True
        self.hand_on()

    def save(self) -> None:
        """Write the running configuration to disk."""
        self.saved = self.running.copy()
        self.saves += 1
        self.changed = False
        self.hand_on()

    def reboot(self) -> None:
        """Start anew: what was not saved is lost, sessions and connections too."""
        for key in list(self.running.members):
            self.traffic.cut(key)
        self.running = self.saved.copy()
        self.sessions.clear()
        self.reboots += 1
        self.changed = False

    def tick(self) -> None:
        """Cut what is left on members whose delay is over."""
        for member in self.running.members.values():
            self._tick(member)

    def _tick(self, member: Member) -> None:
        """Cut what is left on a member whose delay is over."""
        if not is_disabled(self.running, member):
            return
        idle = not self.traffic.count(member.key)
        if idle or not member.waits(self.clock(), 1):
            self._note_idle(member.key)
            self.traffic.cut(member.key)

    def svrstate(self, member: Member) -> str:
        """Return how a member is now."""
        self._tick(member)
        return svrstate(self.running, member, self.traffic, self.clock())

    def _note(self, what: str, key: MemberKey) -> None:
        """Write down what happened."""
        self.events.append(Event(what, key, self.traffic.count(key)))
        self._last[key] = what

    def _note_idle(self, key: MemberKey) -> None:
        """Write down, once, that a disabled member has nothing left to wait for."""
        if self._last.get(key) == "disabled":
            self._note("idle", key)
