"""Records: what is written is read again; patches say exactly what changes."""

from collections.abc import Mapping
from typing import Any

import attrs
import msgspec
import pytest

from hypothesis import given
from hypothesis import strategies as st

from lbcf.core.model import names
from lbcf.core.model.conditions import Condition, with_condition
from lbcf.core.model.node_backends import NodeRef, ServiceRef
from lbcf.core.model.resources import (
    Backend,
    BackendRecord,
    DrainProgress,
    PodRef,
    RecordSpec,
    RecordStatus,
    StaticRef,
)
from lbcf.core.model.values import (
    NO_DRAIN,
    DrainPolicy,
    EnsurePolicy,
    Port,
    Protocol,
    Repeat,
    Uid,
)
from lbcf.core.reasons import ForeignReason
from lbcf.core.selection.desired import DesiredRecord
from lbcf.wire.errors import Malformed
from lbcf.wire.metadata import render_finalizer_removed
from lbcf.wire.records import (
    parse_record,
    render_new_record,
    render_settling,
    render_spec_update,
    render_status_update,
)
from tests.builders import (
    ALWAYS,
    START,
    a_backend,
    a_group,
    a_meta,
    a_record,
    a_spec,
    seconds,
)


NAMED = {"name": "web-1", "namespace": "shop", "uid": "u", "resourceVersion": "7"}
OLD: dict[str, Any] = {
    "lbName": "front",
    "lbDriver": "proxy",
    "lbInfo": {"id": "front"},
    "lbAttributes": None,
    "parameters": None,
    "podBackend": {"name": "web-1", "port": {"portNumber": 80, "protocol": "TCP"}},
    "ensurePolicy": None,
}
"""The spec of a record as LBCF in Go writes it."""

MAPS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))
MOMENTS = st.integers(0, 10**6).map(lambda n: START + seconds(n))
CONDITIONS = st.builds(
    Condition,
    type=st.sampled_from(("Registered", "Drained")),
    status=st.sampled_from((True, False, None)),
    reason=st.just("Because"),
    message=st.text(max_size=5),
    observed_generation=st.integers(0, 9),
    since=MOMENTS,
)
STATUSES = st.builds(
    RecordStatus,
    address=st.sampled_from(("", "a:1")),
    injected_info=MAPS,
    conditions=st.lists(CONDITIONS, max_size=2).map(tuple),
    ensuring=st.sampled_from(("", "*", "me")),
    drain=st.none()
    | st.builds(DrainProgress, MOMENTS, MOMENTS, st.none() | st.integers(0, 9)),
    next_attempt=st.none() | MOMENTS,
    backend_gone=st.booleans(),
)
SPECS = st.builds(
    RecordSpec,
    load_balancer=st.just("front"),
    driver=st.just("proxy"),
    lb_info=MAPS,
    backend=st.sampled_from(
        (
            a_backend(),
            a_backend(port=Port(53, Protocol.UDP)),
            StaticRef("[2001:db8::7]:80"),
        )
    ),
    lb_attributes=MAPS,
    parameters=MAPS,
    ensure_policy=st.just(EnsurePolicy())
    | st.builds(
        EnsurePolicy,
        st.just(Repeat.ALWAYS),
        st.integers(30 * 10**6, 10**8).map(lambda n: seconds(n / 10**6)),
    ),
    address=st.sampled_from(("", "a:1")),
    drain=st.just(NO_DRAIN)
    | st.integers(0, 86400).map(lambda n: DrainPolicy(True, seconds(n))),
    host=st.sampled_from(("", "192.0.2.1")),
    node_uid=st.sampled_from(("", "uid-n1")),
)


def read(
    spec: Mapping[str, Any], status: object = None, **meta: object
) -> BackendRecord:
    """Read a record."""
    whole: dict[str, object] = {"metadata": {**NAMED, **meta}, "spec": spec}
    if status is not None:
        whole["status"] = status
    return parse_record(msgspec.json.encode(whole))


