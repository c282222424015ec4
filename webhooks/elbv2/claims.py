"""What this driver has put into target groups: written down before it is sent.

ELBv2 keeps nothing about a target that could say whose it is. So a target is claimed
here while it is seen to be free, and only then registered; what is not claimed is never
taken out. A claim is not forgotten when its target is out, or a call that is repeated
could take out what somebody else has put there since: there is one per address, so that
they stay few, and listings do not read those that are done. In a file, the claims
outlive the process (SQLite's write-ahead log: what was written survives a crash of the
process, the last moments may be lost with the machine); in memory alone, a registration
that was under way when the process died is not known any more, until its record brings
back the proof of a success.

Claims that are lost take the members with them from listings, though none has left its
target group. So `memory` is part of the epoch: under another one all members are ensured
again, and are claimed with the proofs that their records bring back.
"""

import sqlite3

from collections.abc import Mapping
from types import TracebackType
from typing import Self

import attrs

from lbcf.sdk import Clock, SystemClock
from webhooks.elbv2.decisions import Claim
from webhooks.elbv2.errors import NotWritten
from webhooks.elbv2.targets import Target, parse_target
from webhooks.shared.identity import Owner


IN_MEMORY = ":memory:"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS claims (
    target_group TEXT, target TEXT, record TEXT, state TEXT,
    pool TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (target_group, target)
) STRICT;
CREATE INDEX IF NOT EXISTS held ON claims (target_group) WHERE state != 'done';
CREATE TABLE IF NOT EXISTS losses (target_group TEXT PRIMARY KEY, number INTEGER) STRICT;
CREATE TABLE IF NOT EXISTS names (name TEXT) STRICT
"""

_DIGITS = 8
"""Of a name."""


@attrs.frozen
class Claimed:
    """A claim, and whose it is."""

    state: Claim
    owner: Owner

    @property
    def record(self) -> str:
        """The id of the record that it was made for."""
        return self.owner.record


class Claims:
    """The claims of one driver.

    Args:
        path: of the file; `:memory:` for none.
        clock: for a name; None: the machine's.

    Raises:
        OSError: the file cannot be used, or another driver uses it.

    Attributes:
        memory: names what is written down here; another one once some of it may be lost.
    """

    def __init__(self, path: str = IN_MEMORY, clock: Clock | None = None) -> None:
        try:
            self._rows = sqlite3.connect(path, timeout=0, isolation_level=None)
            # Two drivers with one file would each take the other's claims for current.
            self._rows.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._rows.execute("PRAGMA journal_mode=WAL")
            self._rows.execute("PRAGMA synchronous=NORMAL")
            self._rows.executescript(_SCHEMA)
            self._add_pools()
            self.memory = self._named(clock or SystemClock())
        except sqlite3.Error as error:
            raise OSError(f"claims cannot be kept in {path}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _add_pools(self) -> None:
        """Let a file of an earlier version say which pools claims are of."""
        columns = self._rows.execute("PRAGMA table_info(claims)").fetchall()
        if "pool" not in {column[1] for column in columns}:
            self._rows.execute(
                "ALTER TABLE claims ADD COLUMN pool TEXT NOT NULL DEFAULT ''"
            )

    def _named(self, clock: Clock) -> str:
        """Return the name of the claims; they get one when they are made.

        A machine that went down may have taken the last moments of a file with it.
        """
        self._rows.execute(
            "INSERT INTO names SELECT ? WHERE NOT EXISTS (SELECT * FROM names)",
            (clock.new_id()[:_DIGITS],),
        )
        (name,) = self._rows.execute("SELECT name FROM names").fetchone()
        return f"{name}.{clock.boot[:_DIGITS]}".rstrip(".")

    def close(self) -> None:
        """Close the file."""
        self._rows.close()

    def get(self, group: str, target: Target) -> Claimed | None:
        """Return the claim on a target of a target group; None: it is not ours."""
        found = self._rows.execute(
            "SELECT state, record, pool FROM claims WHERE target_group = ? AND target = ?",
            (group, str(target)),
        ).fetchone()
        return None if found is None else _claimed(*found)

    def of_group(self, group: str) -> Mapping[Target, Claimed]:
        """Return the claims in a target group but for those that are done."""
        # In the words of the index, or it is not used.
        found = self._rows.execute(
            "SELECT target, state, record, pool FROM claims WHERE target_group = ?"
            " AND state != 'done' ORDER BY rowid",
            (group,),
        )
        return {parse_target(target): _claimed(*claim) for target, *claim in found}

    def put(self, group: str, claims: Mapping[Target, Claimed | None]) -> None:
        """Write down claims in place of older ones, all or none; None: forget it.

        Raises:
            NotWritten: the file cannot be written.
        """
        try:
            with self._rows:
                self._replace(group, claims)
        except sqlite3.Error as error:
            raise NotWritten(
                f"the claims file cannot be written: {error}; nothing is sent until it "
                "can be"
            ) from error

    def _replace(self, group: str, claims: Mapping[Target, Claimed | None]) -> None:
        """Write down claims within a transaction."""
        self._rows.execute("BEGIN")
        for target, claim in claims.items():
            if claim is None:
                self._rows.execute(
                    "DELETE FROM claims WHERE target_group = ? AND target = ?",
                    (group, str(target)),
                )
            else:
                self._rows.execute(
                    "INSERT INTO claims VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
                    " SET state = excluded.state, record = excluded.record,"
                    " pool = excluded.pool",
                    (
                        *(group, str(target), claim.record),
                        *(claim.state.value, claim.owner.pool),
                    ),
                )

    def drop_group(self, group: str) -> None:
        """Forget all claims in a target group that is gone."""
        self._rows.execute("DELETE FROM claims WHERE target_group = ?", (group,))

    def losses(self, group: str) -> int:
        """Return how often targets of ours were taken out by somebody else."""
        found = self._rows.execute(
            "SELECT number FROM losses WHERE target_group = ?", (group,)
        ).fetchone()
        return 0 if found is None else int(found[0])

    def count_loss(self, group: str) -> None:
        """Note that somebody else took out what is ours."""
        self._rows.execute(
            "INSERT INTO losses VALUES (?, 1) ON CONFLICT DO UPDATE"
            " SET number = number + 1",
            (group,),
        )


def _claimed(state: str, record: str, pool: str) -> Claimed:
    return Claimed(Claim(state), Owner(record, pool))
