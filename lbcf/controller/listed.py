"""Tells on a load balancer that its members cannot be listed, or are again.

Under `survey`, which asks for them; what is to be told is said by `lbcf.core.lifecycle.listed`.
"""

import attrs
import structlog

from lbcf.controller.binds import Binds
from lbcf.controller.view import View
from lbcf.core.lifecycle.epochs import Epochs
from lbcf.core.lifecycle.listed import IN_A_ROW, RETOLD, listed, unlisted
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import bind_of
from lbcf.core.model.resources import LoadBalancer, LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.executor.load_balancers import Trouble
from lbcf.executor.writes import ObjectWriter
from lbcf.kube.errors import Conflict, KubeError, NotFound
from lbcf.runtime.clock import Clock
from lbcf.wire.resources import render_load_balancer_status


_log = structlog.get_logger(__name__)


@attrs.define
class _Failing:
    """A load balancer whose members were not listed.

    Attributes:
        readings: that failed in a row.
        told_at: monotonic seconds at which that was last written down, None: never.
    """

    readings: int = 0
    told_at: float | None = None


class ListedTeller:
    """Writes the condition Listed."""

    def __init__(
        self,
        view: View,
        writer: ObjectWriter[LoadBalancer],
        binds: Binds,
        clock: Clock,
    ) -> None:
        self._view = view
        self._writer = writer
        self._binds = binds
        self._clock = clock
        self._failing: dict[ObjectKey, _Failing] = {}

    def forget(self, key: ObjectKey) -> None:
        """Keep nothing of a load balancer."""
        self._failing.pop(key, None)

    async def failed(
        self, key: ObjectKey, driver: LoadBalancerDriver, trouble: Trouble
    ) -> None:
        """Note a reading that failed; tell of it if it is not the first one."""
        failing = self._failing.setdefault(key, _Failing())
        failing.readings += 1
        found = self._view.load_balancers.get(key)
        if failing.readings >= IN_A_ROW and found is not None:
            await self._tell(found, unlisted(found, driver, trouble), failing)

    async def succeeded(self, key: ObjectKey, epochs: Epochs) -> None:
        """Note a reading that went well; tell whether its epochs can be believed."""
        found = self._view.load_balancers.get(key)
        condition = None
        if found is not None:
            condition = listed(found, epochs, self._clock.monotonic())
        if found is None or condition is None or condition.status is True:
            self._failing.pop(key, None)
        else:
            self._failing.setdefault(key, _Failing()).readings = 0
        if found is not None and condition is not None:
            failing = self._failing.get(key) or _Failing()
            await self._tell(found, condition, failing)

    async def _tell(
        self, found: LoadBalancer, condition: Condition, failing: _Failing
    ) -> None:
        """Write a condition that says something new, other words not at once."""
        old = conditions.find(found.conditions, condition.type)
        now = self._clock.monotonic()
        if condition.says_the_same(old) or (
            old is not None
            and (old.status, old.reason) == (condition.status, condition.reason)
            and failing.told_at is not None
            and now - failing.told_at < RETOLD.total_seconds()
        ):
            return
        failing.told_at = now
        log = _log.info if condition.status else _log.warning
        log(
            "members.listed" if condition.status else "members.unlisted",
            load_balancer=str(found.meta.key),
            reason=condition.reason,
            message=condition.message,
        )
        try:
            await self._write(found, condition)
        except (Conflict, NotFound):
            failing.told_at = None  # the next reading tells it
        except KubeError as error:
            _log.warning("members.untold", error=str(error))

    async def _write(self, found: LoadBalancer, condition: Condition) -> None:
        """Write it.

        Raises:
            KubeError: it could not be written.
        """
        if bind_of(found.meta.key) is not None:
            await self._binds.tell(found, condition)
            return
        changed = conditions.with_condition(
            found.conditions, condition, self._clock.now()
        )
        body = render_load_balancer_status(found, changed)
        await self._writer.patch(found.meta, body, "status")
