"""Puts members back that a reload or a restart of HAProxy has lost.

`Watch` asks each HAProxy that has members of ours which process answers, all the time;
`pool` notices another process with any reading. Whoever notices first puts the members
back, in the same turn: so before anybody else of this driver looks.

The epoch that listBackends shows changes all the same: the controller ensures all its
records again, and with them what this process did not know.
"""

import asyncio

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NoReturn

import attrs
import structlog

from lbcf.runtime.tasks import cut_is_error
from webhooks.haproxy.connection import longest_line
from webhooks.haproxy.errors import HaproxyError, NoAnswer, Unreachable
from webhooks.haproxy.memory import Registered, lines
from webhooks.haproxy.runtime_api import RuntimeApi


PERIOD = timedelta(milliseconds=20)
"""Between two looks at which process answers."""

COMPARED = timedelta(seconds=1)
"""Between two comparisons of what is remembered with what is there."""

PAUSE = timedelta(milliseconds=100)
"""Before another look at a HAProxy that hangs: others wait for their turn, too."""

BROKEN_PAUSE = timedelta(seconds=1)
"""Before another look after one that broke down: the log has a line for each."""

ATTEMPTS = 5
"""How often members are put back: the old process may take the first lines."""

BETWEEN_ATTEMPTS = timedelta(milliseconds=20)

_log = structlog.get_logger(__name__)


async def restore(api: RuntimeApi) -> bool:
    """Put members back if another process answers than the one that had them.

    Called within a turn, after HAProxy has answered. What cannot be put back is
    forgotten, and told in the log: the controller ensures it, and is told why not.

    Returns:
        Whether there was another process: what was read before is out of date.

    Raises:
        Unreachable, NoAnswer: it is reloaded once more, or hangs; the next call goes on.
    """
    memory, before = api.memory, api.memory.generation
    while memory.holds and api.generation not in {None, memory.generation}:
        began, members = memory.clock.monotonic(), memory.count
        memory.begin(api.generation)
        try:
            for backend in memory.backends:
                await _restore_backend(api, backend)
        except (Unreachable, NoAnswer, asyncio.CancelledError):
            memory.confirm(before)
            raise
        _log.info(
            "haproxy.members_restored",
            haproxy=str(api.endpoint),
            generation=str(memory.generation),
            known=members,
            there=memory.count,
            milliseconds=round((memory.clock.monotonic() - began) * 1000, 1),
        )
    return memory.generation != before


async def _restore_backend(api: RuntimeApi, backend: str) -> None:
    """Put the members of one backend back; those that do not stay are forgotten.

    Raises:
        Unreachable, NoAnswer: as `RuntimeApi.snapshot` says.
    """
    memory, error = api.memory, ""
    missing: Sequence[Registered] = ()
    try:
        for attempt in range(ATTEMPTS + 1):
            snapshot = await api.snapshot(backend)
            missing = memory.missing(backend, snapshot)
            if not missing or snapshot.generation != memory.generation:
                return
            if attempt:
                await asyncio.sleep(BETWEEN_ATTEMPTS.total_seconds())
            if attempt < ATTEMPTS:
                error = await _send(api, missing)
        for one in missing:
            memory.forget(one.target)
    except (Unreachable, NoAnswer):
        raise
    except HaproxyError as failure:
        memory.forget_backend(backend)
        error = str(failure)
    _log.warning(
        "haproxy.members_not_restored",
        haproxy=str(api.endpoint),
        backend=backend,
        error=f"{error.strip():.500}",
    )


async def _send(api: RuntimeApi, members: Sequence[Registered]) -> str:
    """Put members back; return the last answer.

    A line may have been carried out, or may be yet, although nobody saw its answer:
    until that is over no drain or deregistration of its members is called finished.
    """
    answer = ""
    batches = lines(members, longest_line(api.endpoint))
    for line, batch in batches.items():
        with api.memory.sending([sent for one in batch for sent in one.effects]):
            answer = await api.ask(line)
    return answer


@attrs.define(eq=False)
class Watch:
    """Looks at all HAProxys that have members of ours, each on its own.

    Attributes:
        watched: returns them.
    """

    watched: Callable[[], Sequence[RuntimeApi]]
    _busy: set[RuntimeApi] = attrs.field(factory=set, init=False)
    _compared: dict[RuntimeApi, float] = attrs.field(factory=dict, init=False)

    async def run(self) -> NoReturn:
        """Look, until cancelled; no look that breaks down ends the others."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(PERIOD.total_seconds())
                for api in self.watched():
                    if api not in self._busy:
                        self._busy.add(api)
                        group.create_task(self._look(api))

    async def _look(self, api: RuntimeApi) -> None:
        """Look at one HAProxy, and repair what a reload did to it."""
        try:
            with cut_is_error("a look at HAProxy"):
                async with api.turn():
                    await self._read(api)
                    await restore(api)
        except Unreachable:
            api.memory.unreachable()
        except (HaproxyError, TimeoutError) as error:
            _log.debug("haproxy.not_watched", error=str(error))
            await asyncio.sleep(PAUSE.total_seconds())
        except Exception:  # noqa: BLE001 - the other HAProxys matter too
            # A fault of ours: passed on, it would end the looks at all HAProxys.
            _log.exception("haproxy.watch_failed", haproxy=str(api.endpoint))
            await asyncio.sleep(BROKEN_PAUSE.total_seconds())
        finally:
            self._busy.discard(api)

    async def _read(self, api: RuntimeApi) -> None:
        """Find out which process answers; once in a while, what it has."""
        if not await api.look() or api.generation != api.memory.generation:
            return
        api.memory.confirm(api.generation)
        now = api.memory.clock.monotonic()
        if now - self._compared.get(api, 0.0) < COMPARED.total_seconds():
            return
        self._compared[api] = now
        for backend in api.memory.backends:
            snapshot = await api.snapshot(backend)
            if snapshot.generation != api.memory.generation:
                return
            api.memory.compare(backend, snapshot)