def merged(target: object, patch: object) -> object:
    """Apply a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def patched(body: object, patch: object) -> BackendRecord:
    """Read what a patch makes of an object."""
    return parse_record(msgspec.json.encode(merged(body, patch)))


def new_body(spec: RecordSpec) -> dict[str, Any]:
    """Write a new record and give it what the API server adds."""
    desired = DesiredRecord(a_group(), spec, spec.address, ("web-1", 8080))
    body: Any = render_new_record(desired, "web-1")
    body["metadata"].update(uid="uid-web-1", resourceVersion="1", generation=1)
    return dict(body)


# --- round trips ------------------------------------------------------------------


@given(SPECS)
def test_new_record_is_read_as_it_was_meant(spec: RecordSpec) -> None:
    """The spec survives, so that the next plan finds nothing to update."""
    found = patched(new_body(spec), {})

    assert spec == found.spec
    assert RecordStatus() == found.status
    assert found.is_held


@given(SPECS, SPECS)
def test_spec_update_leads_from_any_spec_to_any_other(
    before: RecordSpec, after: RecordSpec
) -> None:
    """Keys that are gone are gone; the identity stays."""
    after = attrs.evolve(
        after,
        lb_info=before.lb_info,
        backend=before.backend,
        address=before.address,
        host=before.host,
        node_uid=before.node_uid,
    )
    body = new_body(before)

    update = render_spec_update(patched(body, {}), after)

    assert after == patched(body, update).spec


@given(STATUSES, STATUSES)
def test_status_update_leads_from_any_status_to_any_other(
    before: RecordStatus, after: RecordStatus
) -> None:
    """What is dropped is dropped on the server, too."""
    first = merged(
        new_body(a_spec()),
        render_status_update(a_record(), before),
    )
    assert before == patched(first, {}).status

    update = render_status_update(
        a_record(status=before, ensuring=before.ensuring), after
    )

    assert after == patched(first, update).status


@given(STATUSES)
def test_same_status_is_an_empty_patch(status: RecordStatus) -> None:
    """It changes nothing on the server, not even the version."""
    record = a_record(status=status, ensuring=status.ensuring)

    assert {"status": {}} == render_status_update(record, status)


def test_patch_touches_only_what_differs() -> None:
    """Fields that a newer version of us added survive."""
    status = attrs.evolve(a_record().status, ensuring="me")

    assert {"status": {"ensuring": "me"}} == render_status_update(a_record(), status)


def test_map_is_replaced_key_by_key() -> None:
    """A merge patch keeps what it does not name: keys that go must be null."""
    before = a_record(status=RecordStatus(injected_info={"a": "1", "b": "2"}))
    after = RecordStatus(injected_info={"b": "3"})

    expected = {"status": {"injectedInfo": {"a": None, "b": "3"}}}
    assert expected == render_status_update(before, after)


def test_empty_map_is_taken_out_whole() -> None:
    """Null instead of a map of nulls."""
    before = a_record(spec=a_spec(parameters={"a": "1"}))

    assert {"spec": {"parameters": None}} == render_spec_update(before, a_spec())


def test_spec_update_names_only_what_may_change() -> None:
    """Identity and address are not in it, however they differ."""
    other = a_spec(address="other:1", load_balancer="other", ensure_policy=ALWAYS)

    update = render_spec_update(a_record(), other)

    expected = {"policy": "Always", "minPeriod": "60s"}
    assert {"spec": {"ensurePolicy": expected}} == update


# --- creating and letting go --------------------------------------------------------


def test_new_record_has_finalizer_owner_and_labels_from_the_start() -> None:
    """Nothing is registered before all that undoes it is in place."""
    body = new_body(a_spec(drain_timeout=seconds(30)))

    meta = body["metadata"]
    assert [names.FINALIZER_RECORD] == meta["finalizers"]
    (owner,) = meta["ownerReferences"]
    assert ("BackendGroup", "web", "uid-web") == (
        owner["kind"],
        owner["name"],
        owner["uid"],
    )
    assert owner["controller"]
    assert owner["blockOwnerDeletion"]
    assert "web-1" == meta["labels"][names.LABEL_POD]
    assert ("shop", "web-1") == (meta["namespace"], meta["name"])


def test_empty_fields_are_left_out() -> None:
    """What is not said is not written."""
    body = new_body(a_spec(address=""))

    assert {"lbName", "lbDriver", "lbInfo", "podBackend"} == body["spec"].keys()


@pytest.mark.parametrize(
    ("backend", "body"),
    [
        pytest.param(
            ServiceRef("web", Port(80), 30080, "n1"),
            {
                "serviceBackend": {
                    "name": "web",
                    "port": {"port": 80, "protocol": "TCP"},
                    "nodePort": 30080,
                    "nodeName": "n1",
                }
            },
            id="service",
        ),
        pytest.param(
            NodeRef("n1", Port(53, Protocol.UDP)),
            {"nodeBackend": {"name": "n1", "port": {"port": 53, "protocol": "UDP"}}},
            id="node",
        ),
    ],
)
def test_backends_on_nodes_are_written_and_read(
    backend: Backend, body: dict[str, object]
) -> None:
    """What is written of one is read as the same."""
    written = new_body(a_spec(backend=backend))["spec"]

    assert body == {k: v for k, v in written.items() if k in body}
    assert backend == read(written).spec.backend


def test_release_takes_our_finalizer_alone() -> None:
    """Others hold the object for reasons of their own."""
    meta = a_meta("web-1", finalizers=("other/a", names.FINALIZER_RECORD, "other/b"))

    expected = {"metadata": {"finalizers": ["other/a", "other/b"]}}
    assert expected == render_finalizer_removed(meta, names.FINALIZER_RECORD)


# --- reading what others wrote --------------------------------------------------------


def test_record_of_lbcf_in_go_is_read() -> None:
    """Old names of fields, nulls, and no uid of the pod."""
    status = {
        "backendAddr": "10.0.0.1:80",
        "injectedInfo": None,
        "conditions": [
            {
                "type": "Registered",
                "status": "True",
                "lastTransitionTime": None,
                "reason": "",
                "message": "",
            }
        ],
    }

    found = read(OLD, status)

    assert PodRef("web-1", Uid(""), Port(80)) == found.spec.backend
    assert (NO_DRAIN, EnsurePolicy()) == (
        found.spec.drain,
        found.spec.ensure_policy,
    )
    assert "10.0.0.1:80" == found.address
    assert (
        Condition("Registered", True, ForeignReason("")) == found.status.conditions[0]
    )


def test_record_without_a_status_is_new() -> None:
    """So is one whose status is empty."""
    assert RecordStatus() == read(OLD).status == read(OLD, {}).status
    assert RecordStatus() == read(OLD, {"conditions": None}).status


def test_unknown_fields_do_not_matter() -> None:
    """A newer version of us may have written them."""
    found = read({**OLD, "later": {"a": [1]}}, {"later": True}, later="x")

    assert read(OLD) == found


def test_unknown_condition_status_is_neither_true_nor_false() -> None:
    """As the API conventions say."""
    found = read(OLD, {"conditions": [{"type": "Registered", "status": "Unknown"}]})

    assert None is found.status.conditions[0].status


@pytest.mark.parametrize(
    ("port", "number"),
    [
        ({"port": 80}, 80),
        ({"portNumber": 80}, 80),
        ({"port": 80, "portNumber": 81}, 80),
        ({"port": 0, "portNumber": 81}, 81),
    ],
)
def test_port_is_read_in_either_spelling(port: dict[str, int], number: int) -> None:
    """The new one counts where both are set; 0 is how Go writes an unset one."""
    found = read({**OLD, "podBackend": {"name": "web-1", "port": port}})

    assert PodRef("web-1", Uid(""), Port(number)) == found.spec.backend


@pytest.mark.parametrize("protocol", ["udp", "UDP", "Udp"])
def test_protocol_is_read_in_any_case(protocol: str) -> None:
    """LBCF's Bind spells them small."""
    port = {"port": 53, "protocol": protocol}

    found = read({**OLD, "podBackend": {"name": "web-1", "port": port}})

    assert a_backend(port=Port(53, Protocol.UDP)).port == getattr(
        found.spec.backend, "port", None
    )


