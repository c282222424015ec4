"""Asks a driver which unready pods stay registered (judgePodDeregister).

`lbcf.controller.driver_decisions` says about whom; the answer is a value of
`lbcf.core.selection.webhook_policy`. The pods are read whole when the call is made: one that is ready by
then, is going or has gone is not shown.
"""

import asyncio

from collections.abc import Sequence

import attrs
import msgspec

from lbcf.core.model.cluster import Pod
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Explanation, Reason
from lbcf.core.selection.webhook_policy import WebhookAnswer
from lbcf.drivers.errors import BadAnswer, DriverError
from lbcf.drivers.pool import DriverPool
from lbcf.kube.errors import NotFound
from lbcf.kube.kinds import PODS
from lbcf.kube.reader import KubeReader
from lbcf.runtime.semaphore import PrioritySemaphore
from lbcf.wire.driver_answers import WholeObject
from lbcf.wire.driver_requests import JudgePodDeregisterRequest
from lbcf.wire.kube import parse_pod
from lbcf.wire.raw_object import key_of_raw_object


_READS_AT_ONCE = 16


@attrs.frozen
class _Shown:
    """A pod as the driver is shown it."""

    pod: Pod
    whole: WholeObject


class PodJudge:
    """Asks about pods, all those of a group in one call."""

    def __init__(self, client: KubeReader, drivers: DriverPool) -> None:
        self._client = client
        self._drivers = drivers
        self._reads = PrioritySemaphore(_READS_AT_ONCE)

    async def ask(
        self, driver: LoadBalancerDriver, pods: Sequence[Pod]
    ) -> WebhookAnswer:
        """Ask about pods of one namespace.

        Raises:
            KubeError: a pod could not be read, so nobody was asked.
        """
        read = await asyncio.gather(*(self._read(pod) for pod in pods))
        shown = [one for one in read if one is not None]
        versions = {(p.meta.uid, p.meta.resource_version) for p in pods}
        versions |= {(s.pod.meta.uid, s.pod.meta.resource_version) for s in shown}
        answer = WebhookAnswer(
            versions=frozenset(versions),
            asked=frozenset(s.pod.meta.uid for s in shown),
        )
        if not shown:
            return answer
        try:
            kept = await self._kept(driver, shown)
        except DriverError as error:
            return attrs.evolve(answer, trouble=Explanation(error.reason, str(error)))
        if isinstance(kept, Explanation):
            return attrs.evolve(answer, trouble=kept)
        uids = {s.pod.meta.uid for s in shown if s.pod.meta.key in kept}
        return attrs.evolve(answer, kept=frozenset(uids))

    async def _read(self, pod: Pod) -> _Shown | None:
        """Read a pod whole; None if there is nothing to ask about it any more."""
        async with self._reads.held(group=pod.meta.key.namespace):
            try:
                raw = await self._client.get_raw(PODS, pod.meta.key)
            except NotFound:
                return None
        now = parse_pod(raw)
        if now.meta.uid != pod.meta.uid or now.is_ready or now.is_terminating:
            return None
        return _Shown(now, msgspec.json.decode(raw, type=WholeObject))

    async def _kept(
        self, driver: LoadBalancerDriver, shown: Sequence[_Shown]
    ) -> frozenset[ObjectKey] | Explanation:
        """Send the question; say which pods the driver keeps.

        Raises:
            DriverError: there was no valid answer.
        """
        operation = Operation.JUDGE_POD_DEREGISTER
        request = JudgePodDeregisterRequest(not_ready_pods=[s.whole for s in shown])
        namespace = shown[0].pod.meta.key.namespace
        async with self._drivers.slot(driver, namespace=namespace):
            answer = await self._drivers.call(
                driver, operation, request, timeout=driver.timeout(operation)
            )
        who = f"driver {driver.meta.key} at {operation}"
        if not answer.succ:
            said = answer.msg or "(no message)"
            return Explanation(
                Reason.DRIVER_REFUSED, f"{who} answered succ: false: {said}"
            )
        named = [key_of_raw_object(pod, namespace) for pod in answer.do_not_deregister]
        if None in named:
            raise BadAnswer(f"{who}: an entry of doNotDeregister names no pod")
        return frozenset(key for key in named if key is not None)
