"""What HAProxy answers to questions: text to values. Pure.

Columns are found by the names in the header line, for versions add columns. A backend
may have thousands of servers and most questions are about one: rows are split only
when they are looked at.
"""

import csv
import ipaddress
import re

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import attrs

from webhooks.haproxy.errors import Unreadable
from webhooks.shared.addresses import IPAddress


FORCED_MAINTENANCE = 0x01
"""Bit of srv_admin_state: `set server ... state maint`."""

FORCED_DRAIN = 0x08
"""Bit of srv_admin_state: `set server ... state drain`."""

CONFIGURED_MAINTENANCE = 0x04
"""Bit of srv_admin_state: `disabled` in the configuration, whatever it is now."""

CHECK_CONFIGURED = 0x02
"""Bit of srv_check_state: the server was added with `check`."""

CHECK_ENABLED = 0x04
"""Bit of srv_check_state: the checks run."""

SERVER_DOWN = 0
"""srv_op_state of a server that gets no traffic: its checks fail, or none has passed."""

SERVER_STOPPING = 3
"""srv_op_state of a server that gets nobody new by its own wish (`disable-on-404`)."""

SERVER_UP = frozenset({1, 2})
"""srv_op_state of a server that gets traffic: 1 less than its share (`slowstart`), 2 all."""


class Generation(NamedTuple):
    """Which process answered: a reload brings another, without our servers.

    Attributes:
        pid: of the worker; pids repeat.
        started: second of its start; two reloads may fall into one second.
    """

    pid: int
    started: int

    def __str__(self) -> str:
        return f"{self.pid}-{self.started}"


@attrs.frozen
class Server:
    """A row of `show servers state`.

    Attributes:
        name: unique in its backend.
        backend_id: number of the backend in the statistics.
        server_id: number of the server in them; reused after a deletion.
        address: None where HAProxy has none.
        port: 0 where HAProxy has none.
        operation: srv_op_state.
        admin: srv_admin_state, bits of what holds now.
        weight: 0 to 256, as set at run time.
        check: srv_check_state, bits.
    """

    name: str
    backend_id: int
    server_id: int
    address: IPAddress | None
    port: int
    operation: int
    admin: int
    weight: int
    check: int

    @property
    def in_maintenance(self) -> bool:
        """Whether nobody new is let in, not even persistent clients."""
        return bool(self.admin & FORCED_MAINTENANCE)

    @property
    def draining(self) -> bool:
        """Whether only persistent clients are let in."""
        return bool(self.admin & FORCED_DRAIN)

    @property
    def word(self) -> str:
        """What HAProxy's own pages call its state."""
        if self.draining:
            return "DRAIN"
        if self.admin:
            return "MAINT"
        if self.operation == SERVER_STOPPING:
            return "NOLB"
        return "UP" if self.up else "DOWN"

    @property
    def up(self) -> bool:
        """Whether its health checks let it have traffic, be it less than its share."""
        return self.operation in SERVER_UP

    @property
    def serving(self) -> bool:
        """Whether anybody may be sent to it now."""
        return self.admin == 0 and self.up and self.weight > 0

    @property
    def held_back(self) -> bool:
        """Whether it is to serve, and its health checks let nobody new in."""
        return self.admin == 0 and not self.up and self.weight > 0

    @property
    def starting(self) -> bool:
        """Whether it is to serve and waits for its health checks to pass."""
        return self.held_back and self.operation == SERVER_DOWN


