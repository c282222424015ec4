"""What a load balancer's life may ask of the world, what it learns, and what it is told.

The steps of `lbcf.core.lifecycle.load_balancer`. What is learnt (`Outcome`) is put into a
status by `load_balancer_status` for LoadBalancer objects, by `bind_status` for entries of
Binds.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta

import attrs

from lbcf.core.lifecycle.steps import (
    CallFailure,
    Conflicted,
    Finish,
    LockTaken,
    Released,
    WriteUnconfirmed,
)
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import Ingress, ObjectKey
from lbcf.core.reasons import Explanation


@attrs.frozen
class Observation:
    """A load balancer, and what its life depends on, as they are known at one moment.

    Attributes:
        balancer: as its driver knows it; an entry of a Bind in the same form.
        driver: of it, whether or not it serves the namespace; or why there is none.
        attributes: that it is to have.
        applied: the attributes that its driver last took, as far as the status tells.
        is_synced: it has its attributes, as the status tells.
        may_exist: its driver has made it, or may have.
        is_held: our finalizer keeps it.
        rest: how long its driver is not to be asked by its status; None where the status
            has no place for that.
        users: records that need it.
        unreadable: a record that cannot be understood and may need it.
        abandoned: why a person ordered to let go of it without its driver; else empty.
        members: records registered on it, None where they are not counted in its status.
        is_entry: it is one of a Bind: its driver is looked for only when it is due to be
            called, a call that succeeded ends its turn, and addresses are not locked
            anew under a key that its driver changed.
    """

    balancer: LoadBalancer
    driver: LoadBalancerDriver | Explanation
    attributes: Mapping[str, str]
    applied: Mapping[str, str] | None
    is_synced: bool
    may_exist: bool
    is_held: bool = True
    rest: timedelta | None = None
    users: int = 0
    unreadable: ObjectKey | None = None
    abandoned: str = ""
    members: int | None = None
    is_entry: bool = False

    @property
    def is_deleting(self) -> bool:
        """Whether its end was asked for."""
        return self.balancer.meta.deleting_since is not None

    @property
    def may_be_needed(self) -> bool:
        """Whether a record needs it, or may need it."""
        return bool(self.users) or self.unreadable is not None

    def with_records(
        self, users: int, unreadable: Iterable[ObjectKey]
    ) -> "Observation":
        """Take in its records as the view, or a list, has them, beside what is known.

        Args:
            users: records that need it.
            unreadable: records that cannot be understood, whichever they need.
        """
        scope = self.balancer.is_open_to
        odd = next((key for key in unreadable if scope(key.namespace)), None)
        users = max(self.users, users)
        return attrs.evolve(self, users=users, unreadable=self.unreadable or odd)


# --- what is learnt --------------------------------------------------------------


@attrs.frozen
class Begun:
    """Its driver is about to be asked for it for the first time."""


@attrs.frozen
class Created:
    """Its driver has made it, or found it.

    Attributes:
        identity: what its driver knows it by; all records copy it.
        lock_key: the key under which addresses of its members are locked.
        ingress: where clients reach it; None: nothing is said of that.
    """

    identity: Mapping[str, str]
    lock_key: str
    ingress: tuple[Ingress, ...] | None = None


@attrs.frozen
class Ensured:
    """Its driver gave it its attributes; the rest as of `Created`."""

    attributes: Mapping[str, str]
    ingress: tuple[Ingress, ...] | None = None


@attrs.frozen
class CallFailed:
    """A call was no success.

    Attributes:
        operation: create, ensure or delete; an objection counts as an answer to what it
            keeps from being asked.
        why: as for records.
        pause: until its driver is asked again.
    """

    operation: Operation
    trouble: CallFailure
    why: Explanation
    pause: timedelta


@attrs.frozen
class InUse:
    """It is to go, and records still need it."""

    users: int


@attrs.frozen
class CreationUnclear:
    """It is to go, and a createLoadBalancer may still take effect."""


@attrs.frozen
class Blocked:
    """Nobody can be asked to create, ensure or delete it."""

    operation: Operation
    why: Explanation


@attrs.frozen
class Locked:
    """The addresses of its members are locked under this key, too."""

    lock_key: str


@attrs.frozen
class Counted:
    """So many records are registered on it."""

    backends: int


Told = Begun | Created | Ensured | CallFailed | InUse | CreationUnclear | Blocked
"""What a condition tells."""
Outcome = Told | Locked | Counted


# --- proofs ----------------------------------------------------------------------


@attrs.frozen
class Deleted:
    """The proof that its driver has deleted it, or what may have come of creating it."""


@attrs.frozen
class NeverCreated:
    """The proof that its driver was never asked to create it."""


@attrs.frozen
class AbandonOrder:
    """A person's order to let go of it without its driver."""

    why: str


Proof = Deleted | NeverCreated | AbandonOrder


# --- steps -----------------------------------------------------------------------


@attrs.frozen
class HoldLoadBalancer:
    """Put our finalizer on, if it is still the version that was read."""

    balancer: LoadBalancer


@attrs.frozen
class ReadLoadBalancer:
    """Read it from the API server itself (a quorum read)."""

    balancer: LoadBalancer


@attrs.frozen
class CallForLoadBalancer:
    """Call its driver.

    Attributes:
        before: the attributes that it has, None where it is to be created; of a
            validation alone.
    """

    operation: Operation
    balancer: LoadBalancer
    driver: LoadBalancerDriver
    before: Mapping[str, str] | None = None


@attrs.frozen
class WriteOutcome:
    """Put what was learnt into its status, unless that says so already."""

    balancer: LoadBalancer
    outcome: Outcome

    @property
    def info(self) -> Mapping[str, str] | None:
        """Return what its driver knows it by, once that is written."""
        if isinstance(self.outcome, Created):
            return self.outcome.identity
        return self.balancer.info


@attrs.frozen
class LockMembers:
    """Take the locks on the addresses of its records under one more key."""

    balancer: LoadBalancer
    lock_key: str


@attrs.frozen
class ListRecords:
    """List the records that need it, from the API server itself (a quorum read)."""

    balancer: LoadBalancer


@attrs.frozen
class ReleaseLoadBalancer:
    """Take our finalizer off, or the entry out of the status."""

    balancer: LoadBalancer
    proof: Proof


Step = (
    HoldLoadBalancer
    | ReadLoadBalancer
    | CallForLoadBalancer
    | WriteOutcome
    | LockMembers
    | ListRecords
    | ReleaseLoadBalancer
    | Finish
)


# --- replies ---------------------------------------------------------------------


@attrs.frozen
class LoadBalancerGone:
    """No such load balancer exists any more (or another one has its name)."""


@attrs.frozen
class DriverSucceeded:
    """Its driver has done it.

    Attributes:
        info: the identity, of createLoadBalancer.
        lock_key: as the driver names what it shares with others, empty where unsaid.
        ingress: where clients reach it; None where unsaid.
    """

    info: Mapping[str, str] = attrs.Factory(dict)
    lock_key: str = ""
    ingress: tuple[Ingress, ...] | None = None


Reply = (
    Observation
    | DriverSucceeded
    | CallFailure
    | LockTaken
    | LoadBalancerGone
    | Released
    | Conflicted
    | WriteUnconfirmed
)
