"""What people see of our kinds in kubectl."""

import re

from collections.abc import Mapping

import pytest

from tests.lab.cluster import Cluster
from tests.manifests.api import Api
from tests.manifests.documents import Document, crds, schemas
from tests.manifests.paths import nodes


pytestmark = pytest.mark.cluster

COLUMNS = {
    "lbd": "NAME URL ACCEPTED HEALTHY AGE",
    "driver": "NAME URL ACCEPTED HEALTHY AGE",
    "lbclass": "NAME DRIVER DEFAULT AGE",
    "lb": "NAME DRIVER CREATED SYNCED REACHABLE BACKENDS DRIFTED AGE",
    "bg": "NAME LB BACKENDS REGISTERED INSERVICE DRAINING READY HELD AGE",
    "br": "NAME LB BACKEND ADDRESS REGISTERED INSERVICE REASON LEAVING AGE",
    "bind": "NAME LB BACKENDS REGISTERED INSERVICE DRAINING READY HELD AGE",
}
MORE = "2ND-LB 3RD-LB READY-REASON HELD-REASON DRAINED-BY-HAND"
WIDE = {
    **COLUMNS,
    "br": f"{COLUMNS['br']} DRIVER GROUP DRAIN-DEADLINE CONNECTIONS",
    "bg": f"{COLUMNS['bg']} {MORE}",
    "bind": f"{COLUMNS['bind']} {MORE}",
}
ONE_BACKEND: Mapping[str, Document] = {
    "pod": {"podBackend": {"name": "web-0", "port": {"port": 80}}},
    "service": {
        "serviceBackend": {
            "name": "web", "port": {"port": 80}, "nodePort": 30080, "nodeName": "n1",
        }
    },
    "static": {"staticAddr": "198.51.100.1:80"},
    "node": {"nodeBackend": {"name": "n2", "port": {"port": 80}}},
}  # fmt: skip
SHOWN_AS = {"pod": "web-0", "service": "n1", "static": "198.51.100.1:80", "node": "n2"}


Table = dict[str, dict[str, str]]


def a_record(name: str, backend: str = "pod", **more: object) -> Document:
    """A record of a backend of some type."""
    return {
        "apiVersion": "lbcf.tkestack.io/v1beta1",
        "kind": "BackendRecord",
        "metadata": {
            "name": name,
            "labels": {"lbcf.tkestack.io/backend-group": "shop"},
        },
        "spec": {
            "lbName": "web",
            "lbDriver": "haproxy",
            **ONE_BACKEND[backend],
            **more,
        },
    }


def a_group(name: str, spec: Document) -> Document:
    """A group of one pod, with more in its spec."""
    pods = {"port": {"port": 80}, "byName": ["web-0"]}
    return {
        "apiVersion": "lbcf.tkestack.io/v1beta1",
        "kind": "BackendGroup",
        "metadata": {"name": name},
        "spec": {"pods": pods, **spec},
    }


def a_condition(kind: str, status: str, reason: str) -> Document:
    """A condition."""
    since = "2026-01-01T00:00:00Z"
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": since,
    }


def rows(text: str) -> Table:
    """A table of kubectl: cells by the first cell of the row and by column."""
    head, *lines = text.splitlines()
    starts = [(m.group().strip(), m.start()) for m in re.finditer(r"\S+(?: +|$)", head)]
    ends = [start for _, start in starts[1:]] + [None]
    table = [
        {
            name: line[start:end].strip()
            for (name, start), end in zip(starts, ends, strict=True)
        }
        for line in lines
    ]
    return {row["NAME"]: row for row in table}


