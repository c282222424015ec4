"""`remove-orphans`: has members taken out whose records do not exist.

The status of their LoadBalancer names them. Whom a person confirms is written into an
annotation, by the ids of their records, and the deregistrar takes out those alone.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Final

import attrs

from lbcf.core.lifecycle.orphans import confirmation, why_not
from lbcf.core.model.conditions import ORPHANED, find
from lbcf.core.model.names import ANNOTATION_REMOVE_ORPHANS, bind_of
from lbcf.core.model.resources import LoadBalancer, Meta
from lbcf.core.model.values import Listed, ObjectKey
from lbcf.ctl.abandon import Confirm
from lbcf.ctl.errors import CtlError, worded
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Forbidden, NotFound
from lbcf.kube.kinds import DRIVERS, LOAD_BALANCERS
from lbcf.runtime.clock import Clock


_PAUSE: Final = timedelta(seconds=1)
_RISK: Final = (
    "They are taken out undrained. Another cluster, or a test installation, that uses the "
    "same load balancer has members that look just so: these must be none of its."
)


@attrs.frozen
class Orphan:
    """A member whose record does not exist.

    Attributes:
        record: the uid that the record had.
    """

    address: str
    record: str


@attrs.frozen
class OrphansReport:
    """Whom the deregistrar has yet to take out.

    Attributes:
        left: of those that were confirmed.
        others: how many the load balancer names beside those.
    """

    namespace: str
    subject: str
    left: tuple[Orphan, ...]
    others: int = 0


class OrphanOrder:
    """The annotation on one LoadBalancer.

    Args:
        client: the API server.
        key: of the load balancer.
    """

    def __init__(self, client: KubeClient, key: ObjectKey) -> None:
        self._client = client
        self._key = key
        self._called = f"lb/{key.name}"
        self._worded = partial(worded, self._called, LOAD_BALANCERS, key.namespace)

    async def give(self, confirm: Confirm | None) -> OrphansReport:
        """Have those taken out that the load balancer names by now.

        Where it names none, an order that was left there is taken off.

        Args:
            confirm: asked before the write; None: nobody has to be.

        Raises:
            CtlError: there is none, it is a Bind's, it is being deleted, its orphans
                cannot be told from others, or we may not.
            KubeError: the API server cannot be asked.
        """
        if bind_of(self._key) is not None:
            raise CtlError(
                f"{self._called} is a Bind's, and remove-orphans is for LoadBalancers: "
                "take its orphans out at the load balancer itself"
            )
        found = await self._read()
        if found.meta.deleting_since is not None:
            raise CtlError(f"{self._called} is being deleted, and its members with it")
        if not found.orphans:
            self._check_named(found)
            await self._take_back(found)
            return self._report((), found)
        await self._check_driver(found)
        if confirm is not None:
            confirm(self._question(found))
        await self._write(found.meta, _said(found.orphans))
        return self._report(found.orphans, found)

    async def follow(
        self, given: OrphansReport, show: Callable[[object], None], clock: Clock
    ) -> OrphansReport:
        """Look each second until nobody is left, and take the annotation off then.

        Args:
            given: what was confirmed.
            show: shows each report that tells news.
            clock: waits.

        Raises:
            CtlError: the load balancer is gone, or we may not.
            KubeError: the API server cannot be asked.
        """
        confirmed = tuple((one.address, one.record) for one in given.left)
        report = given
        show(report)
        while report.left:
            await clock.sleep(_PAUSE)
            found = await self._read()
            before, report = report, self._report(confirmed, found)
            if not report.left:
                await self._take_back(found, _said(confirmed))
            elif report != before:
                show(report)
        return report

    async def _read(self) -> LoadBalancer:
        with self._worded("get"):
            return await self._client.get(LOAD_BALANCERS, self._key)

    async def _take_back(self, found: LoadBalancer, said: str | None = None) -> None:
        """Take the annotation off; `said`: only if it still says so."""
        there = found.meta.annotations.get(ANNOTATION_REMOVE_ORPHANS)
        if there is not None and said in {None, there}:
            await self._write(found.meta, None)

    async def _write(self, meta: Meta, said: str | None) -> None:
        # The uid alone guards against a namesake: with a resourceVersion each change of a
        # condition would be a conflict.
        annotations = {ANNOTATION_REMOVE_ORPHANS: said}
        body = {"metadata": {"uid": meta.uid, "annotations": annotations}}
        with self._worded("patch"):
            await self._client.patch(LOAD_BALANCERS, self._key, body)

    def _check_named(self, found: LoadBalancer) -> None:
        """Refuse to call it done where orphans are told and not named.

        Raises:
            CtlError: so it is.
        """
        told = find(found.conditions, ORPHANED)
        if told is not None and told.status:
            raise CtlError(
                f"{self._called} has orphans (condition Orphaned), and its status.orphans "
                "names none: are manifests/crds and the controller of this version "
                "installed? Else take them out at the load balancer itself"
            )

    async def _check_driver(self, found: LoadBalancer) -> None:
        """Refuse what the deregistrar would refuse.

        Raises:
            CtlError: why it would.
        """
        try:
            driver = await self._client.get(DRIVERS, found.driver_key)
        except (Forbidden, NotFound):
            return  # the deregistrar looks at it, too, and tells by an Event
        if why := why_not(driver):
            raise CtlError(f"orphans of {self._called} stay: {why}")

    def _question(self, found: LoadBalancer) -> str:
        count = len(found.orphans)
        noun = "member was" if count == 1 else "members were"
        names = [f"  {address} of {record}" for address, record in found.orphans]
        head = (
            f"{self._called} in namespace {self._key.namespace}: {count} {noun} registered "
            "for records that do not exist:"
        )
        return "\n".join([head, *names, _RISK])

    def _report(
        self, confirmed: tuple[Listed, ...], found: LoadBalancer
    ) -> OrphansReport:
        """Report who of those that were confirmed is named still."""
        records = {record for _, record in confirmed}
        left = tuple(Orphan(*one) for one in found.orphans if one[1] in records)
        others = len(found.orphans) - len(left)
        return OrphansReport(self._key.namespace, self._called, left, others)


def _said(orphans: tuple[Listed, ...]) -> str:
    return confirmation(record for _, record in orphans)
