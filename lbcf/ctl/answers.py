"""Each sub-command: what it reads, and which report it makes of that.

Before it: `command` is connected. After it: `output` writes the report.
"""

import argparse
import asyncio

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs

from lbcf.controller.selector_index import does_select
from lbcf.core.model.cluster import Pod
from lbcf.core.model.names import SYSTEM_NAMESPACE
from lbcf.core.model.resources import BackendGroup
from lbcf.core.model.values import ObjectKey
from lbcf.ctl.abandon import Order, abandon, ask, assent
from lbcf.ctl.backends import why_node, why_pod
from lbcf.ctl.balancers import why_balancer, why_record
from lbcf.ctl.drains import drains_now
from lbcf.ctl.drivers import why_driver
from lbcf.ctl.errors import CtlError
from lbcf.ctl.flags import Kind, Target
from lbcf.ctl.gaps import refused
from lbcf.ctl.groups import why_group
from lbcf.ctl.leaders import leaders_of
from lbcf.ctl.lookups import not_found
from lbcf.ctl.output import Prints
from lbcf.ctl.overview import overview
from lbcf.ctl.plans import plan_report
from lbcf.ctl.reading import Reading
from lbcf.ctl.verdicts import Why
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Forbidden, NotFound
from lbcf.kube.kinds import (
    BINDS,
    DRIVERS,
    GROUPS,
    LOAD_BALANCERS,
    NODES,
    PODS,
    RECORDS,
    Resource,
)
from lbcf.runtime.clock import Clock


FINE = 0
WRONG = 1
"""Exit status of `status` that found something wrong."""


@attrs.frozen
class Question:
    """What was asked.

    Attributes:
        namespace: the one that is meant where the whole cluster is not.
        everywhere: all namespaces are meant.
    """

    client: KubeClient
    clock: Clock
    namespace: str
    everywhere: bool
    flags: argparse.Namespace

    def reading(self) -> Reading:
        """Begin to read what the question is about."""
        return Reading(self.client, None if self.everywhere else self.namespace)

    @property
    def target(self) -> Target:
        """Return the object that is asked about."""
        target: Target = self.flags.target
        return target

    @property
    def key(self) -> ObjectKey:
        """Say where that object is.

        Raises:
            CtlError: it is in a namespace, and all of them were named.
        """
        if self.everywhere and self.target.kind is not Kind.NODE:
            raise CtlError("-A goes with status, drains and why node/NAME alone")
        return self.target.key(self.namespace)


async def answer(question: Question, write: Prints) -> int:
    """Answer; returns the exit status.

    Raises:
        CtlError: there is no answer.
        KubeError: the API server cannot be asked.
    """
    return await _COMMANDS[question.flags.command](question, write)


async def _status(question: Question, write: Prints) -> int:
    """Look at everything."""
    reading = question.reading()
    _, leases = await asyncio.gather(reading.ours(), reading.leases())
    gaps = [reading.gap(kind, question.namespace) for kind in _OURS]
    if all(gaps):
        raise CtlError(str(gaps[0]))
    now = question.clock.now()
    report = overview(reading, tuple(leaders_of(leases, now)), now)
    write(report)
    return WRONG if report.problems else FINE


async def _drains(question: Question, write: Prints) -> int:
    """Show what is on its way out, once or until somebody has seen enough."""
    reading = question.reading()
    await reading.ours()
    gap = reading.gap(RECORDS, question.namespace)
    if gap is not None:
        raise CtlError(str(gap))
    if question.flags.watch:
        # What follows a collection is not worth its import to those who ask once.
        from lbcf.ctl.watching import watch_drains  # noqa: PLC0415

        await watch_drains(reading, question.clock, question.flags.output)
    write(drains_now(reading, question.clock.now()))
    return FINE


async def _plan(question: Question, write: Prints) -> int:
    """Plan a group."""
    reading, group = await _with_group(question)
    write(plan_report(reading, group))
    return FINE


async def _why(question: Question, write: Prints) -> int:
    """Explain one object."""
    write(await _REPORTS[question.target.kind](question))
    return FINE