@pytest.fixture(name="records", scope="module")
def _records(api: Api) -> list[Document]:
    """Records of all types; one of them drains."""
    draining = {
        "backendAddr": "198.18.0.1:80",
        "conditions": [
            a_condition("Registered", "True", "Registered"),
            a_condition("Drained", "False", "Draining"),
        ],
        "drain": {"deadline": "2026-01-01T00:00:30Z", "activeConnections": 2},
    }
    failing = {"conditions": [a_condition("Registered", "False", "DriverRefused")]}
    return [
        *(api.store(a_record(f"seen-{backend}", backend)) for backend in ONE_BACKEND),
        api.store(a_record("early", backendAddr="198.18.0.9:80")),
        api.store({**a_record("failing"), "status": failing}),
        api.store({**a_record("draining"), "status": draining}),
    ]


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("short", COLUMNS)
def test_columns(short: str, control_plane: Cluster) -> None:
    """`kubectl get` shows the columns that answer the first question, and no others."""
    get = ("get", short, "-A")
    table, wide = (control_plane.kubectl(*get, *more) for more in ((), ("-o", "wide")))

    where = "" if short == "lbclass" else "NAMESPACE"
    assert f"{where} {COLUMNS[short]}".split() == table.splitlines()[0].split()
    assert f"{where} {WIDE[short]}".split() == wide.splitlines()[0].split()


@pytest.fixture(name="table", scope="module")
def _table(control_plane: Cluster, api: Api, records: object) -> Table:
    """What `kubectl get br -o wide` prints."""
    assert records
    return rows(control_plane.kubectl("get", "br", "-n", api.namespace, "-o", "wide"))


@pytest.mark.parametrize("backend", SHOWN_AS)
def test_backend_column(backend: str, table: Table) -> None:
    """One column names the backend, whatever its type."""
    assert SHOWN_AS[backend] == table[f"seen-{backend}"]["BACKEND"]


def test_a_draining_record(table: Table) -> None:
    """A record that drains says so, until when, and what is left on it."""
    cells = {name: text for name, text in table["draining"].items() if name != "AGE"}

    assert cells == {
        "NAME": "draining",
        "LB": "web",
        "BACKEND": "web-0",
        "ADDRESS": "198.18.0.1:80",
        "REGISTERED": "True",
        "INSERVICE": "",
        "REASON": "Draining",
        "LEAVING": "",
        "DRIVER": "haproxy",
        "GROUP": "shop",
        "DRAIN-DEADLINE": "2026-01-01T00:00:30Z",
        "CONNECTIONS": "2",
    }


@pytest.mark.parametrize(
    ("name", "column", "text"),
    [
        ("failing", "REGISTERED", "False"),
        ("failing", "REASON", "DriverRefused"),
        ("early", "ADDRESS", "198.18.0.9:80"),
        ("seen-pod", "ADDRESS", ""),
        ("seen-pod", "REASON", ""),
    ],
)
def test_cells(name: str, column: str, text: str, table: Table) -> None:
    """Records on their way in show their address as soon as it is known, and why."""
    assert text == table[name][column]


def test_record_that_ends_tells_since_when(control_plane: Cluster, api: Api) -> None:
    """Its finalizer keeps it; nobody has said anything of its end yet."""
    record = a_record("leaving")
    record["metadata"]["finalizers"] = ["example.com/held"]
    api.store(record)
    api.delete(record)
    text = control_plane.kubectl("get", "br", "leaving", "-n", api.namespace)
    api.remove(record)

    assert re.fullmatch(r"\d+s", rows(text)["leaving"]["LEAVING"])


def test_record_that_stays_has_no_such_time(table: Table) -> None:
    """The cell is empty."""
    assert "" == table["seen-pod"]["LEAVING"]


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({"loadBalancers": ["web"]}, ("web", "", "")),
        ({"loadBalancers": ["web", "api", "old"]}, ("web", "api", "old")),
        ({"lbName": "web"}, ("web", "", "")),
    ],
)
def test_load_balancers_of_a_group_are_names(
    spec: Document, shown: tuple[str, ...], control_plane: Cluster, api: Api
) -> None:
    """Never a list in JSON; three of them at most, in two spellings of the field."""
    group = a_group("named", spec)
    api.store(group)
    text = control_plane.kubectl(
        "get", "bg", "named", "-n", api.namespace, "-o", "wide"
    )
    api.remove(group)
    cells = rows(text)["named"]

    assert shown == tuple(cells[name] for name in ("LB", "2ND-LB", "3RD-LB"))


