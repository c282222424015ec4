"""Nodes of all processes share places."""

import threading

from pathlib import Path

import pytest

from tests.lab.cluster import places
from tests.patience import PATIENCE


def test_who_finds_too_few_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And keeps none of them meanwhile: who needs fewer goes first."""
    seen: list[str] = []
    waits = threading.Event()
    monkeypatch.setattr("time.sleep", lambda _seconds: waits.set())

    def take_all() -> None:
        with places.places(tmp_path, places.MOST + 1):
            seen.append("all")

    later = threading.Thread(target=take_all)
    with places.places(tmp_path, 1):
        later.start()
        assert waits.wait(PATIENCE)
        with places.places(tmp_path, 1):
            seen.append("one more")
    later.join(PATIENCE)

    assert ["one more", "all"] == seen


def test_no_nodes_need_no_place(tmp_path: Path) -> None:
    """Control planes alone are not counted."""
    with places.places(tmp_path, places.MOST), places.places(tmp_path, 0):
        pass
