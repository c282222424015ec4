"""Tables in a narrow terminal, and texts that would steer it."""

import attrs

from lbcf.ctl.drains import drains_report
from tests.builders import a_spec
from tests.ctl.readings import NOW, a_draining_record, a_reading, bare_reading, text_of


def test_only_the_last_column_is_folded_at_eighty() -> None:
    """Names can be copied; the words behind them take a second line."""
    reading = a_reading(a_draining_record())
    lines = text_of(drains_report(reading, NOW), width=72).splitlines()

    assert lines[1].startswith("web-1:8080  front  10.0.0.1:8080  1m     in 30s")
    assert ["connections to", "end"] == [line[58:].strip() for line in lines[1:]]


def test_texts_of_others_cannot_steer_the_terminal() -> None:
    """Sequences of a driver, or of a namesake's address, are taken out of what is shown."""
    said = "x\x1b[2J\x1b]0;root\x07\u202ey"
    record = attrs.evolve(a_draining_record(), spec=a_spec(load_balancer=said))

    shown = text_of(drains_report(bare_reading(record), NOW))

    assert "xy" in shown
    assert not set(shown) & set("\x1b\x07\u202e")
