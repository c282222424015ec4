"""What the shard of a load balancer does, C1, where other shards have the records at it.

It reads the epochs, and writes into each record that its member was lost. Its registrar puts the
member back, whichever shard that is, and C1 writes the new epoch down when all are back
(`lbcf.controller.other_shards`).
"""

from __future__ import annotations

from tests.lab.model import layout as at
from tests.lab.model import world
from tests.lab.model.rules import Rules
from tests.lab.model.world import Draft, State, Step, Steps


def steps(s: State, rules: Rules, out: Steps) -> None:
    """Add what C1 may do."""
    _notice(s, rules, out)
    for r in range(rules.records):
        known = s[at.LOSSES + r]
        if known & at.ON_ITS_WAY:
            _be_told(s, rules, r, out)
        elif known & at.TO_WRITE:
            _write(s, rules, r, out)
        elif known & at.TO_COME_BACK and _is_back(s, r):
            n = bytearray(s)
            n[at.LOSSES + r] = 0
            out.append(Step(("C1 sees that {r} is back, or ends", 0, r), n))
    _write_epoch(s, rules, out)
    if rules.crashes and (s[at.ACTED_ON] or any(_losses(s, rules))):
        n = bytearray(s)
        n[at.ACTED_ON] = 0
        n[at.LOSSES : at.SIZE] = bytes(at.SIZE - at.LOSSES)
        out.append(Step(("C1 ends; another begins in its place", 0, 0), n, fault=True))


def _losses(s: State, rules: Rules) -> bytes:
    """Return what C1 knows of the losses of all records."""
    return bytes(s[at.LOSSES : at.LOSSES + rules.records])


def _notice(s: State, rules: Rules, out: Steps) -> None:
    """Read another epoch, and list the records that may have lost their member."""
    known = s[at.ACTED_ON] - 1 if s[at.ACTED_ON] else s[at.EPOCH_WRITTEN]
    if known == s[at.RESETS]:
        return
    n = bytearray(s)
    n[at.ACTED_ON] = 1 + s[at.RESETS]
    for r in range(rules.records):
        d = at.record(r)
        if s[d + at.PHASE] == at.LIVE and s[d + at.ADDRESS]:
            further = at.FURTHER if s[at.LOSSES + r] & at.ON_ITS_WAY else 0
            n[at.LOSSES + r] |= at.TO_WRITE | at.TO_COME_BACK | further
    out.append(Step(("C1 reads another epoch, and lists the records", 0, 0), n))


def _write(s: State, rules: Rules, r: int, out: Steps) -> None:
    """Write into a record that its member was lost; its mark stays as it is."""
    d = at.record(r)
    if not rules.losses_by_cas and not s[at.LOSSES + r] & at.HAS_READ:
        n = bytearray(s)
        n[at.LOSSES + r] |= at.HAS_READ
        n[at.READ_MARKS + r] = s[d + at.MARK]
        out.append(Step(("C1 reads {r}, which lost its member", 0, r), n))
        return
    n = bytearray(s)
    if s[d + at.PHASE] != at.LIVE:
        n[at.LOSSES + r] = n[at.READ_MARKS + r] = 0
        out.append(Step(("C1 reads {r}, which ends", 0, r), n))
        return
    if rules.losses_anew or not s[d + at.STAMP] & at.SAYS_LOST:
        world.touch(n, r)
    n[d + at.REGISTERED] = 0
    if not rules.losses_anew:
        n[d + at.STAMP] |= at.SAYS_LOST
    text = "C1 writes into {r} that its member was lost"
    if not rules.losses_by_cas:
        n[d + at.MARK] = s[at.READ_MARKS + r]
        n[at.READ_MARKS + r] = 0
        n[at.LOSSES + r] &= ~at.HAS_READ
        text += ", with the mark that it had read"
    n[at.LOSSES + r] |= at.ON_ITS_WAY
    out.append(Step((text, 0, r), n))


def _be_told(s: State, rules: Rules, r: int, out: Steps) -> None:
    """Hear that a loss is written, or hear nothing and write it again."""
    n = bytearray(s)
    n[at.LOSSES + r] &= ~(at.ON_ITS_WAY | at.FURTHER)
    if not (rules.losses_apart and s[at.LOSSES + r] & at.FURTHER):
        n[at.LOSSES + r] &= ~at.TO_WRITE
    out.append(Step(("C1 is told that the loss of {r} is written", 0, r), n))
    if rules.silences:
        n = bytearray(s)
        n[at.LOSSES + r] &= ~(at.ON_ITS_WAY | at.FURTHER)
        text = "C1 hears nothing of its write of {r}"
        out.append(Step((text, 0, r), n, fault=True))


def _is_back(s: State, r: int) -> bool:
    """Tell whether a record is registered again, or is to go."""
    d = at.record(r)
    return s[d + at.PHASE] != at.LIVE or bool(s[d + at.REGISTERED])


def _write_epoch(s: State, rules: Rules, out: Steps) -> None:
    """Write down the epoch that was acted on, once all that was lost is back."""
    acted_on = s[at.ACTED_ON]
    if not acted_on or acted_on - 1 == s[at.EPOCH_WRITTEN]:
        return
    if rules.losses_first and any(_losses(s, rules)):
        return
    n = bytearray(s)
    _note_epoch(n, acted_on - 1)
    out.append(Step(("C1 writes the new epoch", 0, 0), n))


def _note_epoch(n: Draft, epoch: int) -> None:
    """Let an epoch be written down."""
    n[at.EPOCH_WRITTEN] = epoch
    n[at.EPOCH] = epoch != n[at.RESETS]
