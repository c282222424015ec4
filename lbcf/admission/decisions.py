"""Decides what is asked before an object is stored, and whether it may be.

Pure: the object as it is to be, as it was, and what it refers to go in; `reviewer` asks the
driver. What is already so is never refused again: only what a change brings in is judged. Of
an object that could not be understood as it was, nobody knows what is so: it is judged as new.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

import attrs

from lbcf.core.lifecycle.turn import driver_for_namespace
from lbcf.core.model.binds import Bind
from lbcf.core.model.names import LABEL_DRAINING
from lbcf.core.model.resources import BackendGroup, LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Explanation


class Intent(StrEnum):
    """What the user is about to do with what the driver is asked about."""

    CREATE = "Create"
    UPDATE = "Update"


class Cause(StrEnum):
    """Why something is refused, in the words of the API server's own reasons."""

    INVALID = "Invalid"
    FORBIDDEN = "Forbidden"
    UNAVAILABLE = "ServiceUnavailable"


class DriverFailurePolicy(StrEnum):
    """What becomes of an object that a driver gave no valid answer about."""

    FAIL = "Fail"
    IGNORE = "Ignore"


@attrs.frozen
class Admitted:
    """It may be stored.

    Attributes:
        warnings: sentences that kubectl shows to the user.
    """

    warnings: tuple[str, ...] = ()


@attrs.frozen
class Denied:
    """It may not be stored; the message says why, and what to do."""

    message: str
    cause: Cause = Cause.INVALID


Verdict = Admitted | Denied

_FINE = Admitted()


def intent_for_load_balancer(
    new: LoadBalancer, old: LoadBalancer | None
) -> Intent | None:
    """Return how to ask the driver about a load balancer; None: not at all.

    Its driver and its lbSpec cannot change, so an update is one of the attributes. What
    is being deleted is let go as it is.
    """
    if new.meta.deleting_since is not None:
        return None
    if old is None:
        return Intent.CREATE
    return None if new.attributes == old.attributes else Intent.UPDATE


def intents_for_group(
    new: BackendGroup, old: BackendGroup | None
) -> Mapping[str, Intent]:
    """Return how to ask the drivers of a group's load balancers, by name.

    A load balancer that comes to an existing group is asked as for a new one.
    """
    if new.meta.deleting_since is not None:
        return {}
    if old is None:
        return dict.fromkeys(new.load_balancers, Intent.CREATE)
    changed = new.parameters != old.parameters
    intents: dict[str, Intent] = {}
    for name in new.load_balancers:
        if name not in old.load_balancers:
            intents[name] = Intent.CREATE
        elif changed:
            intents[name] = Intent.UPDATE
    return intents


def intents_for_bind(
    new: Bind, old: Bind | None
) -> Mapping[str, tuple[Intent | None, Intent | None]]:
    """Return how to ask drivers about each of a Bind's entries, by name.

    First about the load balancer, then about the parameters of its backends. An entry
    with another driver or spec is another load balancer.
    """
    if new.is_deleting:
        return {}
    intents: dict[str, tuple[Intent | None, Intent | None]] = {}
    for entry in new.entries:
        before = None if old is None else old.entry(entry.name)
        if (
            old is None
            or before is None
            or (before.driver, before.spec) != (entry.driver, entry.spec)
        ):
            intents[entry.name] = (Intent.CREATE, Intent.CREATE)
            continue
        wider = before.attributes != entry.attributes
        heavier = new.group.parameters != old.group.parameters
        update = Intent.UPDATE
        intents[entry.name] = (update if wider else None, update if heavier else None)
    return intents


def judge_driver(
    key: ObjectKey, driver: LoadBalancerDriver | None, namespace: str, intent: Intent
) -> Verdict | None:
    """Judge a load balancer by the state of its driver; None: ask the driver.

    One that is to come is waited for, so that objects may be applied in any order.
    """
    if driver is None:
        return Admitted(
            (
                f"LoadBalancerDriver {key} does not exist yet: nothing happens until then",
            )
        )
    if intent is Intent.UPDATE:
        return None
    if driver.meta.deleting_since is not None:
        text = f"LoadBalancerDriver {key} is being deleted: use another one"
        return Denied(text, Cause.FORBIDDEN)
    if driver.meta.labels.get(LABEL_DRAINING) == "true":
        text = (
            f"LoadBalancerDriver {key} is draining (label {LABEL_DRAINING}) and takes "
            "nothing new: use another one, or take the label off"
        )
        return Denied(text, Cause.FORBIDDEN)
    served = driver_for_namespace(driver, namespace)
    if isinstance(served, Explanation):
        return Denied(served.message, Cause.FORBIDDEN)
    return None


def judge_load_balancer(
    key: ObjectKey, found: LoadBalancer | None, namespace: str, intent: Intent
) -> Verdict | None:
    """Judge a group by the state of a load balancer; None: ask its driver."""
    if found is None:
        return Admitted(
            (f"LoadBalancer {key} does not exist yet: the group waits for it",)
        )
    if intent is Intent.UPDATE:
        return None
    if found.meta.deleting_since is not None:
        text = f"LoadBalancer {key} is being deleted: use another one"
        return Denied(text, Cause.FORBIDDEN)
    if not found.is_open_to(namespace):
        text = (
            f"LoadBalancer {key} may not be used from namespace {namespace}: whoever "
            "operates it has to add the namespace to its spec.scope"
        )
        return Denied(text, Cause.FORBIDDEN)
    return None


def judge_answer(driver: ObjectKey, accepted: bool, message: str, part: str) -> Verdict:
    """Judge by a driver's valid answer; `part` is what it was asked about."""
    if accepted:
        return _FINE
    told = message or "(the driver gave no reason)"
    return Denied(f"{part}: driver {driver} refuses: {told}")


def judge_silence(trouble: str, policy: DriverFailurePolicy) -> Verdict:
    """Judge by the failure policy where no valid answer came; `trouble` says why."""
    if policy is DriverFailurePolicy.IGNORE:
        text = f"not validated by its driver ({trouble}); see its conditions later"
        return Admitted((text,))
    text = (
        f"cannot be validated by its driver: {trouble}. Try again when the driver "
        "answers; --driver-failure-policy=Ignore of `lbcf admission` would let it pass"
    )
    return Denied(text, Cause.UNAVAILABLE)


def not_for_dry_run(driver: ObjectKey) -> Verdict:
    """Judge a dry run where the driver takes no dry-run calls."""
    text = (
        f"driver {driver} takes no dry-run calls (acceptDryRunCall): it was not asked"
    )
    return Admitted((text,))


def sum_up(verdicts: Iterable[Verdict]) -> Verdict:
    """Make one verdict of several: all refusals at once, else all warnings."""
    found = tuple(dict.fromkeys(verdicts))
    refusals = [one for one in found if isinstance(one, Denied)]
    if refusals:
        return Denied("; ".join(r.message for r in refusals), refusals[0].cause)
    return Admitted(
        tuple(w for v in found if isinstance(v, Admitted) for w in v.warnings)
    )
