"""Tables in a narrow terminal, and texts that would steer it."""

import attrs

from lbcf.core.model import conditions
from lbcf.core.model.values import Port
from lbcf.core.reasons import Reason
from lbcf.ctl.drains import drains_report
from lbcf.ctl.status import status_report
from tests.builders import a_backend, a_driver, a_spec
from tests.ctl.readings import NOW, a_draining_record, a_reading, bare_reading, text_of
from tests.ctl.test_records import a_status


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


def test_addresses_are_never_broken_inside_a_port() -> None:
    """Nor inside an address of IP; a URL takes a second line at a sign of its own."""
    url = "https://198.51.100.10:18443/loadbalancers/of/this/make"
    long = attrs.evolve(a_driver("proxy-of-many-words", version=2), url=url)
    host = "http://proxy.a-namespace-of-many-words.svc.cluster.local:18080"
    other = attrs.evolve(a_driver("other", version=2), url=host)
    six = attrs.evolve(a_driver("six", version=2), url="https://[2001:db8::1]:18443")
    refused = a_status(conditions.ACCEPTED, Reason.DRIVER_REFUSES_CERTIFICATE)
    drivers = [
        attrs.evolve(one, conditions=refused.conditions) for one in (long, other, six)
    ]
    told = text_of(status_report(bare_reading(*drivers), (), NOW), width=80)
    table = told[told.index("\nDRIVER ") :]

    assert 80 >= max(map(len, table.splitlines()))
    assert table.count(":18443") == 2
    for part in ("198.51.100.10", "[2001:db8::1]", ":18080"):
        assert part in table


def test_backends_and_their_addresses_keep_their_ports() -> None:
    """At the width of a small terminal, with long names of all else."""
    pod = a_backend("web-with-a-long-name-6f7d8c5b9c-2xkqp", port=Port(18443))
    spec = a_spec(
        address="198.51.100.101:18080",
        load_balancer="a-load-balancer-of-a-long-name",
        backend=pod,
    )
    leaving = attrs.evolve(a_draining_record(), spec=spec)
    told = text_of(drains_report(a_reading(leaving), NOW), width=80)

    assert 80 >= max(map(len, told.splitlines()))
    for part in ("198.51.100.101", ":18080", ":18443"):
        assert part in told