async def _with_group(question: Question) -> tuple[Reading, BackendGroup]:
    """Read a group, or a Bind, and all that it depends on."""
    reading, key = question.reading(), question.key
    await reading.ours()
    group = reading.view.groups.get(key)
    if group is None:
        raise not_found(reading, question.target.kind, key)
    await reading.around([group])
    return reading, group


async def _why_group(question: Question) -> Why:
    """Explain a group, or a Bind."""
    reading, group = await _with_group(question)
    return why_group(reading, group, question.clock.now())


async def _why_pod(question: Question) -> Why:
    """Explain a pod; one that has ended, which the controller does not see, as well."""
    reading, key = question.reading(), question.key
    pod, _ = await asyncio.gather(_pod(question, key), reading.ours())
    groups = reading.view.groups.by_index("namespace", key.namespace)
    await reading.around(
        group
        for group in groups
        if (pod is not None and does_select(group, pod))
        or reading.view.records.by_index("pod", (group.meta.key, key.name))
    )
    return why_pod(reading, key, pod, question.clock.now())


async def _pod(question: Question, key: ObjectKey) -> Pod | None:
    """Read a pod, None where there is none."""
    try:
        return await question.client.get(PODS, key)
    except NotFound:
        return None
    except Forbidden as error:
        raise CtlError(refused(error, "get", PODS, key.namespace)) from error


async def _why_node(question: Question) -> Why:
    """Explain a node."""
    reading = question.reading()
    await asyncio.gather(reading.ours(), reading.nodes())
    gap = reading.gap(NODES, "")
    if gap is not None:
        raise CtlError(str(gap))
    await reading.around(reading.view.groups_on_nodes())
    return why_node(reading, question.key.name, question.clock.now())


async def _why_record(question: Question) -> Why:
    """Explain a record."""
    reading, key = question.reading(), question.key
    await reading.ours()
    found = reading.view.records.get(key)
    owner = None if found is None else found.group
    group = None if owner is None else reading.view.groups.get(owner)
    await reading.around([] if group is None else [group])
    return why_record(reading, key, question.clock.now())


async def _why_balancer(question: Question) -> Why:
    """Explain a load balancer; one of kube-system may be used from everywhere."""
    reading = await _around_shared(question, GROUPS, BINDS, RECORDS)
    return why_balancer(reading, question.key, question.clock.now())


async def _why_driver(question: Question) -> Why:
    """Explain a driver; one of kube-system may be used from everywhere."""
    reading = await _around_shared(question, LOAD_BALANCERS, GROUPS, BINDS, RECORDS)
    return why_driver(reading, question.key, question.clock.now())


async def _around_shared(question: Question, *users: Resource[Any]) -> Reading:
    """Read what may use an object: of all namespaces where it is a shared one.

    Who may not read all of them gets what uses it in the one that was asked about, and
    is told that this is not all.
    """
    reading, everywhere = question.reading(), Reading(question.client, None)
    if question.key.namespace == SYSTEM_NAMESPACE:
        await everywhere.ours()
        if not everywhere.gaps:
            return everywhere
    await reading.ours()
    for gap in filter(None, (everywhere.gap(kind, "*") for kind in users)):
        reading.note(gap)
    return reading


async def _abandon(question: Question, write: Prints) -> int:
    """Let go of an object."""
    flags = question.flags
    confirm = assent if flags.yes else ask
    order = Order(question.target, question.key, flags.reason)
    write(await abandon(question.client, order, confirm))
    return FINE


_OURS = (GROUPS, LOAD_BALANCERS, DRIVERS, RECORDS)

_REPORTS: Mapping[Kind, Callable[[Question], Awaitable[Why]]] = {
    Kind.POD: _why_pod,
    Kind.NODE: _why_node,
    Kind.RECORD: _why_record,
    Kind.GROUP: _why_group,
    Kind.BIND: _why_group,
    Kind.LOAD_BALANCER: _why_balancer,
    Kind.DRIVER: _why_driver,
}

_COMMANDS: Mapping[str, Callable[[Question, Prints], Awaitable[int]]] = {
    "status": _status,
    "why": _why,
    "drains": _drains,
    "plan": _plan,
    "abandon": _abandon,
}
