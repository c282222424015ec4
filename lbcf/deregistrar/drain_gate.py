"""Answers pods whose preStop waits: does any record still name this pod?

A pod is answered from a quorum LIST of the records with its uid, sent after it asked. While
a record of it is known to be on its way out, or the last LIST had one, nothing is asked:
one LIST for up to a hundred pods follows when a record ends, or after some seconds in case
that was missed. A record that an older view creates later is never registered: the pod is
read before its first ensure (docs/lifecycle.md, rule 9 of becoming registered).
"""

import asyncio
import contextlib

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

import structlog

from prometheus_client import Counter, Gauge

from lbcf.core.backoff import delay_for
from lbcf.core.model.names import LABEL_POD_UID
from lbcf.core.model.resources import BackendRecord, PodRef
from lbcf.core.model.values import Uid
from lbcf.kube.errors import KubeError
from lbcf.kube.kinds import RECORD_METAS
from lbcf.kube.list_watch import Selection
from lbcf.kube.reader import KubeReader
from lbcf.kube.store import Store
from lbcf.runtime.clock import Clock
from lbcf.runtime.metrics import Metrics
from lbcf.runtime.tasks import CutError, cut_is_error


_log = structlog.get_logger(__name__)

_TOGETHER: Final = 100
"""Uids in one LIST: with more, its URL is longer than some proxies take."""
ASKED_AGAIN: Final = timedelta(seconds=5)
"""After which pods are asked for again of which no record is known to be ending."""
_LONGEST_PAUSE: Final = timedelta(seconds=5)


def pod_of(record: BackendRecord) -> Iterator[Uid]:
    """Yield the uid of a record's pod, where it has one: for an index of a store."""
    if isinstance(record.spec.backend, PodRef):
        yield record.spec.backend.uid


class GateMetrics:
    """What Prometheus is told of pods that wait; without a registry nobody is."""

    def __init__(self, metrics: Metrics | None) -> None:
        registry = None if metrics is None else metrics.registry
        self.waiting = Gauge(
            "lbcf_drain_gate_pods_waiting",
            "Pods whose preStop waits here until no record names them.",
            registry=registry,
        )
        self.answers = Counter(
            "lbcf_drain_gate_answers_total",
            "Answers to pods that wait: no record names it (Drained), one does when the "
            "request ends (Waiting), or there is no room for it (Refused).",
            ["answer"],
            registry=registry,
        )
        for answer in ("Drained", "Waiting", "Refused"):
            self.answers.labels(answer)


class DrainGate:
    """Knows which pods are asked for, and answers them.

    Args:
        client: the API server.
        records: at least those that are being deleted; has the index `pod`.
        clock: waits.
        series: counts.
        again: after which pods are asked for again of which no record is known.
    """

    def __init__(
        self,
        client: KubeReader,
        records: Store[BackendRecord],
        clock: Clock,
        series: GateMetrics,
        again: timedelta = ASKED_AGAIN,
    ) -> None:
        self._again = again
        self._client = client
        self._records = records
        self._clock = clock
        self._open: dict[Uid, set[asyncio.Event]] = {}
        self._due: dict[Uid, None] = {}
        self._wake = asyncio.Event()
        self._series = series
        series.waiting.set_function(lambda: len(self._open))

    def record_changed(
        self, old: BackendRecord | None, new: BackendRecord | None
    ) -> None:
        """Ask for the pod of a record that has ended."""
        if new is None and old is not None:
            self._ask_for(uid for uid in pod_of(old) if uid in self._open)

    async def drained(self, uid: Uid, within: timedelta) -> bool:
        """Wait until no record names a pod; False where that takes longer.

        Args:
            uid: of a pod that is being deleted already.
            within: how long to wait.
        """
        with self._asking(uid) as is_drained:
            try:
                async with asyncio.timeout(within.total_seconds()):
                    await is_drained.wait()
            except TimeoutError:
                self._series.answers.labels("Waiting").inc()
                return False
        self._series.answers.labels("Drained").inc()
        return True

    @contextlib.contextmanager
    def _asking(self, uid: Uid) -> Iterator[asyncio.Event]:
        """Keep a pod among those that are asked for until the block ends."""
        is_drained = asyncio.Event()
        self._open.setdefault(uid, set()).add(is_drained)
        self._ask_for([uid])
        try:
            yield is_drained
        finally:
            self._forget(uid, {is_drained})

    def _forget(self, uid: Uid, askers: Iterable[asyncio.Event]) -> None:
        left = self._open.get(uid, set())
        left.difference_update(askers)
        if not left:
            self._open.pop(uid, None)
            self._due.pop(uid, None)

    def _ask_for(self, uids: Iterable[Uid]) -> None:
        self._due.update(dict.fromkeys(uids))
        if self._due:
            self._wake.set()

    async def run(self) -> None:
        """Answer until cancelled."""
        again = asyncio.create_task(self._ask_again())
        try:
            await self._answer()
        finally:
            again.cancel()

    async def _ask_again(self) -> None:
        # An end that no watch told of must not hold a pod for longer than this.
        while True:
            await self._clock.sleep(self._again)
            self._ask_for(self._open)

    async def _answer(self) -> None:
        failures = 0
        while True:
            await self._wake.wait()
            asked = self._take_due()
            if not asked:
                self._wake.clear()
                continue
            try:
                with cut_is_error("a list of records"):
                    named = await self._named(asked)
            except (KubeError, CutError) as error:
                self._ask_for(uid for uid in asked if uid in self._open)
                _log.warning("gate.list_failed", pods=len(asked), error=str(error))
                pause = delay_for(failures, self._clock.jitter(), cap=_LONGEST_PAUSE)
                await self._clock.sleep(pause)
                failures += 1
                continue
            failures = 0
            for uid, askers in asked.items():
                if uid not in named:
                    self._forget(uid, askers)
                    for is_drained in askers:
                        is_drained.set()

    def _take_due(self) -> dict[Uid, frozenset[asyncio.Event]]:
        """Take out the next pods to ask for; those with records on their way out wait.

        With each are those who asked until now: the LIST that follows is older than the
        question of whoever comes while it is under way.
        """
        taken: dict[Uid, frozenset[asyncio.Event]] = {}
        while self._due and len(taken) < _TOGETHER:
            uid = next(iter(self._due))
            del self._due[uid]
            if uid in self._open and not self._records.by_index("pod", uid):
                taken[uid] = frozenset(self._open[uid])
        return taken

    async def _named(self, asked: Iterable[Uid]) -> frozenset[str]:
        """Return the uids that records name, by a quorum LIST.

        Raises:
            KubeError: the API server cannot be asked.
        """
        selection = Selection(labels=f"{LABEL_POD_UID} in ({','.join(asked)})")
        page = await self._client.list(RECORD_METAS, selection)
        labels = (found.meta.labels for found in page.objects)
        named = frozenset(found.get(LABEL_POD_UID, "") for found in labels)
        # Whose record cannot be read is named by it, as far as anybody knows.
        return named | frozenset(asked) if page.unreadable else named
