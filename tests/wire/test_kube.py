"""Pods and metadata: read narrowly, and never guessed at."""

from datetime import timedelta

import msgspec
import pytest

from lbcf.core.model.cluster import Pod
from lbcf.core.model.values import NamedPort, Protocol
from lbcf.wire.errors import Malformed
from lbcf.wire.kube import parse_pod, parse_secret, render_gate
from lbcf.wire.metadata import ObjectMeta, Owner
from tests.builders import START, a_key, a_pod


META = {
    "name": "web-1",
    "namespace": "shop",
    "uid": "uid-web-1",
    "resourceVersion": "1",
    "generation": 1,
    "labels": {"app": "web"},
}
READY = {"type": "Ready", "status": "True"}


def pod(**status: object) -> Pod:
    """Read a pod of a status."""
    return parse_pod(msgspec.json.encode({"metadata": META, "status": status}))


def meta(**fields: object) -> ObjectMeta:
    """Read metadata with more in it."""
    return msgspec.convert({**META, **fields}, ObjectMeta)


def test_ready_pod_is_read() -> None:
    """Unknown fields and other conditions do not matter."""
    found = pod(
        phase="Running",
        podIP="10.0.0.1",
        podIPs=[{"ip": "10.0.0.1"}],
        conditions=[{"type": "Initialized", "status": "False"}, READY],
    )

    assert a_pod() == found


def test_named_ports_of_containers_are_read() -> None:
    """The first of a name counts; sidecars come last, and SCTP is nobody's."""
    ports = [
        {"name": "http", "containerPort": 8080},
        {"name": "http", "containerPort": 8081},
        {"name": "http", "containerPort": 53, "protocol": "UDP"},
        {"name": "signal", "containerPort": 1, "protocol": "SCTP"},
        {"containerPort": 9},
    ]
    sidecar = {"restartPolicy": "Always", "ports": [{"name": "m", "containerPort": 7}]}
    once = {"ports": [{"name": "setup", "containerPort": 6}]}
    spec = {"containers": [{"ports": ports}], "initContainers": [sidecar, once]}
    found = parse_pod(msgspec.json.encode({"metadata": META, "spec": spec}))

    assert found.ports == {
        NamedPort("http"): 8080,
        NamedPort("http", Protocol.UDP): 53,
        NamedPort("m"): 7,
    }


def slept(*hooks: object, **spec: object) -> timedelta | None:
    """Read a pod whose containers have these preStop hooks, and return its sleep."""
    containers = [{"lifecycle": {"preStop": hook}} for hook in hooks]
    whole = {"containers": [*containers, {}, {"lifecycle": {}}], **spec}
    raw = msgspec.json.encode({"metadata": META, "spec": whole})
    return parse_pod(raw).pre_stop


def runs(*command: str) -> object:
    """Return a hook that runs a command."""
    return {"exec": {"command": command}}


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        ({"sleep": {"seconds": 5}}, 5),
        (runs("sleep", "15"), 15),
        (runs("/bin/sleep", "2.5s"), 2.5),
        (runs("/bin/sh", "-c", "sleep 5"), 5),
        (runs("bash", "-c", " sleep 5; nginx -s quit"), 5),
        (runs("sh", "-c", "sleep 5 && kill 1"), 5),
        (runs("sh", "-c", "sleep 5m"), None),
        (runs("sh", "-c", "nginx -s quit; sleep 5"), None),
        (runs("sh", "-c", "sleep $WAIT"), None),
        (runs("/lbcf-wait"), None),
        (runs(), None),
        ({"httpGet": {"port": 80}}, None),
        ({}, None),
    ],
)
def test_sleep_of_a_pre_stop_hook_is_read(hook: object, expected: float | None) -> None:
    """What a hook does first is known if it is to sleep; nothing is guessed."""
    found = slept(hook)
    assert expected == (None if found is None else found.total_seconds())


