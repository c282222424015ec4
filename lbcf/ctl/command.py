"""`kubectl lbcf`: runs a sub-command, and turns its end into an exit status."""

import argparse
import asyncio
import os
import sys

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import attrs

from lbcf.controller.selector_index import does_select
from lbcf.core.errors import LbcfError
from lbcf.core.model.names import SYSTEM_NAMESPACE
from lbcf.core.model.resources import BackendGroup
from lbcf.core.model.values import ObjectKey
from lbcf.ctl.abandon import Order, abandon, confirm_at_terminal
from lbcf.ctl.backends import why_node, why_pod
from lbcf.ctl.check import check, is_whole
from lbcf.ctl.drains import drains_report, follow_drains
from lbcf.ctl.drivers import why_driver
from lbcf.ctl.errors import CtlError, ObjectNotFound, refusal
from lbcf.ctl.flags import Kind, ObjectReference, parser_for
from lbcf.ctl.groups import why_group
from lbcf.ctl.hand_drain import (
    HandDrain,
    HandDrainReport,
    annotate,
    concerned,
    follow,
    hand_drain_report,
)
from lbcf.ctl.leaders import read_leaders
from lbcf.ctl.load_balancers import why_load_balancer
from lbcf.ctl.orphans import OrphanOrder
from lbcf.ctl.output import (
    ReportWriter,
    is_interactive,
    print_json,
    report_writer,
    screen,
)
from lbcf.ctl.plan import plan_report
from lbcf.ctl.project import write_project
from lbcf.ctl.reading import Reading, not_found
from lbcf.ctl.records import why_record
from lbcf.ctl.report import WhyReport
from lbcf.ctl.services import why_service
from lbcf.ctl.status import StatusReport, status_report
from lbcf.ctl.uninstall.kubectl import LOGIN
from lbcf.ctl.uninstall.run import NAMESPACE
from lbcf.ctl.uninstall.run import run as run_uninstall
from lbcf.ctl.watching import follow_status
from lbcf.ctl.workloads import WORKLOADS, why_workload
from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import acting_as, connect
from lbcf.kube.errors import Forbidden, NotFound, Unauthorized, Unavailable
from lbcf.kube.kinds import (
    BINDS,
    DRIVERS,
    GROUPS,
    LOAD_BALANCERS,
    NODES,
    PODS,
    RECORDS,
    SERVICES,
    HasMeta,
    Resource,
)
from lbcf.runtime import logs
from lbcf.runtime.clock import Clock, SystemClock
from lbcf.wire.plain import plain


T = TypeVar("T", bound=HasMeta)

FAILED = 2
"""Exit status where nothing could be answered, as after wrong usage."""

FINE = 0
WRONG = 1
"""Exit status of `status` and `check` that found something wrong."""

_INTERRUPTED = 130
_CALL_LIMIT = timedelta(seconds=10)
_NAME = "kubectl-lbcf"
_STATUS_KINDS = (GROUPS, LOAD_BALANCERS, DRIVERS, RECORDS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line as kubectl's plugin; returns the exit status."""
    return run("kubectl lbcf", sys.argv[1:] if argv is None else list(argv))


def run(program: str, argv: Sequence[str]) -> int:
    """Run the command line under a name; returns the exit status."""
    flags = parser_for(program).parse_args(argv)
    try:
        if flags.command in _WITHOUT_CLIENT:
            status = _WITHOUT_CLIENT[flags.command](flags)
        else:
            # What stores and informers log is in the report.
            logs.configure("error", "console")
            status = asyncio.run(_connect_and_answer(flags))
        # Left to the interpreter's end, a failing write would go unnoticed.
        sys.stdout.flush()
    except LbcfError as error:
        return _fail(program, _one_line(error))
    except BrokenPipeError:
        _discard_stdout()
        return 0
    except OSError as error:
        _discard_stdout()
        return _fail(program, f"the answer cannot be written: {error}")
    except KeyboardInterrupt:
        return _INTERRUPTED
    return status


def _write_project(flags: argparse.Namespace) -> int:
    """Write a driver's project, for which no cluster is asked.

    Raises:
        CtlError: it cannot be written.
    """
    _check_scope(flags)
    name = flags.target.name
    project = write_project(name, flags.namespace or "default", flags.to or Path(name))
    if flags.output == "json":
        print_json(project)
    else:  # without the library that draws tables: who writes drivers needs none
        for file in project.files:
            print(f"wrote {project.folder}/{file}")  # noqa: T201
    return FINE


def _uninstall(flags: argparse.Namespace) -> int:
    """Take lbcf out by the operator's own kubectl.

    Raises:
        CtlError: -A was given, which goes with other commands alone.
    """
    if flags.all_namespaces:
        raise CtlError("-A goes with status, drains and why node/NAME alone")
    _check_scope(flags)
    given = (
        ("--kubeconfig", [flags.kubeconfig]),
        ("--context", [flags.context]),
        ("--as", [flags.user]),
        ("--as-group", flags.groups or ()),
    )
    login = (f"{name}={value}" for name, values in given for value in values if value)
    LOGIN.set(tuple(login))
    flags.namespace = flags.namespace or NAMESPACE
    return run_uninstall(flags)


_WITHOUT_CLIENT: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "new": _write_project,
    "uninstall": _uninstall,
}


