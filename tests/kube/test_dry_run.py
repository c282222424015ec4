"""Writes that are imagined: nothing but reading reaches the API server."""

import pytest

from prometheus_client import CollectorRegistry

from lbcf.kube.client import KubeClient
from lbcf.kube.dry_run import DryRunTransport
from lbcf.kube.errors import NotFound
from lbcf.runtime.metrics import DrySteps
from tests.fakes.clock import VirtualClock
from tests.kube.builders import CONFIG_MAPS, key
from tests.kube.tiny_api import TinyApi


HELD = {"metadata": {"name": "a", "finalizers": ["test/held"]}}
STEP = "lbcf_dry_run_steps_total"


class Bench:
    """A client that imagines its writes, one that does not, and what was told."""

    def __init__(self) -> None:
        self.api = TinyApi()
        self.registry = CollectorRegistry()
        exchange = DryRunTransport(self.api, VirtualClock(), DrySteps(self.registry))
        self.dry, self.real = KubeClient(exchange), KubeClient(self.api)

    def told(self, step: str) -> float | None:
        """How often a step was told of."""
        labels = {"step": step, "target": "configmaps"}
        return self.registry.get_sample_value(STEP, labels)


async def test_whole_life_writes_nothing() -> None:
    """Created, changed, deleted, let go: each is told once, and only reads are sent."""
    bench = Bench()
    made = await bench.dry.create(CONFIG_MAPS, "shop", HELD)
    await bench.dry.patch(CONFIG_MAPS, key("a"), {"data": {"x": "1"}}, cas=made.meta)
    ending = await bench.dry.delete(CONFIG_MAPS, key("a"))
    assert ending is not None
    assert ending.meta.deleting_since is not None
    free: dict[str, object] = {"metadata": {"finalizers": []}}
    await bench.dry.patch(CONFIG_MAPS, key("a"), free, cas=ending.meta)

    with pytest.raises(NotFound):
        await bench.dry.get(CONFIG_MAPS, key("a"))
    assert (1, 2, 1) == tuple(
        bench.told(step) for step in ("would_create", "would_patch", "would_delete")
    )
    assert {"GET"} == {request.split()[0] for request in bench.api.requests}
    assert {} == bench.api.objects


async def test_real_object_is_read_as_it_would_be_until_it_changes() -> None:
    """What somebody really writes goes before what was imagined."""
    bench = Bench()
    await bench.real.create(CONFIG_MAPS, "shop", HELD)
    imagined = await bench.dry.delete(CONFIG_MAPS, key("a"))
    assert imagined is not None
    assert imagined.meta == (await bench.dry.get(CONFIG_MAPS, key("a"))).meta

    real = await bench.real.patch(CONFIG_MAPS, key("a"), {"data": {"x": "1"}})

    assert real.meta == (await bench.dry.get(CONFIG_MAPS, key("a"))).meta
    assert None is real.meta.deleting_since


async def test_real_object_without_finalizers_would_be_gone() -> None:
    """It is there all the same."""
    bench = Bench()
    await bench.real.create(CONFIG_MAPS, "shop", {"metadata": {"name": "a"}})

    assert None is await bench.dry.delete(CONFIG_MAPS, key("a"))

    with pytest.raises(NotFound):
        await bench.dry.get(CONFIG_MAPS, key("a"))
    assert key("a") == (await bench.real.get(CONFIG_MAPS, key("a"))).meta.key
