"""One emulated BIG-IP: what requests do to it, and what tests do to it.

`server` brings requests that may be made. A unit runs one configuration and has
another on disk; a reboot goes back to that one.
"""

import itertools
import time

from collections.abc import Callable, Mapping

import attrs

from tests.f5 import documents
from tests.f5.config import Config, Member, Pool, Refusal, check_fields
from tests.f5.documents import Document


@attrs.frozen
class Event:
    """Something that happened to a member.

    Attributes:
        what: added, enabled, disabled, offline or removed.
        pool: its pool.
        member: its path.
        connections: that it had then.
    """

    what: str
    pool: str
    member: str
    connections: int


EXPIRES = 120
"""Seconds after the last command at which a transaction is gone."""


@attrs.define
class Transaction:
    """Commands that wait for their commit.

    Attributes:
        commands: in the order in which they are evaluated.
        touched: monotonic seconds at which the last one came.
    """

    commands: list[Callable[[], object]] = attrs.field(factory=list)
    touched: float = attrs.field(factory=time.monotonic)


@attrs.define(eq=False)
class Unit:
    """A BIG-IP.

    Attributes:
        name: its host name.
        running: its configuration.
        saved: what is on its disk.
        failover: active or standby.
        peers: units of its device groups, itself too.
        groups: paths of its device groups.
        connections: by pool and member; the test sets them.
        health: what monitors say of an address; up where unsaid.
        events: what happened to members, in order.
        saves: how many times it was saved.
        syncs: groups that were brought up to date from here.
        stuck: groups that cannot be, for the moment.
        uncounted: paths of members that statistics leave out.
        spoilt: what is said, with 400, to the adding of a member, by its address.
        hides_default: whether addresses are shown without the route domain that is the
            default of their partition; else it is 0 that is not shown.
        transactions: those that are open.
        commits: how many commands each transaction had that was committed.
    """

    name: str = "bigip1"
    running: Config = attrs.field(factory=Config)
    saved: Config = attrs.field(factory=Config)
    failover: str = "active"
    peers: list["Unit"] = attrs.field(factory=list)
    groups: list[str] = attrs.field(factory=list)
    connections: dict[tuple[str, str], int] = attrs.field(factory=dict)
    health: dict[str, str] = attrs.field(factory=dict)
    events: list[Event] = attrs.field(factory=list)
    saves: int = 0
    syncs: list[str] = attrs.field(factory=list)
    stuck: set[str] = attrs.field(factory=set)
    uncounted: set[str] = attrs.field(factory=set)
    spoilt: dict[str, str] = attrs.field(factory=dict)
    hides_default: bool = False
    transactions: dict[int, Transaction] = attrs.field(factory=dict)
    commits: list[int] = attrs.field(factory=list)
    _numbers: "itertools.count[int]" = attrs.field(factory=lambda: itertools.count(1))

    def add_pool(self, path: str, monitor: str = "") -> None:
        """Have a pool that its operator made and saved."""
        self.running.pools[path] = Pool(path, monitor)
        self.saved = self.running.copy()

    def reboot(self) -> None:
        """Come up with what is on disk."""
        self.running = self.saved.copy()
        self.connections.clear()
        self.transactions.clear()

    def save(self) -> Document:
        """Write what runs to disk."""
        self.saved = self.running.copy()
        self.saves += 1
        return {"kind": "tm:sys:config:savestate", "command": "save"}

    def run(self, body: Mapping[str, object]) -> Document:
        """Bring the other units up to date, be they active or not.

        A real unit knows more words; what nobody should send is refused here.
        """
        match [str(body.get("command")), *str(body.get("utilCmdArgs", "")).split()]:
            case ["run", "config-sync", "to-group", group]:
                self._check_group(group)
            case _:
                raise Refusal(400, f"01020000:3: unknown command {body}", 26214401)
        if group in self.stuck:
            text = f"01071488:3: Remote transaction for device group {group} failed."
            raise Refusal(400, text)
        for peer in self.peers:
            peer.running = self.running.copy()
        self.syncs.append(group)
        return {"kind": "tm:cm:runstate", **body}

    def device_group(self, path: str) -> Document:
        """Return a device group."""
        self._check_group(path)
        return documents.device_group_document(path)

    def _check_group(self, path: str) -> None:
        """Refuse a device group that there is not."""
        if path not in self.groups:
            text = f"01020036:3: The requested device group ({path}) was not found."
            raise Refusal(404, text)

    def devices(self) -> Document:
        """Return the units of the device group."""
        return documents.collection(
            "tm:cm:device:devicecollectionstate",
            "/mgmt/tm/cm/device",
            (
                documents.device_document(
                    unit.name, unit.failover, is_self=unit is self
                )
                for unit in self.peers or [self]
            ),
        )

    def pool(self, path: str) -> Document:
        """Return a pool."""
        pool = self.running.pool(path)
        return documents.pool_document(path, pool.generation, pool.monitor)

    def members(self, path: str) -> Document:
        """Return the members of a pool."""
        return documents.collection(
            "tm:ltm:pool:members:memberscollectionstate",
            f"{documents.pool_url(path)}/members",
            (self.member(path, one) for one in sorted(self.running.pool(path).members)),
        )

    def member(self, pool: str, path: str) -> Document:
        """Return a member."""
        member = self.running.member(pool, path)
        fields = self._shown(pool, member)
        return documents.member_document(pool, path, member.generation, fields)

    def add_member(self, pool: str, body: Mapping[str, object]) -> Document:
        """Add a member."""
        member = self.running.add_member(pool, body)
        if member.address in self.spoilt:
            del self.running.pool(pool).members[member.path]
            raise Refusal(400, self.spoilt[member.address])
        self._note("added", pool, member.path)
        return self.member(pool, member.path)

    def modify_member(
        self, pool: str, path: str, body: Mapping[str, object]
    ) -> Document:
        """Change the fields that are said."""
        member = self.running.member(pool, path)
        check_fields(body)
        if not body:
            raise Refusal(400, "one or more properties must be specified", 26214401)
        member.fields |= body
        member.generation = self.running.touch()
        if "session" in body or "state" in body:
            self._note(_service(member), pool, path)
        return self.member(pool, path)

    def remove_member(self, pool: str, path: str) -> None:
        """Take a member out; its node stays, and its connections go on."""
        self.running.member(pool, path)
        del self.running.pool(pool).members[path]
        self.running.touch()
        self._note("removed", pool, path)
        self.connections.pop((pool, path), None)

    def statistics(self, pool: str, path: str | None = None) -> Document:
        """Return the statistics of a member, or of all of a pool."""
        where = f"{documents.pool_url(pool)}/members"
        found = self.running.pool(pool).members if path is None else [path]
        entries = {
            f"{where}/{documents.in_url(one)}/stats": self._leaves(pool, one)
            for one in sorted(found)
            if one not in self.uncounted
        }
        if path is None:
            kind = "tm:ltm:pool:members:memberscollectionstats"
            return documents.statistics(kind, f"{where}/stats", entries)
        self.running.member(pool, path)
        kind = "tm:ltm:pool:members:membersstats"
        itself = f"{where}/{documents.in_url(path)}/stats"
        return documents.statistics(kind, itself, entries)

    def node(self, path: str) -> Document:
        """Return a node."""
        node = self.running.node(path)
        address = self._spelt(path, node.address)
        return documents.node_document(path, node.generation, address, node.description)

    def _spelt(self, node: str, address: str) -> str:
        """Return the address of a node as it is shown."""
        if not self.hides_default:
            return address
        default = self.running.domain(node)
        host, _, domain = address.partition("%")
        return host if int(domain or 0) == default else f"{host}%{domain or 0}"

    def partition(self, name: str) -> Document:
        """Return a partition."""
        domain = self.running.domains.get(name, 0)
        return documents.partition_document(name, domain)

    def nodes(self) -> Document:
        """Return all nodes."""
        return documents.collection(
            "tm:ltm:node:nodecollectionstate",
            "/mgmt/tm/ltm/node",
            (self.node(path) for path in sorted(self.running.nodes)),
        )

    def begin(self) -> Document:
        """Open a transaction."""
        number = next(self._numbers)
        self.transactions[number] = Transaction()
        return self._transaction(number, "STARTED")

    def queue(
        self, number: int, change: Callable[[], object], command: Document
    ) -> Document:
        """Have a change made when the transaction is committed; nothing looks at it yet.

        Args:
            number: of the transaction.
            change: what is to be done.
            command: the request, as it is answered.
        """
        transaction = self._open(number)
        transaction.commands.append(change)
        place = len(transaction.commands)
        where = f"/mgmt/tm/transaction/{number}/commands/{place}"
        return command | {
            "evalOrder": place,
            "commandId": place,
            "kind": "tm:transaction:commandsstate",
            "selfLink": documents.link(where),
        }

    def commit(self, number: int) -> Document:
        """Make all changes of a transaction, or none; it is gone in both cases."""
        commands = self._open(number).commands
        del self.transactions[number]
        before, happened = self.running.copy(), len(self.events)
        connections = dict(self.connections)
        try:
            for change in commands:
                change()
        except Refusal as refusal:
            self.running, self.connections = before, connections
            del self.events[happened:]
            raise Refusal(400, f"transaction failed:{refusal}", 2) from refusal
        self.commits.append(len(commands))
        return self._transaction(number, "COMPLETED")

    def abandon(self, number: int) -> None:
        """Delete a transaction: nothing of it is made."""
        self._open(number)
        del self.transactions[number]

    def _open(self, number: int) -> Transaction:
        """Return a transaction that is open, and was not left alone for too long."""
        now = time.monotonic()
        for one, transaction in list(self.transactions.items()):
            if now - transaction.touched > EXPIRES:
                del self.transactions[one]
        if number not in self.transactions:
            raise Refusal(404, f"there is no transaction {number}", 2)
        self.transactions[number].touched = now
        return self.transactions[number]

    def _transaction(self, number: int, state: str) -> Document:
        """Return a transaction."""
        return {
            "transId": number,
            "state": state,
            "timeoutSeconds": EXPIRES,
            "asyncExecution": False,
            "validateOnly": False,
            "executionTimeout": 300,
            "executionTime": 0,
            "failureReason": "",
            "kind": "tm:transactionstate",
            "selfLink": documents.link(f"/mgmt/tm/transaction/{number}"),
        }

    def _leaves(self, pool: str, path: str) -> Document:
        """Return the leaves of a member's statistics."""
        fields = self._shown(pool, self.running.member(pool, path))
        connections = self.connections.get((pool, path), 0)
        return documents.member_statistics(pool, fields, connections)

    def _shown(self, pool: str, member: Member) -> Document:
        """Return a member's fields as they are read: states are computed."""
        written: Document = {
            "ratio": 1,
            "connectionLimit": 0,
            "priorityGroup": 0,
            "monitor": "default",
            "description": "",
        } | member.fields
        monitor = written["monitor"]
        checked = self.running.pool(pool).monitor if monitor == "default" else monitor
        state, session = written["state"], written["session"]
        if state == "user-up":
            up = self.health.get(member.address, "up")
            watched = checked not in {"", "/Common/none"}
            state = up if watched else "unchecked"
            if watched and session == "user-enabled":
                session = "monitor-enabled"
        computed: Document = {
            "address": self._spelt(member.node, member.address),
            "node": member.node,
            "port": member.port,
            "state": state,
            "session": session,
            "monitor": monitor if monitor == "default" else f"{monitor} ",
        }
        return written | computed

    def _note(self, what: str, pool: str, path: str) -> None:
        """Write down what happened."""
        left = self.connections.get((pool, path), 0)
        self.events.append(Event(what, pool, path, left))


def _service(member: Member) -> str:
    """Return what was done to a member's service."""
    if member.fields["state"] == "user-down":
        return "offline"
    return "enabled" if member.fields["session"] == "user-enabled" else "disabled"
