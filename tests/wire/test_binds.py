"""Binds in JSON and back: as LBCF's documents write them, and as we do."""

import json

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from lbcf.core.model.binds import Bind, EntryStatus
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import PodSelection
from lbcf.core.model.selectors import Selector
from lbcf.core.model.values import EnsurePolicy, Port, Protocol, Repeat
from lbcf.core.reasons import Reason
from lbcf.wire.binds import parse_bind, render_statuses
from lbcf.wire.errors import Malformed


THEN = datetime(2020, 10, 10, 4, 28, 58, tzinfo=UTC)
DOCUMENTED: dict[str, Any] = {
    "metadata": {
        "name": "test",
        "namespace": "shop",
        "uid": "u-1",
        "resourceVersion": "7",
    },
    "spec": {
        "loadBalancers": [
            {
                "attributes": {"payment": "by-hour"},
                "driver": "lbcf-example-driver",
                "name": "foo-lb",
                "spec": {"lbID": "lb-foo", "listenerID": "lsn-foo"},
            }
        ],
        "parameters": {"weight": "100"},
        "pods": {
            "byLabel": {"selector": {"k8s-app": "test"}},
            "ports": [
                {"port": 8000, "protocol": "tcp"},
                {"port": 8000, "protocol": "udp"},
            ],
        },
        "ensurePolicy": {"policy": "Always", "resyncPeriodInSeconds": 10},
    },
    "status": {
        "loadBalancerStatuses": [
            {
                "conditions": [
                    {
                        "lastTransitionTime": "2020-10-10T04:28:58Z",
                        "status": "True",
                        "type": kind,
                    }
                    for kind in ("Created", "Ready")
                ],
                "deletionTimestamp": None,
                "driver": "lbcf-example-driver",
                "lastSyncedAttributes": {"payment": "by-hour"},
                "lbInfo": {"lbID": "lb-foo", "listenerID": "lsn-foo"},
                "name": "foo-lb",
                "retryAfter": None,
            }
        ]
    },
}
"""The example of LBCF's document, with the status that it shows."""


def read(**spec: object) -> Bind:
    """Read the documented Bind with another spec."""
    body = {**DOCUMENTED, "spec": {**DOCUMENTED["spec"], **spec}}
    return parse_bind(json.dumps(body).encode())


def test_documented_bind_is_read() -> None:
    """Protocols in lower case, the period in seconds, its status without generations."""
    bind = parse_bind(json.dumps(DOCUMENTED).encode())

    [entry] = bind.entries
    assert ("foo-lb", "lbcf-example-driver") == (entry.name, entry.driver)
    assert ({"payment": "by-hour"}, "lb-foo") == (entry.attributes, entry.spec["lbID"])
    ports = (Port(8000, Protocol.TCP), Port(8000, Protocol.UDP))
    selection = PodSelection(ports, selector=Selector({"k8s-app": "test"}))
    assert selection == bind.group.selection
    assert {"weight": "100"} == bind.group.parameters
    period = EnsurePolicy(Repeat.ALWAYS, timedelta(seconds=10))
    assert period == bind.group.ensure_policy
    assert ("foo-lb",) == bind.group.load_balancers
    assert "bind/test" == bind.group.meta.key.name
    [status] = bind.statuses
    assert status.is_ready
    assert (None, None) == (status.leaving_since, status.retry_after)
    assert entry.spec == status.info


@pytest.mark.parametrize(
    ("policy", "read_as"),
    [
        (None, EnsurePolicy()),
        ({"policy": "IfNotSucc", "resyncPeriodInSeconds": 20}, EnsurePolicy()),
        ({"policy": "Always"}, EnsurePolicy(Repeat.ALWAYS)),
    ],
)
def test_ensure_policies(policy: object, read_as: EnsurePolicy) -> None:
    """A period without Always means nothing, as in LBCF."""
    bind = read(ensurePolicy=policy)

    assert read_as == bind.group.ensure_policy


@pytest.mark.parametrize(
    "spec",
    [{"ensurePolicy": {"policy": "Never"}}, {"pods": {"ports": [{"port": 80}]}}],
)
def test_nonsense_is_malformed(spec: dict[str, object]) -> None:
    """What the schema lets nobody write is not guessed at."""
    with pytest.raises(Malformed):
        read(**spec)


def test_pause_keeps_its_part_of_a_second() -> None:
    """It is written in the first whole second after it: nobody is asked too early."""
    pause = timedelta(seconds=9, microseconds=1)
    status = EntryStatus("front", "proxy", retry_after=THEN + pause)
    body = {**DOCUMENTED, **render_statuses([status])}

    (read_again,) = parse_bind(json.dumps(body).encode()).statuses

    assert THEN + timedelta(seconds=10) == read_again.retry_after


def test_status_is_read_as_it_was_written() -> None:
    """Nothing is lost on the way."""
    condition = Condition("Ready", False, Reason.ENSURING, "why", 0, THEN)
    full = EntryStatus(
        "front",
        "proxy",
        spec={"id": "1"},
        info={"arn": "7"},
        synced={},
        leaving_since=THEN,
        retry_after=THEN + timedelta(seconds=9),
        epoch="e-1",
        conditions=(condition,),
    )
    for status in (full, EntryStatus("front", "proxy"), attrs.evolve(full, info=None)):
        body = {**DOCUMENTED, **render_statuses([status])}

        assert (status,) == parse_bind(json.dumps(body).encode()).statuses
