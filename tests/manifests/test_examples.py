"""Every object that the repository shows people, applied to the real API server."""

import textwrap

import pytest
import yaml

from tests.manifests.api import Api
from tests.manifests.documents import (
    EXAMPLES,
    Document,
    blocks,
    is_ours,
    published,
    read_all,
)


pytestmark = pytest.mark.cluster

PUBLISHED = dict(published())

# As LBCF in Go writes objects: nil maps are null, unused numbers 0, unused texts empty.
GO_RECORD = """
apiVersion: lbcf.tkestack.io/v1beta1
kind: BackendRecord
metadata:
  name: dea99df137c5b3d94d5e858a7c3ca778
  finalizers: [lbcf.tkestack.io/deregister-backend]
spec:
  lbName: test-load-balancer
  lbDriver: lbcf-god-driver
  lbInfo: {lbID: lb-7wf394rv}
  lbAttributes: null
  parameters: {weight: "100"}
  podBackend:
    name: web-0
    port: {portNumber: 80, port: 0, protocol: TCP}
status:
  backendAddr: ""
  injectedInfo: null
  conditions: null
"""
GO_STATUS = """
backendAddr: '{"listenerID":"lbl-d7bbw7on","eniIP":"10.0.3.244","backendPort":80}'
injectedInfo: null
conditions:
  - {type: Registered, status: "True", lastTransitionTime: "2019-05-30T10:45:28Z", message: ""}
"""
GO_GROUP = """
apiVersion: lbcf.tkestack.io/v1beta1
kind: BackendGroup
metadata: {name: as-go-writes-it}
spec:
  lbName: null
  loadBalancers: [lb1]
  deregisterPolicy: null
  deregisterWebhook: null
  pods:
    port: null
    ports: [{port: 80, protocol: TCP}]
    byName: [web-0]
"""


@pytest.mark.parametrize("name", PUBLISHED)
def test_example_is_taken(name: str, api: Api) -> None:
    """An example is accepted as it stands, and once more when it is there already."""
    example = PUBLISHED[name]

    answers = [api.apply(example), api.apply(example)]
    api.remove(example)

    assert [(True, "")] * 2 == [(a.accepted, a.message) for a in answers]


def test_every_example_file_says_what_it_shows() -> None:
    """Each document of an example begins with a comment for the reader."""
    silent = [
        path.name
        for path in EXAMPLES.glob("*.yaml")
        for text in path.read_text().split("---\n")
        if not text.startswith("# Shows: ")
    ]

    assert [] == silent


def test_examples_are_there() -> None:
    """The examples hold each way to choose backends, and nothing that is not ours."""
    found = [d for path in EXAMPLES.glob("*.yaml") for d in read_all(path)]
    groups = [d["spec"] for d in found if d["kind"] == "BackendGroup"]

    assert all(is_ours(document) for document in found)
    assert {"pods", "service", "static", "nodes"} <= {key for g in groups for key in g}


def test_blocks_of_pages_are_found() -> None:
    """Our objects are found in fenced YAML blocks, also in lists, and no others."""
    page = textwrap.dedent("""\
        # Page
        ```yaml
        apiVersion: v1
        kind: Pod
        ---
        apiVersion: lbcf.tkestack.io/v1beta1
        kind: LoadBalancer
        ```
        1. step
           ```yml
           apiVersion: lbcf.tkestack.io/v1beta1
           kind: BackendGroup
           ```
        ```sh
        apiVersion: lbcf.tkestack.io/v1beta1
        ```
        """)

    assert ["LoadBalancer", "BackendGroup"] == [d["kind"] for d in blocks(page)]


def test_a_record_of_go_is_taken(api: Api) -> None:
    """A record as LBCF in Go writes it is accepted, and so is each of its updates."""
    record = read_yaml(GO_RECORD)

    made = api.store(record)
    written = api.replace({**made, "status": read_yaml(GO_STATUS)}, "status", "")
    api.remove(record)

    assert "lbAttributes" not in made["spec"]
    assert (True, "") == (written.accepted, written.message)


def test_a_group_of_go_is_taken(api: Api) -> None:
    """A group as LBCF in Go writes it is accepted; null means unsaid."""
    stored = api.store(read_yaml(GO_GROUP))
    api.remove(stored)

    assert "IfNotReady" == stored["spec"]["deregisterPolicy"]
    assert {"byName", "ports"} == stored["spec"]["pods"].keys()


def read_yaml(text: str) -> Document:
    """One document."""
    return dict(yaml.safe_load(text))
