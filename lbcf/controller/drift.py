"""Tells on a LoadBalancer which of its registered members have been taken out by hand.

Before it: `survey` has listed the members in an unchanged epoch. After it: the condition
Drifted, if two readings in a row say so: what is missing in one may be on its way.
"""

from collections.abc import Sequence

import structlog

from lbcf.controller.view import View
from lbcf.core import conditions
from lbcf.core.drift import can_drift, drift_of, missing_members
from lbcf.core.names import bind_of
from lbcf.core.resources import BackendRecord
from lbcf.core.values import MemberKey, ObjectKey, Uid
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Conflict, NotFound
from lbcf.kube.kinds import LOAD_BALANCERS
from lbcf.runtime.clock import Clock
from lbcf.wire.driver_answers import ListBackendsAnswer
from lbcf.wire.resources import render_load_balancer_status


_log = structlog.get_logger(__name__)


class DriftWatch:
    """Compares what is listed with what is registered."""

    def __init__(self, view: View, client: KubeClient, clock: Clock) -> None:
        self._view = view
        self._client = client
        self._clock = clock
        self._suspects: dict[ObjectKey, tuple[str, frozenset[Uid]]] = {}

    def candidates(self, key: ObjectKey) -> tuple[BackendRecord, ...]:
        """Say which members must be there; to be asked before they are listed."""
        records = self._view.records.by_index("load_balancer", key)
        return tuple(record for record in records if can_drift(record))

    async def compare(
        self,
        key: ObjectKey,
        member_key: MemberKey,
        candidates: Sequence[BackendRecord],
        listed: ListBackendsAnswer,
    ) -> None:
        """Tell what is missing in this reading and was in the last one.

        Raises:
            KubeError: it could not be written.
        """
        members = [(m.backend_addr, m.record_id) for m in listed.backends]
        still = filter(self._still, candidates)
        missing = missing_members(still, members, member_key)
        uids = frozenset(record.meta.uid for record in missing)
        epoch, before = self._suspects.pop(key, ("", frozenset()))
        if missing:
            self._suspects[key] = (listed.epoch, uids)
        if epoch != listed.epoch:
            before = frozenset()
        sure = tuple(record for record in missing if record.meta.uid in before)
        if sure or not missing:
            await self._tell(key, sure)

    def _still(self, record: BackendRecord) -> bool:
        """Tell whether a record is as it was before the members were listed."""
        now = self._view.records.get(record.meta.key)
        return now is not None and now.meta.uid == record.meta.uid and can_drift(now)

    async def _tell(self, key: ObjectKey, missing: tuple[BackendRecord, ...]) -> None:
        """Write the condition, if it says anything new."""
        found = self._view.load_balancers.get(key)
        condition = None if found is None else drift_of(found, missing)
        # The status of a Bind has no place for it.
        if found is None or condition is None or bind_of(key) is not None:
            return
        changed = conditions.with_condition(
            found.conditions, condition, self._clock.now()
        )
        if changed == found.conditions:
            return
        _log.warning(
            "load_balancer.drifted",
            load_balancer=str(key),
            missing=[record.address for record in missing],
        )
        body = render_load_balancer_status(found, changed)
        try:
            written = await self._client.patch(
                LOAD_BALANCERS, key, body, cas=found.meta, subresource="status"
            )
        except (Conflict, NotFound):
            return  # the next reading tells it
        self._view.load_balancers.observe(written)
