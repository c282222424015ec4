"""What our kinds say of themselves: selections, scopes, time-outs, states of records."""

import attrs
import pytest

from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import BackendRecord, PodSelection, RecordStatus
from lbcf.core.model.selectors import Selector
from tests.builders import (
    ALWAYS,
    BY_LABEL,
    WEB,
    a_driver,
    a_key,
    a_load_balancer,
    a_record,
    a_spec,
    seconds,
)


WEB_LABELS = {"app": "web"}


def test_pods_are_selected_by_label_but_for_the_excluded() -> None:
    """Labels choose; names listed under except are left out."""
    selection = PodSelection(
        (WEB,), selector=Selector(WEB_LABELS), excluded=frozenset({"web-3"})
    )

    assert selection.selects("web-1", WEB_LABELS)
    assert not selection.selects("web-3", WEB_LABELS)
    assert not selection.selects("web-1", {"app": "api"})


def test_pods_are_selected_by_name_whatever_their_labels() -> None:
    """Names choose alone."""
    selection = PodSelection((WEB,), names=frozenset({"web-1"}))

    assert selection.selects("web-1", {})
    assert not selection.selects("web-2", WEB_LABELS)


def test_selection_of_nothing_selects_nothing() -> None:
    """Neither labels nor names given is no wildcard."""
    assert not PodSelection((WEB,)).selects("web-1", WEB_LABELS)
    assert not PodSelection((WEB,), names=frozenset()).selects("web-1", WEB_LABELS)
    assert BY_LABEL.selects("web-1", WEB_LABELS)


@pytest.mark.parametrize(
    ("scope", "namespace", "is_open"),
    [
        pytest.param((), "shop", True, id="its own namespace"),
        pytest.param((), "other", False, id="unsaid means nobody else"),
        pytest.param(("other",), "other", True, id="named"),
        pytest.param(("*",), "other", True, id="everybody"),
        pytest.param(("third",), "shop", True, id="its own is never shut out"),
    ],
)
def test_scope_says_who_may_use_a_load_balancer(
    scope: tuple[str, ...], namespace: str, is_open: bool
) -> None:
    """Its own namespace always, others by name or all by a star."""
    assert is_open is a_load_balancer(scope=scope).is_open_to(namespace)


def test_driver_declares_what_it_lists() -> None:
    """Optional operations are called only if listed; the others have a default."""
    driver = a_driver(drains=True)

    assert driver.declares(Operation.DRAIN_BACKEND)
    assert not driver.declares(Operation.LIST_BACKENDS)
    assert seconds(10) == driver.timeout(Operation.ENSURE_BACKEND)


def test_settling_is_window_lateness_and_clocks() -> None:
    """Time-out and 2 s, the driver's lateness, 3 s for truncation and skew."""
    driver = attrs.evolve(
        a_driver(), timeouts={"ensureBackend": seconds(4)}, late_effect=seconds(7)
    )

    assert seconds(6) == driver.window(Operation.ENSURE_BACKEND)
    assert seconds(16) == driver.settling(Operation.ENSURE_BACKEND)


def test_record_knows_where_its_driver_and_load_balancer_live() -> None:
    """Names with the shared prefix are in kube-system, others beside the record."""
    shared = attrs.evolve(a_spec(load_balancer="lbcf-front"), driver="lbcf-proxy")
    record, ours = a_record(spec=shared), a_record()

    assert a_key("lbcf-proxy", "kube-system") == record.driver_key
    assert a_key("lbcf-front", "kube-system") == record.load_balancer_key
    assert (a_key("proxy"), a_key("front")) == (ours.driver_key, ours.load_balancer_key)


def test_address_is_the_spec_s_or_else_the_status_s() -> None:
    """Known beforehand it is in the spec, found later in the status."""
    found = RecordStatus(address="10.0.0.9:80")

    assert "10.0.0.1:8080" == a_record().address
    assert "10.0.0.9:80" == a_record(spec=a_spec(address=""), status=found).address
    assert "" == a_record(spec=a_spec(address="")).address


@pytest.mark.parametrize(
    ("record", "is_registered"),
    [
        pytest.param(a_record(), False, id="nothing said"),
        pytest.param(a_record(registered=True), True, id="said of its generation"),
        pytest.param(
            a_record(registered=True, generation=3), True, id="of a later generation"
        ),
        pytest.param(
            a_record(registered=True, deleting=True), True, id="deletion adds one"
        ),
    ],
)
def test_record_is_registered_at_its_generation(
    record: BackendRecord, is_registered: bool
) -> None:
    """A deletion that waits for finalizers raises the generation, not the spec."""
    assert is_registered is record.is_registered


def test_record_whose_spec_changed_is_not_registered() -> None:
    """Registered with an older generation means: to be ensured again."""
    record = a_record(registered=True)
    changed = attrs.evolve(record, meta=attrs.evolve(record.meta, generation=2))

    assert not changed.is_registered


def test_record_deleted_after_a_change_is_not_registered() -> None:
    """The generation that the deletion adds does not hide that of the change."""
    record = a_record(registered=True, deleting=True)
    changed = attrs.evolve(record, meta=attrs.evolve(record.meta, generation=3))

    assert not changed.is_registered
    assert not changed.is_settled


@pytest.mark.parametrize(
    ("record", "is_settled"),
    [
        pytest.param(a_record(registered=True), True, id="registered, nobody ensuring"),
        pytest.param(a_record(), False, id="not registered"),
        pytest.param(a_record(registered=True, ensuring="me"), False, id="ensuring"),
        pytest.param(a_record(registered=True, ensuring="*"), False, id="doubted"),
        pytest.param(
            a_record(registered=True, spec=a_spec(ensure_policy=ALWAYS)),
            False,
            id="ensured at any time",
        ),
    ],
)
def test_record_is_settled_when_no_ensure_can_be_out(
    record: BackendRecord, is_settled: bool
) -> None:
    """Registered, no marker, and no policy that calls without a mark."""
    assert is_settled is record.is_settled