def _fail(program: str, message: str) -> int:
    print(f"{program}: {plain(message)}", file=sys.stderr)  # noqa: T201
    return FAILED


def _discard_stdout() -> None:
    # The interpreter flushes at its end, and would complain of the pipe once more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _one_line(error: LbcfError) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, Unauthorized):
        return f"the API server does not believe who we are: {text}"
    if isinstance(error, Unavailable):
        return f"the API server cannot be asked: {text}"
    return text


def _check_scope(flags: argparse.Namespace) -> None:
    if flags.namespace and flags.all_namespaces:
        raise CtlError("-n and -A were both given: which of them is meant?")
    if flags.groups and not flags.user:
        raise CtlError("--as-group was given without --as: who is the member?")


async def _connect_and_answer(flags: argparse.Namespace) -> int:
    _check_scope(flags)
    several = getattr(flags, "watch", False) or getattr(flags, "wait", False)
    write = report_writer(flags.output, watching=several)
    connection = await connect(flags.kubeconfig, flags.context)
    if flags.user:
        acted_for = acting_as(flags.user, flags.groups or ())
        connection = attrs.evolve(connection, headers=acted_for)
    namespace = flags.namespace or connection.namespace
    clock = SystemClock()
    async with connected(
        connection, clock, user_agent=_NAME, field_manager=_NAME, limit=_CALL_LIMIT
    ) as client:
        question = Question(
            client, clock, namespace, everywhere=flags.all_namespaces, flags=flags
        )
        return await answer(question, write)


@attrs.frozen
class Question:
    """What was asked.

    Attributes:
        namespace: the one that is meant unless `everywhere`.
        everywhere: all namespaces are meant.
    """

    client: KubeClient
    clock: Clock
    namespace: str
    everywhere: bool
    flags: argparse.Namespace

    def reading(self) -> Reading:
        """Return an empty reading of the namespaces that are meant."""
        return Reading(self.client, None if self.everywhere else self.namespace)

    @property
    def target(self) -> ObjectReference:
        """Return the object that is asked about."""
        target: ObjectReference = self.flags.target
        return target

    @property
    def key(self) -> ObjectKey:
        """Return the key of that object.

        Raises:
            CtlError: it is in a namespace, and all of them were named.
        """
        if self.everywhere and self.target.kind is not Kind.NODE:
            raise CtlError("-A goes with status, drains and why node/NAME alone")
        return self.target.key(self.namespace)


async def answer(question: Question, write: ReportWriter) -> int:
    """Run the sub-command; returns the exit status.

    Raises:
        CtlError: there is no answer.
        KubeError: the API server cannot be asked.
    """
    return await _COMMANDS[question.flags.command](question, write)


async def _status(question: Question, write: ReportWriter) -> int:
    reading, report = await _look_at_status(question)
    if question.flags.watch:

        async def look() -> StatusReport:
            _, report = await _look_at_status(question)
            return report

        output = question.flags.output
        with screen(output) as show:
            ticks = is_interactive(output)
            await follow_status(reading, look, question.clock, show, ticks=ticks)
    write(report)
    return WRONG if report.problems else FINE


