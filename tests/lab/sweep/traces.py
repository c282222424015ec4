"""Writes down what both processes do in a run, for the model to judge.

`with taped() as tape:` a case is played; `tests.lab.model.follow.follow` then says
the first step of `tape.trace()` that the model does not allow.
"""

import asyncio

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import msgspec

from lbcf.controller.apply import Written
from lbcf.controller.registrar import Registrar
from lbcf.core.lifecycle.steps import Permission, Reply, Step
from lbcf.core.lifecycle.turn import Now
from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.deregistrar.reconciler import Deregistrar
from lbcf.executor import Executor, Subject
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import RECORDS, Resource
from lbcf.wire.resources import parse_driver
from tests.lab.model.tape import Tape
from tests.lab.sweep.edits import Value
from tests.lab.sweep.estate import Estate
from tests.lab.sweep.objects import PROXY, PROXY_URL, Setting, driver_path
from tests.lab.sweep.process import OWNER, Process
from tests.lab.sweep.world import World


@contextmanager
def taped() -> Iterator[Tape]:
    """Note each step of all runs that are made in a block; make one run only."""
    tape = Tape()
    with ExitStack() as stack:
        for owner, name, made in (
            (Executor, "perform", _performing(tape)),
            (Registrar, "take_up", _taking_up(tape)),
            (KubeClient, "delete", _deleting(tape)),
            (World, "crash", _crashing(tape)),
            (Deregistrar, "inherit", _inheriting(tape, Deregistrar.inherit)),
            (Registrar, "inherit", _inheriting(tape, Registrar.inherit)),
            (Estate, "put_driver", _putting_drivers(tape)),
        ):
            stack.enter_context(Value(owner, name, made).made())
        yield tape


def _actor() -> str:
    """Say whose code runs."""
    process = OWNER.get()
    return "nobody" if process is None else process.name


def _now() -> float:
    """Return the seconds since the beginning."""
    return asyncio.get_running_loop().time()


def _moment() -> Now:
    """Return the same, with what the wall clock of who runs shows."""
    process = OWNER.get()
    assert process is not None
    return Now(process.clock.now(), _now())


def _performing(tape: Tape) -> Any:
    """Note what the executor performs."""
    perform = Executor.perform

    async def performed(self: Executor, subject: Subject, step: Step) -> Reply:
        began, actor, uid = _moment(), _actor(), subject.uid
        try:
            reply = await perform(self, subject, step)
        except BaseException as error:
            tape.note(actor, step, error, uid=uid, began=began, ended=_moment())
            raise
        tape.note(actor, step, reply, uid=uid, began=began, ended=_moment())
        return reply

    return performed


def _taking_up(tape: Tape) -> Any:
    """Note what the controller created or updated."""
    take_up = Registrar.take_up

    def taken_up(self: Registrar, written: Written) -> None:
        step = "create" if written.before is None else "update"
        tape.wrote(_actor(), step, written.permission, _now(), written.before)
        take_up(self, written)

    return taken_up


def _deleting(tape: Tape) -> Any:
    """Note what the controller deleted."""
    delete = KubeClient.delete

    async def deleted(
        self: KubeClient,
        resource: Resource[Any],
        key: ObjectKey,
        *,
        uid: Uid | None = None,
        version: str | None = None,
        within: timedelta | None = None,
    ) -> Any:
        began = _now()
        left = await delete(
            self, resource, key, uid=uid, version=version, within=within
        )
        if resource is RECORDS and isinstance(left, BackendRecord):
            # Whoever deletes does not wait for the calls that the registrar has out.
            actor = f"{_actor()}-deletes"
            tape.wrote(actor, "delete", Permission(left, began), _now())
        return left

    return deleted


def _putting_drivers(tape: Tape) -> Any:
    """Note how each driver knows its members."""
    put_driver = Estate.put_driver

    def put(
        self: Estate,
        name: str = PROXY,
        url: str = PROXY_URL,
        setting: Setting | None = None,
    ) -> None:
        put_driver(self, name, url, setting)
        whole = self.api.objects[driver_path(name)]
        tape.learn(parse_driver(msgspec.json.encode(whole)))

    return put


def _inheriting(tape: Tape, inherit: Any) -> Any:
    """Note under whose name a registrar or a deregistrar goes on."""

    def inherited(self: object, name: str, ended_at: float, left: object) -> None:
        process = OWNER.get()
        assert process is not None
        assert process.predecessor is not None
        recalls = "" if left is None else process.predecessor.run
        tape.inherited(process.name, name, process.began, recalls)
        inherit(self, name, ended_at, left)

    return inherited


def _crashing(tape: Tape) -> Any:
    """Note who crashed."""
    crash = World.crash

    def crashed(self: World, process: Process, *, is_old: bool = False) -> None:
        if process.is_alive:
            # What it had begun is noted first, as cut off.
            loop = asyncio.get_running_loop()
            loop.call_later(0.001, tape.crashed, process.name, loop.time())
        crash(self, process, is_old=is_old)

    return crashed
