"""`abandon`: orders that a deleted object may go although its driver was not asked.

Before it: a person with a reason. After it: the annotation is on the object, and the
deregistrar, or the controller, takes its finalizer off. The only write of this package.
"""

import sys

from collections.abc import Callable
from typing import TypeVar

import attrs

from lbcf.core.model.names import (
    ANNOTATION_ABANDON,
    FINALIZER_LOAD_BALANCER,
    FINALIZER_RECORD,
    bind_of,
)
from lbcf.core.model.resources import BackendRecord, LoadBalancer, Meta
from lbcf.core.model.values import ObjectKey
from lbcf.ctl.errors import CtlError
from lbcf.ctl.flags import Kind, Target
from lbcf.ctl.gaps import is_unknown_kind, refused, unknown_kind
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Conflict, Forbidden, NotFound, Unavailable
from lbcf.kube.kinds import LOAD_BALANCERS, RECORDS, Resource


T = TypeVar("T", BackendRecord, LoadBalancer)

_OURS = frozenset({FINALIZER_RECORD, FINALIZER_LOAD_BALANCER})
"""Finalizers that the annotation takes off."""


@attrs.frozen
class Abandonment:
    """What was let go of.

    Attributes:
        told: what follows from it.
    """

    namespace: str
    subject: str
    reason: str
    told: str


@attrs.frozen
class Order:
    """What is to be let go of.

    Attributes:
        key: where the target is.
        reason: what the annotation says.
    """

    target: Target
    key: ObjectKey
    reason: str


async def abandon(
    client: KubeClient, order: Order, confirm: Callable[[str], None]
) -> Abandonment:
    """Put the annotation on a deleted record or load balancer.

    Args:
        client: the API server.
        order: what is to be let go of.
        confirm: shown what follows; raises to stop.

    Raises:
        CtlError: there is none, it is not being deleted, it is held by others alone, it
            has changed meanwhile, or we may not.
        KubeError: the API server cannot be asked.
    """
    if bind_of(order.key) is not None:
        raise CtlError(
            f"{order.target.kind}/{order.target.name} goes with its Bind, or when that "
            "names it no longer: the annotation of a deleted Bind is heeded"
        )
    if order.target.kind is Kind.RECORD:
        return await _mark(client, RECORDS, order, confirm)
    return await _mark(client, LOAD_BALANCERS, order, confirm)


async def _mark(
    client: KubeClient,
    resource: Resource[T],
    order: Order,
    confirm: Callable[[str], None],
) -> Abandonment:
    """Put the annotation on an object of one kind."""
    key, called, verb = order.key, f"{order.target.kind}/{order.target.name}", "get"
    try:
        found = await client.get(resource, key)
        _check(called, found.meta, order.reason)
        told = _consequence(found)
        confirm(f"{called} in namespace {key.namespace}: {told}")
        verb = "patch"
        annotations = {ANNOTATION_ABANDON: order.reason}
        # The uid alone: a namesake is meant by nobody, and conditions change all the time.
        metadata = {"uid": found.meta.uid, "annotations": annotations}
        await client.patch(resource, key, {"metadata": metadata})
    except NotFound as error:
        raise CtlError(f"there is no {called} in namespace {key.namespace}") from error
    except Forbidden as error:
        raise CtlError(refused(error, verb, resource, key.namespace)) from error
    except Unavailable as error:
        if is_unknown_kind(error):
            raise CtlError(unknown_kind(resource)) from error
        raise
    except Conflict as error:
        raise CtlError(f"{called} has become another object: look again") from error
    return Abandonment(key.namespace, called, order.reason, told)


def _check(called: str, meta: Meta, reason: str) -> None:
    """Refuse what would take effect at some later time or never, or says no reason.

    Raises:
        CtlError: it is so.
    """
    if not reason.strip():
        raise CtlError("--reason is empty: say why, others will read it")
    if meta.deleting_since is None:
        raise CtlError(
            f"{called} is not being deleted: delete it first, and abandon it only if its "
            "driver will never answer"
        )
    if not _OURS & frozenset(meta.finalizers):
        others = ", ".join(meta.finalizers) or "the garbage collector's"
        raise CtlError(f"{called} is not held by us any more; its finalizers: {others}")


def _consequence(found: BackendRecord | LoadBalancer) -> str:
    """Say what follows."""
    if isinstance(found, LoadBalancer):
        return (
            f"goes without deleteLoadBalancer of driver {found.driver_key}, once no "
            "record needs it; what the driver made of it may stay behind"
        )
    if not found.address:
        return "goes at once; it was never registered"
    return (
        f"goes without drain and deregistration; {found.address} may stay a member of "
        f"load balancer {found.spec.load_balancer} and get traffic"
    )


def ask(question: str) -> None:
    """Ask at the terminal.

    Raises:
        CtlError: the answer is no, or nobody is there to give one.
    """
    if not sys.stdin.isatty():
        raise CtlError("nobody is here to confirm it: pass --yes")
    sys.stderr.write(f"{question}\nAbandon it? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CtlError("nothing was changed")


def assent(_question: str) -> None:
    """Ask nobody: --yes was given."""