def test_service_backend_of_lbcf_in_go_is_read() -> None:
    """It writes the port under its old name."""
    spec = {k: v for k, v in OLD.items() if k != "podBackend"}
    port = {"portNumber": 80, "protocol": "TCP"}
    old = {"name": "web", "port": port, "nodePort": 30080, "nodeName": "n1"}

    found = read({**spec, "serviceBackend": old})

    assert ServiceRef("web", Port(80), 30080, "n1") == found.spec.backend


def test_group_is_the_controlling_owner() -> None:
    """A record without one belongs to nobody."""
    owner = {"kind": "BackendGroup", "name": "web", "uid": "u2", "controller": True}
    owned, orphan = read(OLD, ownerReferences=[owner]), read(OLD)

    assert (("shop", "web"), "u2") == (owned.group, owned.group_uid)
    assert (None, "") == (orphan.group, orphan.group_uid)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"podBackend": None}, "names none of podBackend, staticAddr"),
        ({"podBackend": {"name": "a", "port": {}}}, "neither port nor portNumber"),
        (
            {"podBackend": {"name": "a", "port": {"port": 1, "protocol": "SCTP"}}},
            "'SCTP' is neither TCP nor UDP",
        ),
        ({"ensurePolicy": {"policy": "Never"}}, "'Never' is unknown"),
        (
            {"ensurePolicy": {"policy": "Always", "minPeriod": "soon"}},
            "'soon' is not a duration",
        ),
        ({"lbName": None}, "lbName"),
        ({"lbInfo": {"id": 7}}, "lbInfo"),
    ],
)
def test_record_that_cannot_be_read_says_why(
    change: dict[str, object], message: str
) -> None:
    """People find the field by the message."""
    with pytest.raises(Malformed, match=message):
        read({**OLD, **change})


