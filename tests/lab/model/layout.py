"""How a state of the model is laid out in bytes.

A state is one `bytes`: the load balancer, the records, the registrars with what each
remembers of each record, the deregistrars, and the calls whose callers have gone.
"""

from __future__ import annotations


# --- the load balancer and the lock -------------------------------------------------
LOCK, LOCK_AGE, EPOCH, RESETS, FREED, POD = range(6)
"""Holder of the lock (0 nobody, 1 + record); ticks since that holder has been gone;
whether the epoch has changed and nobody wrote it down; resets that have been, by which
epochs are numbered; whether a
deregistrar wrote that all calls for that holder's end were answered; the records' pod."""
RUNS, DELETED, TOLD = range(3)
"""Of the pod: it runs, it was deleted and its preStop waits, it was told to end."""

MEMBERS = 6
MEMBER = 3
IS_IN, IS_DRAINED, HAS = range(MEMBER)
"""Of a member: whether it is in, gets no new traffic, which parameters it has."""

# --- records ------------------------------------------------------------------------
MAX_RECORDS = 3
RECORDS = MEMBERS + MAX_RECORDS * MEMBER
RECORD = 13
PHASE, ADDRESS, REGISTERED, MARK, CHANGED, ALWAYS, AGE = range(7)
ENSURED, ENDED, LOST, UNHELD, ENDER, STAMP = range(7, RECORD)
"""Of a record: phase; whether an address is written; Registered at its generation;
`ensuring`; changes of its spec; policy; ticks since its deletion; whether an ensure ever
took effect; whether a deregister that counts was answered; whether a reset took it; whether a namesake's
release took its finalizer; `deregistrar`, who alone may call for its end; whether it says
that its ensures may live for longer, or whoever takes its lock over is told so of calls for
its end (`LONGER_END`)."""
LONGER_END = 2
SAYS_LOST = 4
"""A bit of `STAMP`, too, in a weaker protocol: Registered says that the member was lost."""

ABSENT, LIVE, DELETING, GONE = range(4)

# --- workers ------------------------------------------------------------------------
STAGE, WHICH, CURRENT, SINCE, CARRIES = range(5)
"""Of a worker: stage; record; whether no one wrote that record since it was read; ticks
since the permission; a registrar's parameters, or what a deregistrar's call is."""
IDLE, READ, LOCKED, PERMITTED, SENT, EFFECTIVE, ANSWERED = range(7)

KEPT, KEPT_AGE, SURVEYED, UNHEARD = range(5, 9)
"""Of a registrar: the permission of an own update and its age; read the new epoch; a
write of Registered that may still be made: 0 none, else 1 + the mark that it leaves."""
MEMORY, CLOCK = range(2)
"""Of a registrar and a record: what it remembers; ticks since it has known the record."""
CLAIMS, DOUBTS, HAS_LOCK, RESETTING, CONFIRMED, LOOKED, GIVEN_UP, STARS = (
    1,
    2,
    4,
    8,
    16,
    32,
    64,
    128,
)
"""The bits of `MEMORY`; `GIVEN_UP` in a weaker protocol alone, `STARS` where doubts end: of
a write that would leave no mark nothing was heard."""
KEPT_IS_CURRENT, KEPT_IS_MINE, KEPT_IS_ANYBODYS, KEPT_HAS_ADDRESS = 2, 4, 8, 16
KEPT_IN_TURN = 32
"""The bits of `KEPT` beside 1: nobody wrote since; the mark and address it shows; it
came in the middle of a turn, which goes on by reads of its own."""
OLDER_ARE_OVER = 2
"""The bit of an ensure's `CARRIES` beside the parameters: sent when none older is out."""
LIVES_LONGER = 4
"""Another one: it was sent under the longer of a driver's bounds; of a call for an end, too,
whose bounds are still to be said (in a weaker protocol alone)."""

MAX_REGISTRARS = 2
REGISTRARS = RECORDS + MAX_RECORDS * RECORD
MEMORIES = 9
REGISTRAR = MEMORIES + MAX_RECORDS * 2

MAX_DEREGISTRARS = 2
DEREGISTRARS = REGISTRARS + MAX_REGISTRARS * REGISTRAR
ENDINGS = 5
DEREGISTRAR = ENDINGS + MAX_RECORDS
UNANSWERED, ANSWERED_ALL, ENDING_GIVEN_UP = 1, 2, 4
"""The bits of what a deregistrar remembers of a record's end: a call of its own had no
definite answer; it has let the record go, and all calls for its end had one; it waits for
a change (in a weaker protocol alone)."""
TICK_OUT, TICKS_OUT = 8, 7 * 8
"""The other bits: the ticks until its own calls without an answer are over; `ANSWERED_ALL`
says then that all others had one."""
EARLY, FINAL, NEVER, DRAIN = range(4)
"""What a deregistrar's `CARRIES` says: a deregister that does not count, one that does,
that nothing was ever registered, a drain."""

# --- calls without a caller: 0 none, else 1 + ticks since the permission --------------
ORPHANS = DEREGISTRARS + MAX_DEREGISTRARS * DEREGISTRAR
ORPHAN = 8
LATE_ENSURE, LATE_NEW_ENSURE, LATE_DEREGISTER, LATE_DRAIN, RUNNING = range(5)
"""The kinds; `RUNNING` is added to the kind of a call that was answered by Running."""

# --- the shard of the load balancer, where that is another one than the records' -----
ACTED_ON = ORPHANS + MAX_RECORDS * ORPHAN
EPOCH_WRITTEN = ACTED_ON + 1
"""1 + the epoch that C1 has acted on, 0 since it began; the one that is written down."""
LOSSES = EPOCH_WRITTEN + 1
TO_WRITE, ON_ITS_WAY, FURTHER, TO_COME_BACK, HAS_READ = 1, 2, 4, 8, 16
"""What C1 knows of a record's loss: that it is to be written; that it was written, and C1
not told yet; that there was a further one since; that the member is not seen back; in a
weaker protocol, that it has read the record,"""
READ_MARKS = LOSSES + MAX_RECORDS
"""and with which mark."""

SIZE = READ_MARKS + MAX_RECORDS


def record(r: int) -> int:
    """Say where a record begins."""
    return RECORDS + r * RECORD


def registrar(w: int) -> int:
    """Say where a registrar begins."""
    return REGISTRARS + w * REGISTRAR


def memory(w: int, r: int) -> int:
    """Say where begins what a registrar remembers of a record."""
    return REGISTRARS + w * REGISTRAR + MEMORIES + r * 2


def deregistrar(w: int) -> int:
    """Say where a deregistrar begins."""
    return DEREGISTRARS + w * DEREGISTRAR


def ending(w: int, r: int) -> int:
    """Say where is what a deregistrar remembers of a record's end."""
    return DEREGISTRARS + w * DEREGISTRAR + ENDINGS + r


def orphan(r: int, kind: int) -> int:
    """Say where a record's calls of a kind are that have lost their caller."""
    return ORPHANS + r * ORPHAN + kind
