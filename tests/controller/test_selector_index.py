"""Selection without trying all: indexes answer as a scan of everything would."""

from hypothesis import example, given
from hypothesis import strategies as st

from lbcf.controller.selector_index import LabelSets, does_select
from lbcf.controller.view import View
from lbcf.core.model.cluster import Pod
from lbcf.core.model.resources import BackendGroup, PodSelection
from lbcf.core.model.selectors import Operator, Requirement, Selector
from lbcf.core.model.values import Port
from lbcf.kube.list_watch import Put, Removed
from lbcf.wire.metadata import identity_of
from tests.builders import a_group, a_pod


NAMES = ("web-1", "web-2", "db-1")
LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"))
PODS = st.builds(
    lambda name, labels, namespace, version: a_pod(
        name, labels=labels, namespace=namespace, version=version
    ),
    st.sampled_from(NAMES),
    LABELS,
    st.sampled_from(["shop", "other"]),
    st.just(0),
)
REQUIREMENTS = st.builds(
    Requirement,
    st.sampled_from("ab"),
    st.sampled_from(Operator),
    st.frozensets(st.sampled_from("xy")),
)
BY_LABEL = st.builds(
    lambda labels, requirements, excluded: PodSelection(
        (Port(80),), Selector(labels, requirements), excluded=excluded
    ),
    LABELS,
    st.lists(REQUIREMENTS, max_size=2).map(tuple),
    st.frozensets(st.sampled_from(NAMES), max_size=1),
)
BY_NAME = st.builds(
    lambda names: PodSelection((Port(80),), names=names),
    st.frozensets(st.sampled_from(NAMES)),
)
ALL_BUT_ONE = PodSelection((Port(80),), Selector(), excluded=frozenset({"web-1"}))
STEPS = st.lists(st.tuples(PODS, st.booleans()), max_size=12)


def lived_through(steps: list[tuple[Pod, bool]]) -> View:
    """A view that saw pods change, and some of them go."""
    view = View()
    for version, (pod, goes) in enumerate(steps, start=1):
        key = pod.meta.key
        now = a_pod(
            key.name,
            labels=pod.meta.labels,
            namespace=key.namespace,
            version=version,
        )
        view.pods.apply(Removed(identity_of(now.meta)) if goes else Put(now))
    return view


def group_of(selection: PodSelection) -> BackendGroup:
    """A group that selects so."""
    return a_group(selection=selection)


@given(STEPS, BY_LABEL | BY_NAME)
@example([(a_pod("web-1"), False), (a_pod("web-2"), False)], ALL_BUT_ONE)
@example(
    [
        (a_pod("web-1", labels={"a": "y", "b": "x"}), False),
        (a_pod("web-1", labels={"b": "x", "a": "y"}), False),
    ],
    PodSelection((Port(80),), Selector({})),
)
def test_pods_of_a_group_are_those_that_a_scan_finds(
    steps: list[tuple[Pod, bool]], selection: PodSelection
) -> None:
    """Whatever came, changed its labels and went before."""
    view, group = lived_through(steps), group_of(selection)
    scanned = {
        pod.meta.key
        for pod in view.pods.values()
        if pod.meta.key.namespace == group.meta.key.namespace
        and does_select(group, pod)
    }

    found = [pod.meta.key for pod in view.selected_pods(group)]

    assert sorted(scanned) == sorted(found)


@given(PODS, BY_LABEL | BY_NAME)
def test_groups_of_a_pod_are_those_that_a_scan_finds(
    pod: Pod, selection: PodSelection
) -> None:
    """By one label, by name, or by neither."""
    view, group = View(), group_of(selection)
    view.groups.apply(Put(group))
    here = pod.meta.key.namespace == group.meta.key.namespace
    expected = {group.meta.key} if here and does_select(group, pod) else set()

    assert expected == {found.meta.key for found in view.groups_meaning(pod)}


@given(st.lists(PODS, min_size=1))
def test_templates_that_nobody_has_any_more_are_forgotten(pods: list[Pod]) -> None:
    """However many had one."""
    templates = LabelSets()
    for pod in pods:
        templates.pod_changed(None, pod)
    before = templates.matching(pods[0].meta.key.namespace, Selector())
    for pod in pods:
        templates.pod_changed(pod, None)

    assert before
    assert [] == templates.matching(pods[0].meta.key.namespace, Selector())