def test_period_means_nothing_without_always() -> None:
    """It must not make a record differ from its group for ever."""
    found = read({**OLD, "ensurePolicy": {"policy": "IfNotSucc", "minPeriod": "45s"}})

    assert EnsurePolicy() == found.spec.ensure_policy


def test_moments_are_written_in_utc() -> None:
    """Whatever zone they were read in."""
    found = read(OLD, {"nextAttempt": "2026-01-01T02:00:00+02:00"})
    after = attrs.evolve(
        found.status, ensuring="me", next_attempt=found.status.next_attempt
    )

    patch = render_status_update(a_record(), after)

    assert patch["status"] == {"ensuring": "me", "nextAttempt": "2026-01-01T00:00:00Z"}


def test_condition_without_a_time_is_written_back_without_one() -> None:
    """The API server refuses null there, and with it all that is said beside it."""
    found = read(OLD, {"conditions": [{"type": "Registered", "status": "True"}]})
    drained = Condition("Drained", True, ForeignReason(""))
    said = with_condition(found.status.conditions, drained, START)

    body: Any = render_status_update(found, attrs.evolve(found.status, conditions=said))

    assert "lastTransitionTime" not in body["status"]["conditions"][0]


def test_what_is_waited_for_is_written_in_the_second_after_it() -> None:
    """Rounded down, a drain of a second could be over in a millisecond."""
    began = START + seconds(0.999)
    drain = DrainProgress(began, began + seconds(1), None)
    before = patched(new_body(a_spec()), {})
    status = RecordStatus(drain=drain, next_attempt=began)

    body: Any = render_status_update(before, status)

    assert "2026-01-01T00:00:00Z" == body["status"]["drain"]["startedAt"]
    assert "2026-01-01T00:00:02Z" == body["status"]["drain"]["deadline"]
    assert "2026-01-01T00:00:01Z" == body["status"]["nextAttempt"]


@pytest.mark.parametrize(
    ("settling", "said"), [(25.0, {}), (15.0, {names.ANNOTATION_SETTLING: "15"})]
)
def test_new_record_says_how_long_its_ensure_may_take_effect(
    settling: float, said: dict[str, str]
) -> None:
    """Where that is not the usual time, which needs no word."""
    desired = DesiredRecord(
        a_group(), a_spec(), "a:1", ("web-1", 8080), seconds(settling)
    )
    body: Any = render_new_record(desired, "web-1")
    body["metadata"].update(uid="uid-web-1", resourceVersion="1", generation=1)

    record = patched(body, {})

    assert (said, seconds(settling)) == (record.meta.annotations, record.settling)
    slower = patched(body, render_settling(seconds(75)))
    assert seconds(75) == slower.settling
    assert seconds(25) == patched(body, render_settling(seconds(25))).settling