async def _look_at_status(question: Question) -> tuple[Reading, StatusReport]:
    reading = question.reading()
    _, leaders = await asyncio.gather(
        reading.read_resources(),
        read_leaders(reading.read_leases, question.clock),
    )
    rights = [reading.missing_right(kind, question.namespace) for kind in _STATUS_KINDS]
    if all(rights):
        raise CtlError(str(rights[0]))
    now = question.clock.now()
    return reading, status_report(reading, leaders, now)


async def _check(question: Question, write: ReportWriter) -> int:
    now = question.clock.now()
    report = await check(question.client, question.namespace, now)
    write(report)
    return FINE if is_whole(report) else WRONG


async def _drains(question: Question, write: ReportWriter) -> int:
    reading = question.reading()
    await reading.read_resources()
    right = reading.missing_right(RECORDS, question.namespace)
    if right is not None:
        raise CtlError(str(right))
    if question.flags.watch:
        output = question.flags.output
        with screen(output) as show:
            ticks = is_interactive(output)
            await follow_drains(reading, question.clock, show, ticks=ticks)
    write(drains_report(reading, question.clock.now()))
    return FINE


async def _plan(question: Question, write: ReportWriter) -> int:
    reading, group = await _read_group(question)
    write(plan_report(reading, group, question.clock.now()))
    return FINE


async def _abandon(question: Question, write: ReportWriter) -> int:
    flags = question.flags
    order = Order(question.target, question.key, flags.reason)
    confirm = None if flags.yes else confirm_at_terminal
    write(await abandon(question.client, order, confirm))
    return FINE


async def _remove_orphans(question: Question, write: ReportWriter) -> int:
    order = OrphanOrder(question.client, question.key)
    confirm = partial(confirm_at_terminal, ask="Take them out?")
    report = await order.give(None if question.flags.yes else confirm)
    if question.flags.wait:
        with screen(question.flags.output) as show:
            report = await order.follow(report, show, question.clock)
    write(report)
    return FINE


async def _drain(question: Question, write: ReportWriter) -> int:
    reason = question.flags.reason.strip()
    if not reason:
        raise CtlError("--reason is empty: say why, others will read it")
    return await _drain_by_hand(question, write, reason)


async def _undrain(question: Question, write: ReportWriter) -> int:
    return await _drain_by_hand(question, write, "")


async def _drain_by_hand(question: Question, write: ReportWriter, reason: str) -> int:
    order = HandDrain(question.target, question.key, reason)
    await annotate(question.client, order)

    async def look() -> HandDrainReport:
        """Read all that may be concerned."""
        everywhere = question.target.kind is Kind.NODE
        reading = Reading(question.client, None if everywhere else question.namespace)
        await asyncio.gather(reading.read_resources(), reading.read_pods())
        await reading.read_dependencies(concerned(reading, order))
        return hand_drain_report(reading, order, question.clock.now())

    if question.flags.wait:
        output = question.flags.output
        with screen(output) as show:
            write(await follow(look, show, question.clock))
    else:
        write(await look())
    return FINE


async def _why(question: Question, write: ReportWriter) -> int:
    write(await _REPORTS[question.target.kind](question))
    return FINE


async def _read_group(question: Question) -> tuple[Reading, BackendGroup]:
    """Read a group, or a Bind, and all that it depends on."""
    reading, key = question.reading(), question.key
    await reading.read_resources()
    group = reading.view.groups.get(key)
    if group is None:
        raise not_found(reading, question.target.kind, key)
    await reading.read_dependencies([group])
    return reading, group


async def _why_group(question: Question) -> WhyReport:
    reading, group = await _read_group(question)
    return why_group(reading, group, question.clock.now())