@attrs.frozen
class Snapshot:
    """The servers of one backend as one process had them.

    Attributes:
        generation: of the process.
        stopping: it is the old process of a reload: what it has means nothing.
        columns: position by name.
        rows: not yet split.
    """

    generation: Generation
    stopping: bool
    columns: Mapping[str, int]
    rows: Sequence[str]

    def server(self, name: str) -> Server | None:
        """Return the server of that name, if there is one."""
        mark = f" {name} "
        for row in self.rows:
            if mark in row and self._cell(row.split(" "), "srv_name") == name:
                return self._parsed(row)
        return None

    def servers(self) -> Iterator[Server]:
        """Return all servers, one after the other."""
        return map(self._parsed, self.rows)

    def _parsed(self, row: str) -> Server:
        """Read a row.

        Raises:
            Unreadable: a column is missing, or a number is none.
        """
        cells = row.split(" ")
        return Server(
            name=self._cell(cells, "srv_name"),
            backend_id=self._number(cells, "be_id"),
            server_id=self._number(cells, "srv_id"),
            address=_parsed_address(self._cell(cells, "srv_addr")),
            port=self._number(cells, "srv_port"),
            operation=self._number(cells, "srv_op_state"),
            admin=self._number(cells, "srv_admin_state") & ~CONFIGURED_MAINTENANCE,
            weight=self._number(cells, "srv_uweight"),
            check=self._number(cells, "srv_check_state"),
        )

    def _cell(self, cells: Sequence[str], column: str) -> str:
        try:
            return cells[self.columns[column]]
        except LookupError as error:
            raise Unreadable(f"`show servers state` has no {column}") from error

    def _number(self, cells: Sequence[str], column: str) -> int:
        """Return the number of a column."""
        text = self._cell(cells, column)
        try:
            return int(text)
        except ValueError as error:
            raise Unreadable(
                f"{column} in `show servers state` is {text!r}, not a number"
            ) from error


def _parsed_address(text: str) -> IPAddress | None:
    """Read an address; host names and `-` are none."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def parse_process(text: str) -> tuple[Generation, bool]:
    """Read `show info`: which process answered, and whether it is to stop.

    Raises:
        Unreadable: there is no such thing in it.
    """
    generation = Generation(_field(text, "Pid"), _field(text, "Start_time_sec"))
    return generation, bool(_field(text, "Stopping"))


def parse_snapshot(text: str) -> Snapshot | None:
    """Read the answer to `show info;show servers state BACKEND`.

    Returns:
        None where the second command was refused.

    Raises:
        Unreadable: there is no such thing in it, or it was cut.
    """
    generation, stopping = parse_process(text)
    _, found, table = text.partition("\n# be_id ")
    if not found:
        return None
    header, *lines = table.split("\n")
    if not text.endswith("\n\n"):
        raise Unreadable("`show servers state` ended before its blank line")
    columns = {name: at for at, name in enumerate(["be_id", *header.split()])}
    return Snapshot(generation, stopping, columns, [line for line in lines if line])


def _field(text: str, name: str) -> int:
    found = re.search(rf"^{name}: (\d+)$", text, re.MULTILINE)
    if found is None:
        raise Unreadable(f"`show info` has no {name}")
    try:
        return int(found[1])
    except ValueError as error:
        raise Unreadable(f"{name} in `show info` is not a number: {error}") from error


def parse_loads(text: str, backend: str) -> Mapping[str, int]:
    """Read `show stat`: for each server, requests in progress and waiting.

    HTTP: requests; TCP: connections. Connections that are idle do not count.

    Raises:
        Unreadable: a column is missing, or a number is none.
    """
    rows = csv.DictReader(text.removeprefix("# ").splitlines())
    try:
        return {
            row["svname"]: int(row["scur"]) + int(row["qcur"])
            for row in rows
            if row["pxname"] == backend and row["type"] == "2"
        }
    except (KeyError, ValueError, TypeError, csv.Error) as error:
        raise Unreadable(f"`show stat` cannot be read: {error!r}") from error


def parse_cookie(text: str, backend: str) -> str:
    """Read `show stat`: the name of a backend's cookie, empty where it has none.

    Raises:
        Unreadable: it is no table.
    """
    rows = csv.DictReader(text.removeprefix("# ").splitlines())
    names = (row.get("cookie", "") for row in rows if row.get("pxname") == backend)
    try:
        return next(names, "")
    except csv.Error as error:
        raise Unreadable(f"`show stat` cannot be read: {error!r}") from error
