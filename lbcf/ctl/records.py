"""One record: how far it is, what was last heard of it, and who is waited for.

Before it: `reading`. After it: `why`, `drains` and `status` say it in their own shapes.
"""

from datetime import datetime

from lbcf.core.backoff import CAP
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.node_backends import NodeBackend, ServiceBackend
from lbcf.core.model.resources import Backend, BackendRecord, PodBackend, StaticBackend
from lbcf.core.reasons import Reason
from lbcf.ctl.reading import Reading
from lbcf.ctl.spans import span, when


_ENDING = (conditions.DEREGISTERED, conditions.DRAINED)


def last_word(record: BackendRecord) -> Condition | None:
    """Find the condition that tells where a record is now, None where none does yet."""
    kinds = _ENDING if record.is_deleting else (conditions.REGISTERED,)
    found = (conditions.find(record.status.conditions, kind) for kind in kinds)
    return next((condition for condition in found if condition is not None), None)


def stage_of(record: BackendRecord) -> str:
    """Say in one word how far a record is: a reason of its conditions, if there is one."""
    word = last_word(record)
    if record.is_deleting:
        return "Deleting" if word is None else word.reason
    if word is None or not (record.is_registered or word.status is False):
        return "New" if word is None else "Changed"
    return word.reason


def waits_for(record: BackendRecord, reading: Reading, now: datetime) -> str:
    """Say who is waited for, empty where nobody is."""
    if record.is_deleting and not record.is_held:
        left = ", ".join(record.meta.finalizers)
        return (
            f"whoever holds the finalizer {left}" if left else "the garbage collector"
        )
    if record.is_registered and not record.is_deleting:
        return ""
    who = "the deregistrar" if record.is_deleting else "the controller"
    if record.meta.abandoned and record.is_deleting:
        return f"{who}, which lets go of it: it was abandoned"
    lacking = reading.lacking_driver(record.driver_key)
    if lacking is not None and not (record.is_deleting and not record.address):
        return lacking.message
    word = last_word(record)
    if word is None or word.status is not False:
        return who
    return _named(record, word, now)


def _named(record: BackendRecord, word: Condition, now: datetime) -> str:
    """Say who is waited for where a condition says why it is not done."""
    if word.reason == Reason.DRAINING:
        return _connections(record, now)
    if word.reason == Reason.WAITING_TO_CONFIRM:
        return "the end of registrations that were sent earlier"
    if word.reason == Reason.ADDRESS_IN_USE:
        return "the record that has its address"
    return f"driver {record.driver_key}"


def _connections(record: BackendRecord, now: datetime) -> str:
    """Say what a drain waits for; past its deadline, for nothing that drains."""
    drain = record.status.drain
    if drain is not None and drain.deadline < now:
        return f"driver {record.driver_key}, to deregister it"
    return "connections to end"


def next_attempt(record: BackendRecord, now: datetime) -> str:
    """Say when, or how often, a driver is asked again; empty where none has to be.

    It was written with the condition, and is not written again while that stays true.
    """
    moment = record.status.next_attempt
    if moment is None or (record.is_registered and not record.is_deleting):
        return ""
    if moment >= now:
        return when(moment, now)
    return f"with pauses of up to {span(CAP)}"


def backend_of(backend: Backend) -> str:
    """Call a backend as people do."""
    match backend:
        case PodBackend(name, _, port):
            return f"{name}:{port.number}"
        case StaticBackend(literal):
            return literal
        case ServiceBackend(name, port, _, node):
            return f"{node} for {name}:{port.number}"
        case NodeBackend(name, port):
            return f"{name}:{port.number}"
