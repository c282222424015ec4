"""What is built, in worlds as large as can be searched to the end: all must hold.

With `memberKey: Record` no two records meet at the load balancer: one record is a whole
world. `b09` and `b10` show two all the same, of one name and side by side.
"""

from __future__ import annotations

from tests.lab.model.variants import Variant, address, record


BUILT = (
    Variant(
        "b01",
        "Record: 2 registrars, 2 deregistrars",
        record(registrars=2, deregistrars=2),
        alive=True,
    ),
    Variant(
        "b02",
        "Record, policy Always: 2 + 2",
        record(registrars=2, deregistrars=2, always=True),
        alive=True,
    ),
    Variant("b03", "Record, spec changes: 1 + 1", record(updates=True), alive=True),
    Variant(
        "b04",
        "Record, spec changes: 2 + 1",
        record(updates=True, registrars=2, wait=2, skew=0),
    ),
    Variant(
        "b05",
        "Record, spec changes from Always to IfNotSucc: 2 + 1",
        record(updates=True, always=True, registrars=2, wait=2, skew=0),
    ),
    Variant(
        "b06",
        "Record, load balancer resets: 1 + 1",
        record(resets=True),
        alive=True,
    ),
    Variant(
        "b43",
        "Record, a reset before the first epoch: 1 + 1",
        record(resets=True, is_first=True),
        alive=True,
    ),
    Variant(
        "b07",
        "Record, load balancer resets: 2 + 1",
        record(resets=True, registrars=2),
        alive=True,
    ),
    Variant(
        "b08",
        "Record, spec changes and resets: 1 + 1",
        record(resets=True, updates=True),
    ),
    Variant(
        "b09",
        "Record, two records of one name: 2 + 1",
        record(records=2, namesake=True, registrars=2),
    ),
    Variant(
        "b10",
        "Record, two records side by side, no ends: 1 + 1",
        record(records=2, crashes=False),
    ),
    Variant(
        "b11",
        "Record, calls live for 2 ticks: 2 + 1",
        record(registrars=2, life=2, drain_life=2, wait=4),
    ),
    Variant("b12", "Record, drains: 2 + 1", record(registrars=2, drains=True)),
    Variant(
        "b44",
        "Record, drains, backends that are gone: 1 + 1",
        record(drains=True, told_gone=True),
        alive=True,
    ),
    Variant("b20", "Address, 2 records: 1 + 1", address(), alive=True),
    Variant("b21", "Address, 2 records: 2 + 1", address(registrars=2)),
    Variant("b22", "Address, 2 records: 1 + 2", address(deregistrars=2)),
    Variant(
        "b23",
        "Address, 2 records of one name: 2 + 1",
        address(registrars=2, namesake=True),
    ),
    Variant("b24", "Address, policy Always: 1 + 1", address(always=True), alive=True),
    Variant("b25", "Address, drains: 1 + 1", address(drains=True)),
    Variant(
        "b26",
        "Address, drains that live longer: 1 + 1",
        address(drains=True, drain_life=2, takeover=3),
    ),
    Variant("b27", "Address, load balancer resets: 1 + 1", address(resets=True)),
    Variant(
        "b28",
        "Address, 1 record, spec changes: 2 + 1",
        address(records=1, registrars=2, updates=True, wait=2, skew=0),
    ),
    Variant(
        "b29",
        "Address, 1 record, Always to IfNotSucc: 2 + 1",
        address(records=1, registrars=2, updates=True, always=True, wait=2, skew=0),
    ),
    Variant("b30", "Address, 3 records: 1 + 1", address(records=3)),
    Variant(
        "b31",
        "Address, calls live for 2 ticks: 1 + 1",
        address(life=2, drain_life=2, wait=4, takeover=3),
    ),
    Variant(
        "b32",
        "Address, pauses without bound, notAfter honoured: 1 + 1",
        address(bounded_pause=False, not_after=True),
    ),
    Variant(
        "b34",
        "Record, writes are made late: 1 + 1",
        record(unheard=True),
    ),
    Variant(
        "b35",
        "Record, writes are made late, spec changes: 1 + 1",
        record(unheard=True, updates=True),
    ),
    Variant(
        "b36",
        "Record, writes are made late: 2 + 1",
        record(unheard=True, registrars=2),
    ),
    Variant(
        "b37",
        "Address, 1 record, writes are made late: 2 + 1",
        address(records=1, unheard=True, registrars=2),
    ),
    Variant(
        "b38",
        "Record, writes are made late, load balancer resets: 1 + 1",
        record(unheard=True, resets=True),
    ),
    Variant(
        "b40",
        "Address, free at once after an end with answers to all calls: 1 + 1",
        address(frees=True),
        alive=True,
    ),
    Variant(
        "b42",
        "the same, calls are answered by Running: 1 + 1",
        address(frees=True, running=True),
    ),
    Variant(
        "b45",
        "the same, a deregistrar that begins anew keeps the name of the one before: 1 + 1",
        address(frees=True, forgets_whole=False, inherits=True),
        alive=True,
    ),
    Variant(
        "b46",
        "Address, free when each call for the end had its answer, or is over: 1 + 1",
        address(frees=True, frees_in_time=True),
        alive=True,
    ),
    Variant(
        "b47",
        "the same, drains that live longer: 1 + 1",
        address(frees=True, frees_in_time=True, drains=True, drain_life=2, takeover=3),
    ),
    Variant(
        "b48",
        "the same, a deregistrar that begins anew keeps the name of the one before: 1 + 1",
        address(frees=True, frees_in_time=True, forgets_whole=False, inherits=True),
        alive=True,
    ),
    Variant(
        "b49",
        "the same, and tells since when a call may be out: 1 + 1",
        address(
            frees=True,
            frees_in_time=True,
            forgets_whole=False,
            inherits=True,
            tells_since=True,
        ),
        alive=True,
    ),
    Variant(
        "b53",
        "the same, drains that live longer: 1 + 1",
        address(
            frees=True,
            frees_in_time=True,
            forgets_whole=False,
            inherits=True,
            tells_since=True,
            drains=True,
            drain_life=2,
            takeover=3,
        ),
    ),
    Variant(
        "b56",
        "the same as b49, and knows what the one before knew of its calls: 1 + 1",
        address(
            frees=True,
            frees_in_time=True,
            forgets_whole=False,
            inherits=True,
            recalls=True,
            tells_since=True,
        ),
        alive=True,
    ),
    Variant(
        "b57",
        "the same, drains that live longer: 1 + 1",
        address(
            frees=True,
            frees_in_time=True,
            forgets_whole=False,
            inherits=True,
            recalls=True,
            tells_since=True,
            drains=True,
            drain_life=2,
            takeover=3,
        ),
    ),
    Variant(
        "b54",
        "Address, the driver's bounds are edited around an end: 1 + 1",
        address(edits_ends=True, life=2, wait=4, takeover=3),
    ),
    Variant(
        "b55",
        "the same, and tells since when a call may be out: 1 + 1",
        address(
            edits_ends=True,
            life=2,
            wait=4,
            takeover=3,
            frees=True,
            frees_in_time=True,
            forgets_whole=False,
            inherits=True,
            tells_since=True,
        ),
    ),
    Variant(
        "b41",
        "Record, calls are answered by Running: 2 + 1",
        record(running=True, registrars=2),
        alive=True,
    ),
    Variant(
        "b50",
        "Record, the driver's bounds are edited: 2 + 1",
        record(edits=True, registrars=2, life=2, drain_life=2, wait=4),
        alive=True,
    ),
    Variant(
        "b51",
        "Record, policy Always, the driver's bounds are edited: 2 + 1",
        record(edits=True, always=True, registrars=2, life=2, drain_life=2, wait=4),
    ),
    Variant(
        "b52",
        "Address, 1 record, the driver's bounds are edited: 1 + 2",
        address(records=1, edits=True, deregistrars=2, life=2, drain_life=2, wait=4),
    ),
    Variant(
        "b60",
        "Record, drains, the pod's preStop waits for its records: 1 + 1",
        record(gates=True, drains=True),
        alive=True,
    ),
    Variant(
        "b63",
        "Record, a registrar's doubts end: 2 + 1",
        record(registrars=2, doubts_end=True),
        alive=True,
    ),
    Variant(
        "b64",
        "Record, a registrar's doubts end, spec changes: 1 + 1",
        record(updates=True, doubts_end=True),
        alive=True,
    ),
    Variant(
        "b65",
        "Record, a registrar's doubts end, writes are made late: 1 + 1",
        record(unheard=True, doubts_end=True),
        alive=True,
    ),
    Variant(
        "b66",
        "Record, registrars sign off what ends: 2 + 1",
        record(registrars=2, doubts_end=True, signs_off=True),
        alive=True,
    ),
    Variant(
        "b67",
        "Record, registrars sign off what ends, spec changes: 1 + 1",
        record(updates=True, doubts_end=True, signs_off=True),
        alive=True,
    ),
    Variant(
        "b77",
        "Record, registrars sign off, calls are answered by Running: 1 + 1",
        record(running=True, doubts_end=True, signs_off=True),
        alive=True,
    ),
    Variant(
        "b68",
        "Record, marks of a registrar that has ended are inherited: 2 + 1",
        record(
            registrars=2,
            doubts_end=True,
            signs_off=True,
            inherits_marks=True,
        ),
        alive=True,
    ),
    Variant(
        "b69",
        "the same, with notes of its ensures: 2 + 1",
        record(
            registrars=2,
            doubts_end=True,
            signs_off=True,
            inherits_marks=True,
            notes_ensures=True,
        ),
        alive=True,
    ),
    Variant(
        "b58",
        "Record, marks and notes are inherited, writes are made late: 1 + 1",
        record(
            unheard=True,
            doubts_end=True,
            signs_off=True,
            inherits_marks=True,
            notes_ensures=True,
        ),
        alive=True,
    ),
    Variant(
        "b59",
        "Record, marks and notes are inherited, spec changes: 1 + 1",
        record(
            updates=True,
            doubts_end=True,
            signs_off=True,
            inherits_marks=True,
            notes_ensures=True,
        ),
        alive=True,
    ),
    Variant(
        "b75",
        "Record, marks and notes are inherited, a reset: 1 + 1",
        record(
            resets=True,
            doubts_end=True,
            signs_off=True,
            inherits_marks=True,
            notes_ensures=True,
        ),
        alive=True,
    ),
    Variant(
        "b76",
        "Address, marks and notes are inherited: 1 + 1",
        address(
            doubts_end=True, signs_off=True, inherits_marks=True, notes_ensures=True
        ),
    ),
    Variant(
        "b61",
        "Record, the same pod registered again by an older view: 2 + 1",
        record(gates=True, records=2, namesake=True, registrars=2),
        alive=True,
    ),
    Variant(
        "b62",
        "Address, 1 record, the pod's preStop waits for its records: 2 + 1",
        address(gates=True, records=1, registrars=2),
    ),
    Variant(
        "b78",
        "Address, free at once, either of two deregistrars is named: 1 + 2",
        address(crashes=False, frees=True, deregistrars=2),
        alive=True,
    ),
    Variant(
        "b79",
        "Address, names and notes of either of two deregistrars are inherited: 1 + 2",
        address(
            silences=False,
            ends_only=True,
            deregistrars=2,
            frees=True,
            frees_in_time=True,
            forgets_whole=False,
            inherits=True,
            recalls=True,
            tells_since=True,
        ),
        alive=True,
    ),
    Variant(
        "b80",
        "Record, another shard's load balancer resets twice: 1 + 1",
        record(resets=True, most_resets=2, elsewhere=True),
        alive=True,
    ),
    Variant(
        "b81",
        "Record, another shard's load balancer resets: 2 + 1",
        record(resets=True, elsewhere=True, registrars=2),
        alive=True,
    ),
    Variant(
        "b82",
        "the same, marks and notes are inherited: 1 + 1",
        record(
            resets=True,
            elsewhere=True,
            doubts_end=True,
            signs_off=True,
            inherits_marks=True,
            notes_ensures=True,
        ),
        alive=True,
    ),
    Variant(
        "b83",
        "Record, another shard and both registrars read epochs, no faults but a reset: 2 + 1",
        record(
            crashes=False,
            silences=False,
            resets=True,
            elsewhere=True,
            reads_both=True,
            registrars=2,
        ),
        alive=True,
    ),
    Variant(
        "b84",
        "Address, 1 record, another shard's load balancer resets: 2 + 1",
        address(crashes=False, records=1, resets=True, elsewhere=True, registrars=2),
        alive=True,
    ),
    Variant(
        "b33",
        "Record, a calm run never waits",
        record(crashes=False, silences=False, calm=True),
    ),
)

QUICK = ("b06", "b33", "b43", "b44", "b60")
"""Those of less than half a million steps."""
