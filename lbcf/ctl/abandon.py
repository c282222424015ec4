"""`abandon`: puts the annotation on a deleted object that gives up its deregistration.

The deregistrar, or the controller, then takes the finalizer off without a call of the
driver.
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
from lbcf.ctl.errors import CtlError, worded
from lbcf.ctl.flags import Kind, ObjectReference
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import LOAD_BALANCERS, RECORDS, Resource


T = TypeVar("T", BackendRecord, LoadBalancer)

_OURS = frozenset({FINALIZER_RECORD, FINALIZER_LOAD_BALANCER})
"""Finalizers that the annotation takes off."""

Confirm = Callable[[str], None]
"""Shown what follows; raises to stop."""


@attrs.frozen
class Abandonment:
    """What was abandoned.

    Attributes:
        told: what follows from it, in words.
    """

    namespace: str
    subject: str
    reason: str
    told: str


@attrs.frozen
class Order:
    """What is to be abandoned.

    Attributes:
        key: where the target is.
        reason: what the annotation says.
    """

    target: ObjectReference
    key: ObjectKey
    reason: str


async def abandon(
    client: KubeClient, order: Order, confirm: Confirm | None
) -> Abandonment:
    """Put the annotation on a deleted record or load balancer.

    Args:
        client: the API server.
        order: what is to be abandoned.
        confirm: asked before the write; None: nobody has to be.

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
    client: KubeClient, resource: Resource[T], order: Order, confirm: Confirm | None
) -> Abandonment:
    key = order.key
    called = f"{order.target.kind}/{order.target.name}"
    with worded(called, resource, key.namespace, "get"):
        found = await client.get(resource, key)
    _check(called, found.meta, order.reason)
    told = _consequences(found)
    if confirm is not None:
        confirm(f"{called} in namespace {key.namespace}: {told}")
    # The uid alone guards against a namesake: with a resourceVersion each change of a
    # condition would be a conflict.
    annotations = {ANNOTATION_ABANDON: order.reason}
    metadata = {"uid": found.meta.uid, "annotations": annotations}
    with worded(called, resource, key.namespace, "patch"):
        await client.patch(resource, key, {"metadata": metadata})
    return Abandonment(key.namespace, called, order.reason, told)


def _check(called: str, meta: Meta, reason: str) -> None:
    """Refuse what would take effect later or never, or has no reason.

    Raises:
        CtlError: why it is refused.
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


def _consequences(found: BackendRecord | LoadBalancer) -> str:
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


def confirm_at_terminal(question: str, ask: str = "Abandon it?") -> None:
    """Ask at the terminal.

    Args:
        question: what follows.
        ask: what is to be answered by yes or no.

    Raises:
        CtlError: the answer is no, or nobody is there to give one.
    """
    if not sys.stdin.isatty():
        raise CtlError("nobody is here to confirm it: pass --yes")
    sys.stderr.write(f"{question}\n{ask} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CtlError("nothing was changed")
