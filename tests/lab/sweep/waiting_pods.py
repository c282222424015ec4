"""Pods that are told to end when no record names them: as early as that could be.

The waiter itself is not in this world. At each step a pod that is being deleted, and that
no record in the API server names, counts as told to end: no quorum LIST could answer it
sooner. From then on none of its members may be in (S11).

A hook waits for so long at most as its pod's annotation says; then the pod is told to end
whatever is still in. Where nothing fails it gets nothing new by then.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from lbcf.core.model.names import ANNOTATION_DRAIN_GATE
from lbcf.wire.driver_answers import BackendState
from tests.kube.tiny_rules import Json, metadata_of


if TYPE_CHECKING:
    from tests.lab.sweep.world import World


class WaitingPods:
    """Tells pods to end, and looks at what comes after that."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._waiting: set[str] = set()
        self._told: set[str] = set()
        self._begun: set[str] = set()

    def pod_changed(self, after: Json | None) -> None:
        """Let a pod that is being deleted wait."""
        metadata = {} if after is None else metadata_of(after)
        said = cast("Json", metadata.get("annotations") or {})
        if ANNOTATION_DRAIN_GATE in said and metadata.get("deletionTimestamp"):
            self._begin(f"{metadata['name']}/{metadata['uid']}", said)

    def _begin(self, backend: str, said: Mapping[str, object]) -> None:
        """Let a pod's hook begin, if it has not, and give up when its time is over."""
        if backend not in self._begun:
            self._begun.add(backend)
            self._waiting.add(backend)
            limit = float(str(said[ANNOTATION_DRAIN_GATE]))
            self._world.later(limit, self._give_up, backend)

    def _give_up(self, backend: str) -> None:
        """Tell a pod to end that records still name."""
        oracle = self._world.oracle
        for seen in oracle.records.values():
            member = oracle.member_of(seen) if seen.backend == backend else None
            is_served = member is not None and member.state is BackendState.ACTIVE
            if is_served and self._world.is_faultless:
                said = f"S11: {backend} waits no longer, and gets new requests"
                self._world.fail(said)

    def look(self) -> None:
        """Tell pods to end that no record names; their members are out for good."""
        oracle = self._world.oracle
        named = {seen.backend for seen in oracle.records.values()}
        self._told |= self._waiting - named
        self._waiting &= named
        for seen in oracle.records.values():
            if seen.backend in self._told and oracle.member_of(seen) is not None:
                self._world.fail(f"S11: {seen.backend} was told to end, and is in")