def test_shortest_sleep_of_all_containers_counts() -> None:
    """Each gets its own SIGTERM; the grace period ends them all."""
    hooks = ({"sleep": {"seconds": 60}}, {"sleep": {"seconds": 40}}, runs("other"))

    assert timedelta(seconds=30) == slept(*hooks)
    assert timedelta(seconds=40) == slept(*hooks, terminationGracePeriodSeconds=90)
    assert timedelta(seconds=9) == slept(*hooks, terminationGracePeriodSeconds=9)
    assert timedelta(days=365) == slept(
        {"sleep": {"seconds": 2**62}}, terminationGracePeriodSeconds=2**62
    )


@pytest.mark.parametrize(
    "conditions",
    [
        None,
        [],
        [{"type": "Ready", "status": "False"}],
        [{"type": "Ready", "status": "Unknown"}],
        [{"type": "ContainersReady", "status": "True"}],
    ],
)
def test_pod_is_ready_only_if_it_says_so(conditions: object) -> None:
    """Nothing else stands for the Ready condition."""
    assert not pod(conditions=conditions).is_ready


def test_pod_without_a_status_has_nothing() -> None:
    """It was just created."""
    found = parse_pod(msgspec.json.encode({"metadata": META}))

    assert ("", "", False) == (found.address, found.phase, found.is_ready)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b'{"metadata": {}}',
        b'{"metadata": {"name": 7, "uid": "u", "resourceVersion": "1"}}',
        b'{"metadata": {"name": "\xff", "uid": "u", "resourceVersion": "1"}}',
    ],
)
def test_pod_that_cannot_be_read_is_malformed(raw: bytes) -> None:
    """Nobody may conclude that it is not there."""
    with pytest.raises(Malformed):
        parse_pod(raw)


def test_message_names_the_field() -> None:
    """People are to find it."""
    with pytest.raises(Malformed, match=r"status\.podIP"):
        pod(podIP=7)


