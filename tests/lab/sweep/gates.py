"""Readiness gates: opened once registered, never closed, and never shut for ever.

S9 a gate opens after each record that its pod should have was registered, unless its time was
over or what is wanted is optional; S10 an open gate is never written again, and who has one stays in
as long as somebody wants him there.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

from lbcf.core.model.names import READINESS_GATE
from lbcf.core.reasons import Reason
from tests.kube.tiny_rules import Json, metadata_of, place_of
from tests.lab.sweep import objects
from tests.lab.sweep.seen import Seen


if TYPE_CHECKING:
    from tests.lab.sweep.world import World


_SEEN = 0.3
"""Seconds until a kubelet sees that a gate is open."""


class Gates:
    """Looks at gates.

    Attributes:
        on_ready: told the name of each pod whose gate is open, when it is Ready.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self._was_in: set[tuple[str, str, str]] = set()
        self._gated: set[str] = set()
        self.on_ready: Callable[[str], None] = lambda _name: None

    def stored(self, before: Seen | None, seen: Seen) -> None:
        """Note who is in, and tell of one who is taken out although he is wanted."""
        key = (seen.group, seen.lb_name, seen.backend)
        if seen.is_in:
            self._was_in.add(key)
        was_live = before is not None and not before.is_deleting
        if not (was_live and seen.is_deleting and self._world.is_faultless):
            return
        if seen.backend.partition("/")[0] in self._gated and key in self._wanted():
            self._world.fail(f"S10: {seen.name} goes, and its pod is wanted there")

    def _wanted(self) -> set[tuple[str, str, str]]:
        return set(self._world.wanted())

    def pod_changed(self, before: Json, after: Json | None) -> None:
        """Look at a gate that opens."""
        old = objects.pod_condition(before, READINESS_GATE)
        if after is None:
            return
        new = objects.pod_condition(after, READINESS_GATE)
        name = str(metadata_of(after)["name"])
        if old and new != old:
            self._world.fail(f"S10: the open gate of {name} was written again: {new}")
        if old or not new:
            return
        self._gated.add(name)
        if new["reason"] in {Reason.ALL_REGISTERED, Reason.NO_GROUP_SELECTS}:
            self._check_in(f"{name}/{metadata_of(after)['uid']}")
        self._world.later(_SEEN, self._see, name)

    def _check_in(self, backend: str) -> None:
        due = {key for key in self._wanted() if key[2] == backend}
        if missing := due - self._was_in:
            self._world.fail(f"S9: a gate is open before {missing} were registered")

    def _see(self, name: str) -> None:
        """Let the kubelet see it; then the rollout goes on."""
        self._world.see_gate(name)
        self.on_ready(name)

    def shut(self) -> Iterator[str]:
        """Say which gates are still shut."""
        for path, whole in self._world.api.objects.items():
            if place_of(path).plural != "pods" or not objects.can_serve(whole):
                continue
            spec = cast("Json", whole.get("spec") or {})
            if metadata_of(whole).get("deletionTimestamp"):
                continue
            if "readinessGates" not in spec:
                continue
            if not objects.pod_condition(whole, READINESS_GATE):
                yield f"the gate of {metadata_of(whole)['name']} is shut"