def test_group_tells_whether_it_is_decided_and_held(
    control_plane: Cluster, api: Api
) -> None:
    """By two of its conditions; the reasons are among the wide columns."""
    told = [
        a_condition("Ready", "False", "LoadBalancerNotFound"),
        a_condition("RemovalsHeld", "True", "TooManyUnready"),
        {**a_condition("DrainedByHand", "True", "DrainedByHand"), "message": "test"},
    ]
    group = {
        **a_group("held", {"loadBalancers": ["web"]}),
        "status": {"conditions": told},
    }
    api.store(group)
    text = control_plane.kubectl("get", "bg", "held", "-n", api.namespace, "-o", "wide")
    api.remove(group)
    cells = rows(text)["held"]

    assert ("False", "True") == (cells["READY"], cells["HELD"])
    assert ("LoadBalancerNotFound", "TooManyUnready", "test") == (
        cells["READY-REASON"],
        cells["HELD-REASON"],
        cells["DRAINED-BY-HAND"],
    )


def test_load_balancer_tells_that_members_are_missing(
    control_plane: Cluster, api: Api
) -> None:
    """By its condition Drifted."""
    balancer = {
        "apiVersion": "lbcf.tkestack.io/v1beta1",
        "kind": "LoadBalancer",
        "metadata": {"name": "drifted"},
        "spec": {"lbDriver": "haproxy", "lbSpec": {"a": "b"}},
        "status": {"conditions": [a_condition("Drifted", "True", "MembersMissing")]},
    }
    api.store(balancer)
    text = control_plane.kubectl("get", "lb", "drifted", "-n", api.namespace)
    api.remove(balancer)

    assert "True" == rows(text)["drifted"]["DRIFTED"]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("spec.podBackend.name=web-0", {"seen-pod", "early", "failing", "draining"}),
        ("spec.nodeBackend.name=n2", {"seen-node"}),
        ("spec.serviceBackend.nodeName=n1", {"seen-service"}),
        ("spec.lbName=web,spec.serviceBackend.name=web", {"seen-service"}),
        ("status.backendAddr=198.18.0.1:80", {"draining"}),
        ("spec.lbName=nowhere", set[str]()),
    ],
)
def test_selectable_fields(
    selector: str,
    found: set[str],
    control_plane: Cluster,
    api: Api,
    records: list[Document],
) -> None:
    """Records can be asked for by load balancer, pod, node, Service and address."""
    selectors = f"--field-selector={selector},spec.lbDriver=haproxy"
    text = control_plane.kubectl(
        "get", "br", "-n", api.namespace, selectors, "-o", "name"
    )
    ours = {d["metadata"]["name"] for d in records}

    assert found == {line.split("/")[1] for line in text.split()} & ours


@pytest.mark.usefixtures("stored")
def test_category(control_plane: Cluster) -> None:
    """`kubectl get lbcf` shows all our kinds at once."""
    text = control_plane.kubectl("get", "lbcf", "-A", "-o", "name")
    shown = {line.split(".")[0] for line in text.split()}

    assert {kind.lower() for kind in crds()} == shown


@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize(
    "place",
    [
        f"{crds()[kind]['spec']['names']['plural']}{'.' if place else ''}{place}"
        for kind, schema in schemas().items()
        for place, node in nodes(schema)
        if "properties" in node and not place.endswith("[]")
    ],
)
def test_explain(place: str, control_plane: Cluster) -> None:
    """`kubectl explain` has a sentence for each kind and each field of it."""
    text = control_plane.kubectl("explain", place.replace("[]", ""))
    fields = re.findall(r"^  \S+\t<[^\n]*\n    (.*)", text, re.MULTILINE)

    assert "<empty>" not in text
    assert "<no description>" not in text
    assert fields
    assert all(field.strip() for field in fields), text