def test_deletion_and_finalizers_are_read() -> None:
    """They say that an object is ending, and who holds it."""
    found = meta(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b"]).to_meta()

    assert (START, ("a/b",)) == (found.deleting_since, found.finalizers)


@pytest.mark.parametrize(
    ("said", "grace"),
    [(60, 60), (0, 0), (None, 0), (-(2**63), 0), (2**63 - 1, 365 * 24 * 3600)],
)
def test_grace_period_of_a_deletion_is_read(said: int | None, grace: int) -> None:
    """It tells since when a pod is being deleted."""
    whole = {"metadata": {**META, "deletionGracePeriodSeconds": said}}
    found = parse_pod(msgspec.json.encode(whole))

    assert timedelta(seconds=grace) == found.deletion_grace


def test_pod_says_on_which_node_it_is() -> None:
    """From the moment at which it has one."""
    whole = {"metadata": META, "spec": {"nodeName": "n1", "containers": []}}

    assert "n1" == parse_pod(msgspec.json.encode(whole)).node
    assert "" == pod().node


def test_missing_and_null_fields_are_empty() -> None:
    """Go writes either."""
    found = meta(labels=None, annotations=None, finalizers=None, deletionTimestamp=None)

    assert ({}, {}) == (found.to_meta().labels, found.to_meta().annotations)
    assert ((), None) == (found.to_meta().finalizers, found.to_meta().deleting_since)


def test_only_our_annotations_are_kept() -> None:
    """Others are large, and change all the time."""
    ours = {"lbcf.tkestack.io/abandon": "it burned down"}

    found = meta(annotations={"kubectl.kubernetes.io/last-applied": "{}", **ours})

    assert ours == found.to_meta().annotations
    assert a_key("web-1") == found.to_meta().key


def test_annotations_are_kept_as_a_condition_can_show_them() -> None:
    """Whoever may annotate a pod says why it is drained, in the condition of its group."""
    drain = "lbcf.tkestack.io/drain"

    found = meta(annotations={drain: "new\x1b[2J disk\u202e" + "k" * 40_000}).to_meta()

    assert found.drained_for.startswith("new diskkkk")
    assert len(found.drained_for) <= 4096


@pytest.mark.parametrize(
    ("owner", "is_found"),
    [
        pytest.param({"controller": True}, True, id="controller"),
        pytest.param({"controller": False}, False, id="not the controller"),
        pytest.param({}, False, id="unsaid"),
        pytest.param(
            {"controller": True, "kind": "ReplicaSet"}, False, id="other kind"
        ),
    ],
)
def test_controlling_owner_is_found_by_kind(
    owner: dict[str, object], is_found: bool
) -> None:
    """Of several owners only one controls."""
    whole = {"kind": "BackendGroup", "name": "web", "uid": "u", **owner}
    found = meta(ownerReferences=[{"kind": "Other", "controller": True}, whole])

    expected = Owner("BackendGroup", "web", "u", True) if is_found else None
    assert expected == found.controller("BackendGroup")


def test_a_secret_is_read_out_of_base64() -> None:
    """Its values are bytes, and are shown to nobody."""
    metadata = {"name": "it", "namespace": "shop", "uid": "u", "resourceVersion": "7"}
    body = {"metadata": metadata, "type": "Opaque", "data": {"token": "aHVzaA=="}}
    secret = parse_secret(msgspec.json.encode(body))

    assert ("Opaque", {"token": b"hush"}) == (secret.kind, secret.values)
    assert "hush" not in repr(secret)


def test_a_secret_that_is_broken_is_not_quoted() -> None:
    """The message says where, and nothing of what is there."""
    metadata = {"name": "it", "uid": "u", "resourceVersion": "7"}
    body = {"metadata": metadata, "data": {"token": "hush!"}}
    with pytest.raises(Malformed) as raised:
        parse_secret(msgspec.json.encode(body))

    assert "hush" not in str(raised.value)


OURS = "lbcf.tkestack.io/registered"
CONTAINERS_READY = {"type": "ContainersReady", "status": "True"}
WAITING = {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"}
OPEN = {"type": OURS, "status": "True"}


def gated(*conditions: object, gates: tuple[str, ...] = (OURS,)) -> Pod:
    """Read a pod with readiness gates."""
    spec = {"readinessGates": [{"conditionType": gate} for gate in gates]}
    whole = {
        "metadata": META,
        "spec": spec,
        "status": {"conditions": list(conditions)},
    }
    return parse_pod(msgspec.json.encode(whole))


@pytest.mark.parametrize(
    ("found", "can_serve", "waits"),
    [
        (gated(CONTAINERS_READY, WAITING), True, True),
        (gated(WAITING), False, False),
        pytest.param(
            gated(CONTAINERS_READY, WAITING, gates=("other", OURS)),
            False,
            False,
            id="another gate is not True",
        ),
        pytest.param(
            gated(
                CONTAINERS_READY,
                WAITING,
                {"type": "other", "status": "True"},
                gates=("other", OURS),
            ),
            True,
            True,
            id="all others are True",
        ),
        pytest.param(
            gated(CONTAINERS_READY, WAITING, OPEN),
            True,
            False,
            id="the kubelet has not seen it yet",
        ),
        pytest.param(
            gated(CONTAINERS_READY, {"type": "Ready", "status": "False"}, OPEN),
            False,
            False,
            id="its node is lost",
        ),
        pytest.param(
            gated(CONTAINERS_READY, READY, OPEN), True, False, id="Ready and in"
        ),
    ],
)
def test_pod_with_our_gate_can_serve_before_it_is_ready(
    found: Pod, can_serve: bool, waits: bool
) -> None:
    """Its containers and all other gates count: to wait for Ready would be a deadlock."""
    assert (can_serve, waits) == (found.is_ready, found.awaits_gate)


def test_gate_says_since_when_a_pod_can_serve() -> None:
    """The kubelet's word on its containers."""
    since = {**CONTAINERS_READY, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    gate = gated(since, WAITING).gate

    assert gate is not None
    assert START == gate.since


def test_open_gate_is_one_condition_among_others() -> None:
    """It is merged by its type."""
    body = render_gate("AllRegistered", "registered at front", START)

    assert body == {
        "status": {
            "conditions": [
                {
                    "type": OURS,
                    "status": "True",
                    "reason": "AllRegistered",
                    "message": "registered at front",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        }
    }
