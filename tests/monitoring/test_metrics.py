"""The metrics that there are, and the page about them."""

import pytest

from lbcf.kube.informer import Informer
from tests.monitoring.page import PAGE, with_table
from tests.monitoring.registries import a_host, all_families


async def test_page_has_every_metric_and_no_other() -> None:
    """After a change, `python -m tests.monitoring` writes the table anew."""
    page = PAGE.read_text()

    assert with_table(page, await all_families()) == page


async def test_times_are_in_seconds_and_counters_say_total() -> None:
    """As Prometheus names things."""
    families = await all_families()
    times = [
        f.name
        for f in families
        if (f.kind == "histogram" or "age" in f.name) and not f.name.endswith("_items")
    ]

    assert [] == [name for name in times if not name.endswith("_seconds")]
    assert [] == [f.name for f in families if f.text == ""]


@pytest.mark.parametrize("process", ["controller", "deregistrar"])
async def test_watches_show_how_long_they_are_silent(process: str) -> None:
    """From the first sign of life on; what is held and what is unreadable always."""
    async with a_host(process) as host:
        assert host.program is not None
        informer = host.program.informers[0]
        assert isinstance(informer, Informer)
        labels = {"resource": informer.resource.plural}
        before = host.registry.get_sample_value("lbcf_watch_silence_seconds", labels)
        informer.last_heard = 0.0
        after = host.registry.get_sample_value("lbcf_watch_silence_seconds", labels)

        assert before is None
        assert after is not None
        assert 0 == host.registry.get_sample_value("lbcf_objects_unreadable", labels)
