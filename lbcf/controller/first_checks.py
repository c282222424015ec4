"""Remembers which new members wait for the first checks of their load balancer.

A driver says so with the success of ensureBackend (`inService: false`), and listBackends
tells when they have passed: readiness gates wait for that. It is kept in memory: in the
status of the record, the end of the checks would cost a write of its own. After a change of
leader, a member that was registered just before waits until it was listed in service, or
`GRACE` is over.
"""

import math

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from lbcf.controller.view import View
from lbcf.core.lifecycle.in_service import GRACE, is_new
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, LoadBalancerDriver, PodRef
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.runtime.clock import Clock


_PASSED: Final = -math.inf


@attrs.define
class _Member:
    """A member whose pod waits for its readiness gate.

    Attributes:
        pod: whose backend it is.
        load_balancer: that it was registered at.
        until: monotonic seconds until which it waits for its first checks.
    """

    pod: ObjectKey
    load_balancer: ObjectKey
    until: float


class FirstChecks:
    """Knows which members are registered, and get no traffic yet.

    Args:
        view: where the pods and drivers are.
        clock: measures.
    """

    def __init__(self, view: View, clock: Clock) -> None:
        self._view = view
        self._clock = clock
        self._pods: dict[Uid, dict[Uid, _Member]] = {}
        self._waiting: dict[ObjectKey, dict[Uid, _Member]] = {}
        self._on_passed: Callable[[ObjectKey], None] = lambda _pod: None

    def on_passed(self, call: Callable[[ObjectKey], None]) -> None:
        """Have somebody called with the pod of a member whose checks have passed."""
        self._on_passed = call

    def answered(self, record: BackendRecord, *, in_service: bool | None) -> None:
        """Note what ensureBackend said; called before the record says Registered.

        Args:
            record: whose pod may wait for its gate.
            in_service: None: the driver says nothing of it.
        """
        waits = in_service is False and self._is_listed(record)
        self._note(record, math.inf if waits else _PASSED)

    def listed(self, load_balancer: ObjectKey, words: Mapping[Uid, str]) -> None:
        """Note whose checks have passed.

        Args:
            load_balancer: that was read.
            words: what it says of its members; empty: it is in service.
        """
        waiting = self._waiting.get(load_balancer, {})
        for uid in [uid for uid in waiting if words.get(uid) == ""]:
            member = waiting[uid]
            member.until = _PASSED
            self._drop(uid, member)
            self._on_passed(member.pod)

    def waits(self, record: BackendRecord) -> bool:
        """Return whether a registered member of a pod is known to get no traffic yet."""
        backend, uid = record.spec.backend, record.meta.uid
        if not isinstance(backend, PodRef):
            return False
        member = self._pods.get(backend.uid, {}).get(uid)
        if member is None:
            # Registered before this process led: nobody here has heard the answer.
            now, until = self._clock.now(), _PASSED
            if is_new(record, now) and self._is_listed(record):
                until = self._clock.monotonic() + GRACE.total_seconds()
            member = self._note(record, until)
        return member is not None and self._clock.monotonic() < member.until

    def forget(self, pod: Uid) -> None:
        """Keep nothing of a pod: it is gone, or its gate is open."""
        for uid, member in self._pods.pop(pod, {}).items():
            self._drop(uid, member)

    def _note(self, record: BackendRecord, until: float) -> _Member | None:
        """Remember a member of a pod whose gate is shut; None: its pod waits for none."""
        backend, uid = record.spec.backend, record.meta.uid
        if not isinstance(backend, PodRef):
            return None
        key = ObjectKey(record.meta.key.namespace, backend.name)
        pod = self._view.pods.get(key)
        if pod is None or pod.meta.uid != backend.uid or not pod.has_shut_gate:
            return None
        member = _Member(key, record.load_balancer_key, until)
        self._pods.setdefault(backend.uid, {})[uid] = member
        if until == _PASSED:
            self._drop(uid, member)
        else:
            self._waiting.setdefault(member.load_balancer, {})[uid] = member
        return member

    def _drop(self, uid: Uid, member: _Member) -> None:
        """Ask a load balancer for this one no more."""
        waiting = self._waiting.get(member.load_balancer, {})
        waiting.pop(uid, None)
        if not waiting:
            self._waiting.pop(member.load_balancer, None)

    def _is_listed(self, record: BackendRecord) -> bool:
        driver = self._view.driver(record.driver_key)
        return isinstance(driver, LoadBalancerDriver) and driver.declares(
            Operation.LIST_BACKENDS
        )