async def _why_pod(question: Question) -> WhyReport:
    reading, key = question.reading(), question.key
    # Read by itself: the view has no pods that have ended.
    pod, _ = await asyncio.gather(_get(question, PODS, key), reading.read_resources())
    groups = reading.view.groups.by_index("namespace", key.namespace)
    await reading.read_dependencies(
        group
        for group in groups
        if (pod is not None and does_select(group, pod))
        or reading.view.records.by_index("pod", (group.meta.key, key.name))
    )
    return why_pod(reading, key, pod, question.clock.now())


async def _get(question: Question, kind: Resource[T], key: ObjectKey) -> T | None:
    try:
        return await question.client.get(kind, key)
    except NotFound:
        return None
    except Forbidden as error:
        raise CtlError(refusal(error, "get", kind, key.namespace)) from error


async def _why_workload(question: Question) -> WhyReport:
    reading, target, key = question.reading(), question.target, question.key
    workload, _, _ = await asyncio.gather(
        _get(question, WORKLOADS[target.kind], key),
        reading.read_resources(),
        reading.read_pods(),
    )
    if workload is None:
        called = f"{target.kind}/{target.name}"
        raise ObjectNotFound(f"there is no {called} in namespace {key.namespace}")
    return why_workload(reading, target.kind, workload, question.clock.now())


async def _why_node(question: Question) -> WhyReport:
    reading = question.reading()
    await asyncio.gather(reading.read_resources(), reading.read_nodes())
    right = reading.missing_right(NODES, "")
    if right is not None:
        raise CtlError(str(right))
    await reading.read_dependencies(reading.view.groups_on_nodes())
    return why_node(reading, question.key.name, question.clock.now())


async def _why_record(question: Question) -> WhyReport:
    reading, key = question.reading(), question.key
    await reading.read_resources()
    record = reading.view.records.get(key)
    owner = None if record is None else record.group
    group = None if owner is None else reading.view.groups.get(owner)
    await reading.read_dependencies([] if group is None else [group])
    return why_record(reading, key, question.clock.now())


async def _why_load_balancer(question: Question) -> WhyReport:
    reading = await _read_users(question, GROUPS, BINDS, RECORDS)
    return why_load_balancer(reading, question.key, question.clock.now())


async def _why_service(question: Question) -> WhyReport:
    reading, key = question.reading(), question.key
    service, _ = await asyncio.gather(
        _get(question, SERVICES, key), reading.read_resources()
    )
    if service is None:
        called = f"svc/{key.name}"
        raise ObjectNotFound(f"there is no {called} in namespace {key.namespace}")
    return why_service(reading, service, question.clock.now())


async def _why_driver(question: Question) -> WhyReport:
    reading = await _read_users(question, LOAD_BALANCERS, GROUPS, BINDS, RECORDS)
    return why_driver(reading, question.key, question.clock.now())


async def _read_users(question: Question, *users: Resource[Any]) -> Reading:
    """Read what may use an object: in all namespaces if it is in kube-system.

    Who may not read all of them gets what uses it in the one that was asked about, and
    is told that this is not all.
    """
    reading, everywhere = question.reading(), Reading(question.client, None)
    if question.key.namespace == SYSTEM_NAMESPACE:
        await everywhere.read_resources()
        if not everywhere.missing_rights:
            return everywhere
    await reading.read_resources()
    for right in filter(None, (everywhere.missing_right(kind, "*") for kind in users)):
        reading.note_missing(right)
    return reading


_REPORTS: Mapping[Kind, Callable[[Question], Awaitable[WhyReport]]] = {
    Kind.POD: _why_pod,
    Kind.NODE: _why_node,
    Kind.RECORD: _why_record,
    Kind.GROUP: _why_group,
    Kind.BIND: _why_group,
    Kind.LOAD_BALANCER: _why_load_balancer,
    Kind.DRIVER: _why_driver,
    Kind.SERVICE: _why_service,
    **dict.fromkeys(WORKLOADS, _why_workload),
}

_COMMANDS: Mapping[str, Callable[[Question, ReportWriter], Awaitable[int]]] = {
    "status": _status,
    "check": _check,
    "why": _why,
    "drains": _drains,
    "plan": _plan,
    "drain": _drain,
    "undrain": _undrain,
    "abandon": _abandon,
    "remove-orphans": _remove_orphans,
}
