"""Each rule taken away: each of these must be refuted, with its shortest trace.

Those in `SLOW` are too much for CPython.
"""

from __future__ import annotations

from tests.lab.model.variants import Variant, address, record


WEAKER = (
    Variant("w01", "ensures go out on a cached read", record(fresh_ensure=False), "S"),
    Variant(
        "w02",
        "deregisters go out on a cached read",
        address(crashes=False, fresh_deregister=False),
        "S2",
    ),
    Variant("w03", "no lock on the address", address(crashes=False, lock="none"), "S"),
    Variant(
        "w04",
        "a consistent list instead of the lock",
        address(crashes=False, lock="list", registrars=2),
        "S2",
    ),
    Variant(
        "w05",
        "the address is written before the lock is taken",
        address(crashes=False, lock_first=False),
        "S2",
    ),
    Variant(
        "w06",
        "the address is written after the ensure",
        address(address_first=False, records=1),
        "S5",
    ),
    Variant(
        "w07",
        "the lock is taken over at once",
        address(crashes=False, takeover=0),
        "S2",
    ),
    Variant(
        "w08",
        "the lock is taken over after as long as a call lives",
        address(crashes=False, takeover=1),
        "S2",
    ),
    Variant(
        "w09",
        "the takeover does not wait for drains that live longer",
        address(crashes=False, drains=True, drain_life=2),
        "S2",
    ),
    Variant("w10", "no marks at all", record(marks=False), "S3"),
    Variant(
        "w11",
        "a mark does not make a registered record wait",
        record(reads_mark=False),
        "S3",
    ),
    Variant(
        "w12",
        "a record without mark is taken for settled, its creator's or not",
        record(waits_unmarked=False),
        "S3",
    ),
    Variant(
        "w13",
        "an unanswered call is forgotten when a later one succeeds",
        record(doubts=False),
        "S3",
    ),
    Variant(
        "w14",
        "another incarnation's mark is left as it is",
        address(records=1, takes_over=False, registrars=2),
        "S3",
    ),
    Variant(
        "w15",
        "`*` is cleared by whoever succeeds",
        record(star_stays=False, registrars=2),
        "S3",
    ),
    Variant(
        "w16",
        "memory is lost, the incarnation's name is kept",
        address(records=1, remembers=False),
        "S3",
    ),
    Variant(
        "w17",
        "every own change of the spec counts as a claim",
        record(crashes=False, updates=True, claims_soundly=False, registrars=2),
        "S3",
    ),
    Variant(
        "w18",
        "a lost member is put back without writing that down first",
        record(resets=True, confesses=False),
        "S3",
    ),
    Variant(
        "w19",
        "a permission is kept beyond what its own turn wrote later",
        address(
            crashes=False,
            records=1,
            updates=True,
            resets=True,
            drops_old_permission=False,
        ),
        "S3",
    ),
    Variant(
        "w20",
        "under policy Always marks are not taken over",
        address(
            crashes=False,
            records=1,
            updates=True,
            always=True,
            registrars=2,
            takes_over_always=False,
        ),
        "S3",
    ),
    Variant(
        "w21",
        "the confirming deregister goes out when calls may just be out",
        record(wait=1, skew=0),
        "S3",
    ),
    Variant("w22", "the wait has no margin for clocks", record(wait=2), "S3"),
    Variant(
        "w23",
        "the record goes after any success",
        record(releases_on_final=False),
        "S3",
    ),
    Variant(
        "w24",
        "the finalizer goes by name, from any version",
        address(namesake=True, deregistrars=2, releases_by_cas=False),
        "S5",
    ),
    Variant(
        "w25",
        "the ensure is not repeated when older ones are over",
        record(updates=True, confirms=False, deregistrars=0),
        "G",
        alive=True,
    ),
    Variant(
        "w26",
        "older ones are waited for from when the record was first seen",
        record(
            crashes=False,
            updates=True,
            counts_from_change=False,
            registrars=2,
            deregistrars=0,
        ),
        "G",
        alive=True,
    ),
    Variant(
        "w27",
        "whether older ones are over is asked at the answer",
        record(updates=True, judges_at_sending=False, deregistrars=0),
        "G",
        alive=True,
    ),
    Variant(
        "w28",
        "a reset puts only those back that are Registered already",
        record(resets=True, resets_all=False, deregistrars=0),
        "G",
        alive=True,
    ),
    Variant(
        "w38",
        "before the first epoch nothing counts as lost",
        record(resets=True, is_first=True, doubts_first=False, deregistrars=0),
        "G",
        alive=True,
    ),
    Variant(
        "w29",
        "own creates are no claims (as if the watch came before the answer)",
        record(claims=False, crashes=False, silences=False, calm=True),
        "Q",
    ),
    Variant(
        "w32",
        "a write of Registered without an answer is forgotten",
        record(unheard=True, doubts_writes=False),
        "S3",
    ),
    Variant(
        "w33",
        "an address is free although a call for its end was not answered",
        address(crashes=False, frees=True, frees_answered=False),
        "S2",
    ),
    Variant(
        "w34",
        "who is not named as a record's deregistrar calls without telling",
        address(crashes=False, frees=True, deregistrars=2, signs=False),
        "S2",
    ),
    Variant(
        "w35",
        "a deregistrar's memory is lost, its name is kept",
        address(frees=True, forgets_whole=False),
        "S2",
    ),
    Variant(
        "w36",
        "an address is said to be free when the last call is sent",
        address(crashes=False, frees=True, frees_ended=False),
        "S2",
    ),
    Variant(
        "w37",
        "the end of a record by another's hand counts as one's own",
        address(crashes=False, frees=True, deregistrars=2, frees_own=False),
        "S2",
    ),
    Variant(
        "w40",
        "what was written of one holder frees the lock from the next",
        address(crashes=False, frees=True, records=3, frees_holder=False),
        "S2",
    ),
    Variant(
        "w41",
        "a call without an answer counts as over when its life may just end",
        address(crashes=False, frees=True, frees_in_time=True, over=0),
        "S2",
    ),
    Variant(
        "w42",
        "of several calls without an answer the first is waited for",
        address(crashes=False, frees=True, frees_in_time=True, times_last=False),
        "S2",
    ),
    Variant(
        "w43",
        "a drain without an answer is waited for as long as a deregister",
        address(
            crashes=False,
            frees=True,
            frees_in_time=True,
            drains=True,
            drain_life=2,
            takeover=3,
            times_drains=False,
        ),
        "S2",
    ),
    Variant(
        "w44",
        "calls of one that has ended count from the deletion, not from its end",
        address(
            frees=True,
            frees_in_time=True,
            forgets_whole=False,
            inherits=True,
            tells_since=True,
            times_heirs=False,
        ),
        "S2",
    ),
    Variant(
        "w47",
        "a call is noted for whoever begins in the caller's place once it had no answer",
        address(
            frees=True,
            frees_in_time=True,
            forgets_whole=False,
            inherits=True,
            recalls=True,
            notes_calls=False,
        ),
        "S2",
    ),
    Variant(
        "w45",
        "a lock waits for calls under the driver's bounds as they were, or are now",
        address(
            crashes=False,
            edits_ends=True,
            life=2,
            wait=4,
            takeover=3,
            says_longer=False,
        ),
        "S2",
    ),
    Variant(
        "w46",
        "a call under longer bounds goes by a read from before that was said",
        address(
            crashes=False,
            deregistrars=2,
            edits_ends=True,
            life=2,
            wait=4,
            takeover=3,
            looks_again=False,
        ),
        "S2",
    ),
    Variant(
        "w39",
        "a call that was answered by Running goes on after a later success",
        record(running=True, success_ends=False),
        "S3",
    ),
    Variant(
        "w50",
        "how long to wait is asked of the driver as it is now",
        record(edits=True, stamps=False, crashes=False, life=2, drain_life=2, wait=4),
        "S3",
    ),
    Variant(
        "w51",
        "a registrar's doubts end with the next ensure that succeeds",
        record(doubts_end=True, doubts_age=False),
        "S3",
    ),
    Variant(
        "w52",
        "a write without an answer counts like a call: doubts of it end",
        record(doubts_end=True, unheard=True, doubts_writes=False),
        "S3",
    ),
    Variant(
        "w60",
        "the pod is not read before the first ensure of a record",
        record(crashes=False, gates=True, looks=False),
        "S6",
    ),
    Variant(
        "w61",
        "the pod is read before its record is created",
        record(crashes=False, gates=True, looks_after=False),
        "S6",
    ),
    Variant(
        "w62",
        "a pod that waits is answered from an older view",
        record(crashes=False, gates=True, lists=False),
        "S6",
    ),
    Variant("w30", "pauses without bound", record(bounded_pause=False), "S"),
    Variant("w31", "late effects without bound", record(bounded_late=False), "S"),
)

LARGE = ("w34", "w37", "w40", "w46")
"""Those that are refuted after ten million steps: by `make model` alone."""
SLOW = (
    *("w02", "w04", "w07", "w08", "w09", "w17", "w19", "w20", "w26"),
    *("w33", "w35", "w36", "w41", "w42", "w43", "w44", "w45", "w47"),
)
"""Those that are refuted after some hundred thousand steps only."""
