"""Somebody serves as long as somebody can.

S8 no load balancer is without a member in full service while a pod is ready and one that
was in, and is being deleted, can still serve.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, cast

from lbcf.core.model.names import ANNOTATION_DRAIN_GATE
from lbcf.wire.driver_answers import BackendState
from tests.kube.tiny_rules import Json, metadata_of, place_of
from tests.lab.sweep import objects
from tests.lab.sweep.faults import Trouble


if TYPE_CHECKING:
    from tests.lab.sweep.world import World

_UNSEEN = {Trouble.LAG, Trouble.GAP, Trouble.OLD, Trouble.AHEAD, Trouble.BACK}
"""Troubles in which a process cannot know that a pod is ready, or what time it is."""
_DRAIN = 30.0
"""Seconds that the groups of this sweep drain for at most."""
_SLACK = 5.0
"""Seconds for clocks that differ, and for the calls before a pod is killed."""


def told_to_end(metadata: Json) -> datetime | None:
    """Say when a pod that is being deleted is killed, or its hook gives up."""
    if "deletionTimestamp" not in metadata:
        return None
    killed = datetime.fromisoformat(str(metadata["deletionTimestamp"]))
    said = cast("Json", metadata.get("annotations") or {}).get(ANNOTATION_DRAIN_GATE)
    if said is None:
        return killed
    grace = cast("int", metadata["deletionGracePeriodSeconds"])
    return min(killed, killed + timedelta(seconds=float(str(said)) - grace))


class Serving:
    """Looks at who serves, once a play has asked for it."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._is_watching = False

    def watch(self) -> None:
        """Begin to look: there are members in full service."""
        self._is_watching = not any(t in _UNSEEN for t in self._world.troubles_planned)

    def look(self) -> None:
        """Tell if nobody serves although somebody could."""
        if not self._is_watching:
            return
        pods = [dict(pod) for pod in self._ready_pods()]
        fresh = [pod for pod in pods if not pod["ends"]]
        spare = [pod for pod in pods if pod["ends"] and self._can_serve(pod)]
        if fresh and spare and not any(self.is_in(str(p["address"])) for p in pods):
            names = " and ".join(str(pod["name"]) for pod in (fresh[0], spare[0]))
            self._world.fail(f"S8: nobody serves, and {names} could")

    def is_in(self, address: str) -> bool:
        """Tell whether an address is a member in full service."""
        found = self._world.balancer.find(address)
        return any(member.state is BackendState.ACTIVE for member in found)

    def _can_serve(self, pod: Json) -> bool:
        """Tell whether a pod that is being deleted can do without its drain for now."""
        ends = cast("datetime", pod["ends"])
        left = (ends - self._world.now()).total_seconds()
        return left > _SLACK + (_DRAIN if self._world.setting.drains else 0.0)

    def _ready_pods(self) -> Iterator[Json]:
        """Say which pods are ready, and until when they are there."""
        for path, whole in self._world.api.objects.items():
            if place_of(path).plural != "pods":
                continue
            metadata, status = metadata_of(whole), cast("Json", whole["status"])
            if objects.can_serve(whole):
                yield {
                    "name": metadata["name"],
                    "address": f"{status['podIP']}:80",
                    "ends": told_to_end(metadata),
                }
