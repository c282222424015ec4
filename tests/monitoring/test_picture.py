"""The picture of the dashboard in the docs is one of the dashboard as it is."""

import html
import re

import pytest

from tests.manifests.documents import ROOT
from tests.monitoring.answers import panels
from tests.monitoring.server import ReviewMetrics
from tests.monitoring.units import spelled


PICTURE = ROOT / "docs" / "pictures" / "dashboard.svg"


def test_picture_has_every_panel() -> None:
    """After a change, `make pictures` draws it anew."""
    found = re.findall(r">([^<]+)</text>", PICTURE.read_text("utf-8"))
    texts = {html.unescape(text).removeprefix("▾ ") for text in found}

    assert [] == [panel["title"] for panel in panels() if panel["title"] not in texts]


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0, "s", "0 s"),
        (0.0004, "s", "400 µs"),
        (1, "s", "1 s"),
        (90, "s", "1.5 min"),
        (3600, "s", "1 h"),
        (60 * 2**20, "bytes", "60 MiB"),
        (0, "bytes", "0 B"),
        (0.25, "ops", "0.25 ops/s"),
        (12_000, "short", "12 K"),
        (7, "short", "7"),
    ],
)
def test_numbers_are_spelled_in_their_unit(
    value: float, unit: str, expected: str
) -> None:
    """In the largest one of which there is one; small parts of what counts stay parts."""
    assert expected == spelled(value, unit)


def test_legend_takes_its_labels() -> None:
    """As Grafana fills them in: one that is missing leaves nothing."""
    series = ReviewMetrics({"driver": "shop/edge"}, ())

    assert "99 %, shop/edge" == series.called("99 %, {{driver}}")
    assert "shop/edge " == series.called("{{ driver }} {{outcome}}")
