"""A protocol and the world it has to stand: what `variants` names and the search takes.

The defaults are what is built. Each field in the second half takes one rule away, or puts
one in another form; a variant that does so must be refuted. Times are ticks.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """One variant of the protocol, and its bounds.

    Attributes:
        keyed: members are named after their records (memberKey Record); else two records
            with one address mean one member, and a lock on the address is taken.
        records: how many there are at most; all have the same address.
        registrars: incarnations at work at the same time.
        deregistrars: the same, of the other process.
        always: ensurePolicy Always until a change of the spec makes it IfNotSucc.
        updates: whether the first record's spec is changed once.
        resets: whether the load balancer loses all members,
        most_resets: and how often it does at most.
        elsewhere: whether it is another shard's, C1, which reads its epochs, and writes
            losses into the records (docs/shards.md); else each registrar reads them.
        reads_both: whether registrars read them, too, as while the shards change.
        namesake: the second record has the first one's name, and comes after its end.
        drains: whether members are drained before they are deregistered.
        told_gone: whether the controller writes into ending records that their backend is
            gone, at any time and as often as it likes.
        life: longest time from a permission to the last effect of a call (W + L).
        drain_life: the same of drains, where they may take longer.
        wait: from the deletion to the confirming deregister, where one is due.
        takeover: from the end of a lock's holder to its next one.
        edits: whether the driver's bounds are edited: each look at the driver may show the
            longer ones (`life`, `wait`) or the shorter ones, in any order, as caches of
            different age do.
        short_life: as `life`, under the shorter ones.
        short_wait: as `wait`, under the shorter ones.
        edits_ends: whether each look of a deregistrar at the driver may show the longer
            or the shorter ones; a lock is taken under the shorter ones.
        short_takeover: as `takeover`, under the shorter ones.
        skew: by how much a deregistrar may believe to have waited longer than it has.
        crashes: whether incarnations end at any time,
        ends_only: those of deregistrars alone.
        silences: whether calls stay without a definite answer.
        unheard: whether writes of Registered to the first record do, and are made later,
            at any time, unless somebody else has written it.
        bounded_late: a call is over `life` after its permission.
        bounded_pause: so is the time from a permission to the call.
        not_after: the driver refuses a call that arrives after its time.
        lock: how an address is made one record's own: lease, list or none.
        address_first: the address is written before the first ensure.
        lock_first: the lock is taken before the address is written.
        fresh_ensure: ensures go out on a quorum read or an own write.
        fresh_deregister: so do drains and deregisters; else also on any older view that
            shows the deletion, up to long after the record's end.
        marks: `ensuring` is written.
        takes_over: another incarnation's mark is first made `*`.
        takes_over_always: also under policy Always.
        star_stays: `*` is cleared by nobody.
        doubts: a call without a definite answer is remembered by its incarnation.
        doubts_writes: so is a write that would leave no mark.
        claims: an incarnation's own create is its claim.
        claims_soundly: an own update is a claim only where no call can be out.
        waits_unmarked: a record without mark that never was registered is not settled.
        reads_mark: a registered record with a mark is not settled.
        confesses: a registered record is written down as lost before it is put back.
        confirms: under `*`, the ensure is sent again when all older ones are over.
        counts_from_change: that time is counted from the change of the spec.
        judges_at_sending: whether it has passed is asked when the ensure is sent.
        releases_on_final: the finalizer goes after a success that counts only.
        releases_by_cas: the finalizer goes from the version that was read.
        drops_old_permission: the permission of an own update that came in the middle of a
            turn is not kept for later.
        resets_all: a reset puts records back that are being registered, too.
        is_first: no epoch was known before the reset, so that nobody can tell that there
            was one: only records are put back whose member is not listed.
        doubts_first: they are put back, also when no epoch was known.
        remembers: an incarnation loses its memory only together with its name.
        frees: a deregistrar writes that all calls for a record's end were answered, and
            the next record takes the lock over at once; else it never knows that.
        signs: who ends a record that names another deregistrar first makes that `*`.
        frees_answered: only if its own calls all had definite answers.
        frees_own: only what it has let go itself.
        names_apart: no two that are at work have one name, of whichever shards they are.
        frees_ended: only when it has let the record go; else when it sends the call.
        frees_holder: only the lock of that very record.
        frees_in_time: it does so, too, when those of its own calls that had no answer are
            over, each by its own time.
        over: by how much such a call's time is longer than its life.
        times_drains: that of a drain by how long drains live.
        times_last: it goes by the call that is over last, else by the first of them.
        tells_since: where one is not over yet, the deregistrar writes since when it is out,
            and the next record counts from there; who has begun in the place of one that
            has ended counts that one's calls from its own beginning.
        times_heirs: from its own beginning, and not from the record's deletion.
        forgets_whole: a deregistrar loses its memory only together with its name.
        inherits: who begins in the place of one that has ended takes it that no call was
            answered for what it finds being deleted.
        recalls: it knows what that one knew: of which calls there was no answer, and of
            which ends none is out.
        notes_calls: that one took it before each call that it would have no answer; else
            what it had out when it ended is not known.
        doubts_end: a registrar's doubts end with an ensure that is sent when its earlier
            ones are over; until then it leaves its own name as the mark.
        doubts_age: it waits until they are over.
        signs_off: it writes into a record that ends that none of its ensures is out,
        signs_off_surely: once those without an answer are over,
        signs_off_done: and none goes on that was answered by Running,
        signs_off_own: and where nobody else may have called.
        drops_kept: from then on it makes no use of a permission from before.
        inherits_marks: who begins in the place of a registrar that has ended takes that
            one's marks for its own,
        heirs_ended: which no registrar does that may still be at work,
        heirs_doubt: and expects its calls,
        notes_ensures: but for those that it has left a note of being answered; each
        notes_before: is noted as one without an answer before it is made.
        signs_anew: it signs by another name than that one.
        losses_first: C1 writes all losses into their records, and sees them registered
            again, before it writes the new epoch.
        losses_by_cas: it writes each from the version that it read; else what it has read
            comes back with it, the mark too.
        losses_anew: a further loss is another version of a record that says so already.
        losses_apart: that an earlier one is written says nothing of a further one.
        running: calls are answered by Running, and go on.
        success_ends: a success ends what the same record's calls had left running.
        stamps: a record says how long its ensures may live, before the first one is sent
            that may live for as long; its deregistrar goes by that.
        says_longer: who calls for an end under longer bounds than its lock has says so first
            to whoever takes that lock over.
        looks_again: the call goes by a read that came after that.
        gates: all records are of one pod, whose preStop waits until no record names it.
        looks: before the first ensure of a record the pod is read, and must not be deleted.
        looks_after: it is read when the record exists; else at any time before.
        lists: the waiting pod is answered from a quorum LIST; else from any older view.
        comes_again: a registrar's turn that was refused, or had no answer, comes again by
            itself; else when its record changes.
        end_comes_again: so does a deregistrar's.
        drains_end: a drain is over at its deadline.
        deletion_ages: the time since a deletion is not counted anew at each look.
        lock_ages: nor is the time since the end of a lock's holder.
        lock_ends: a lock is taken over when its holder has been gone for long enough; else
            only when a deregistrar writes that it may be.
        marks_once: an ending record is marked a limited number of times.
        removes: the controller deletes the records of a pod that is being deleted.
        leads: of several incarnations of a process one is left in the end (a Lease).
        takes_turns: who has several records to look after comes to each of them.
        calm: a run without faults in which no mark of nobody-knows-whom may appear.
    """

    keyed: bool = True
    records: int = 1
    registrars: int = 2
    deregistrars: int = 2
    always: bool = False
    updates: bool = False
    resets: bool = False
    most_resets: int = 1
    elsewhere: bool = False
    reads_both: bool = False
    namesake: bool = False
    drains: bool = False
    told_gone: bool = False
    life: int = 1
    drain_life: int = 1
    wait: int = 3
    takeover: int = 2
    edits: bool = False
    short_life: int = 1
    short_wait: int = 3
    edits_ends: bool = False
    short_takeover: int = 2
    skew: int = 1
    crashes: bool = True
    ends_only: bool = False
    silences: bool = True
    unheard: bool = False
    bounded_late: bool = True
    bounded_pause: bool = True
    not_after: bool = False
    lock: str = "lease"
    address_first: bool = True
    lock_first: bool = True
    fresh_ensure: bool = True
    fresh_deregister: bool = True
    marks: bool = True
    takes_over: bool = True
    takes_over_always: bool = True
    star_stays: bool = True
    doubts: bool = True
    doubts_writes: bool = True
    claims: bool = True
    claims_soundly: bool = True
    waits_unmarked: bool = True
    reads_mark: bool = True
    confesses: bool = True
    confirms: bool = True
    counts_from_change: bool = True
    judges_at_sending: bool = True
    releases_on_final: bool = True
    releases_by_cas: bool = True
    drops_old_permission: bool = True
    resets_all: bool = True
    is_first: bool = False
    doubts_first: bool = True
    remembers: bool = True
    frees: bool = False
    signs: bool = True
    frees_answered: bool = True
    frees_own: bool = True
    names_apart: bool = True
    frees_ended: bool = True
    frees_holder: bool = True
    frees_in_time: bool = False
    over: int = 1
    times_drains: bool = True
    times_last: bool = True
    tells_since: bool = False
    times_heirs: bool = True
    forgets_whole: bool = True
    inherits: bool = False
    recalls: bool = False
    notes_calls: bool = True
    doubts_end: bool = False
    doubts_age: bool = True
    signs_off: bool = False
    signs_off_surely: bool = True
    signs_off_done: bool = True
    signs_off_own: bool = True
    drops_kept: bool = True
    inherits_marks: bool = False
    heirs_ended: bool = True
    heirs_doubt: bool = True
    notes_ensures: bool = False
    notes_before: bool = True
    signs_anew: bool = True
    losses_first: bool = True
    losses_by_cas: bool = True
    losses_anew: bool = True
    losses_apart: bool = True
    running: bool = False
    success_ends: bool = True
    stamps: bool = True
    says_longer: bool = True
    looks_again: bool = True
    gates: bool = False
    looks: bool = True
    looks_after: bool = True
    lists: bool = True
    comes_again: bool = True
    end_comes_again: bool = True
    drains_end: bool = True
    deletion_ages: bool = True
    lock_ages: bool = True
    lock_ends: bool = True
    marks_once: bool = True
    removes: bool = True
    leads: bool = True
    takes_turns: bool = True
    calm: bool = False
