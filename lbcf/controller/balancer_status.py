"""What a LoadBalancer's conditions say, and how they are written.

Under `load_balancers`, which decides what there is to tell. `Created` is False until
createLoadBalancer is about to be called, Unknown until that has succeeded, then True,
whatever else is told with it: from it alone a later process knows whether there may be
something to delete.
"""

from datetime import timedelta

import structlog

from lbcf.controller.view import View
from lbcf.core.lifecycle import locking
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import LoadBalancer
from lbcf.core.model.values import Uid
from lbcf.core.reasons import Reason
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Conflict
from lbcf.kube.kinds import LOAD_BALANCERS
from lbcf.kube.requests import Body
from lbcf.runtime.clock import Clock
from lbcf.wire.resources import render_load_balancer_status


_COUNTS_APART = timedelta(seconds=5)
"""Between two writes of how many backends a load balancer has."""

_log = structlog.get_logger(__name__)


class BalancerStatuses:
    """Writes the status of LoadBalancers."""

    def __init__(self, view: View, client: KubeClient, clock: Clock) -> None:
        self._view = view
        self._client = client
        self._clock = clock
        self._counted_at: dict[Uid, float] = {}

    async def tell(
        self, found: LoadBalancer, kind: str, *, reason: Reason, message: str
    ) -> None:
        """Write a condition that tells of trouble, if it says anything new."""
        status = _standing(found) if kind == conditions.CREATED else False
        changed = self._with(found, kind, reason, message, status=status)
        if changed != found.conditions:
            _log.info(
                "load_balancer.told",
                load_balancer=str(found.meta.key),
                reason=reason,
                message=message,
            )
            await self.patch(found, render_load_balancer_status(found, changed))

    async def begin(self, found: LoadBalancer) -> LoadBalancer:
        """Write down that it may be made, before anybody makes it."""
        message = "the driver is asked to create it; it may be there already"
        changed = self._with(
            found, conditions.CREATED, Reason.CREATING, message, status=None
        )
        return await self.patch(found, render_load_balancer_status(found, changed))

    async def create(
        self, found: LoadBalancer, identity: dict[str, str], key: str
    ) -> LoadBalancer:
        """Write down the identity that all records will copy, and its key for locks.

        Whatever else has changed meanwhile: the end of what was just created needs it.
        """
        try:
            return await self._created(found, identity, key)
        except Conflict:
            fresh = await self._client.get(LOAD_BALANCERS, found.meta.key)
            if fresh.meta.uid != found.meta.uid:
                raise
        return await self._created(fresh, identity, key)

    async def _created(
        self, found: LoadBalancer, identity: dict[str, str], key: str
    ) -> LoadBalancer:
        """Write the identity into one version."""
        changed = self._with(found, conditions.CREATED, Reason.CREATED, "", status=True)
        keys = locking.with_key(found.lock_keys, key)
        body = render_load_balancer_status(
            found, changed, info=identity, lock_keys=keys
        )
        return await self.patch(found, body)

    async def sync(self, found: LoadBalancer) -> None:
        """Write down that it has its attributes."""
        kind = conditions.ATTRIBUTES_SYNCED
        changed = self._with(found, kind, Reason.ATTRIBUTES_SYNCED, "", status=True)
        if changed != found.conditions:
            await self.patch(found, render_load_balancer_status(found, changed))

    def count_due(self, found: LoadBalancer) -> timedelta | None:
        """Say when its registered backends are to be written down; None: they are.

        Another controller may count otherwise as long as one of both does not see all:
        each would write as soon as it sees what the other wrote.
        """
        if len(self._view.members_of(found.meta.key)) == found.backends:
            return None
        last = self._counted_at.get(found.meta.uid)
        if last is None:
            return timedelta(0)
        passed = timedelta(seconds=self._clock.monotonic() - last)
        return max(_COUNTS_APART - passed, timedelta(0))

    async def count(self, found: LoadBalancer) -> LoadBalancer:
        """Write down how many backends are registered, for `kubectl get lb`."""
        self._counted_at[found.meta.uid] = self._clock.monotonic()
        count = len(self._view.members_of(found.meta.key))
        body = render_load_balancer_status(found, found.conditions, backends=count)
        return await self.patch(found, body)

    def forget(self, uid: Uid) -> None:
        """Be done with a load balancer."""
        self._counted_at.pop(uid, None)

    async def lock(self, found: LoadBalancer, key: str) -> LoadBalancer:
        """Write down the key under which its addresses are locked from now on."""
        keys = locking.with_key(found.lock_keys, key)
        body = render_load_balancer_status(found, found.conditions, lock_keys=keys)
        return await self.patch(found, body)

    async def patch(
        self, found: LoadBalancer, body: Body, *, status: bool = True
    ) -> LoadBalancer:
        """Write by compare-and-swap, and let the view know."""
        patched = await self._client.patch(
            LOAD_BALANCERS,
            found.meta.key,
            body,
            cas=found.meta,
            subresource="status" if status else "",
        )
        self._view.load_balancers.observe(patched)
        return patched

    def _with(
        self,
        found: LoadBalancer,
        kind: str,
        reason: Reason,
        message: str,
        *,
        status: bool | None,
    ) -> tuple[Condition, ...]:
        """Set one of its conditions."""
        new = Condition(kind, status, reason, message, found.meta.generation)
        return conditions.with_condition(found.conditions, new, self._clock.now())


def _standing(found: LoadBalancer) -> bool | None:
    """Say what Created is, whatever is told with it; None: nobody knows."""
    if found.info is not None:
        return True
    return None if found.may_exist else False
