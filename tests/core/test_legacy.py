"""Records that LBCF in Go wrote: whose they are, and what becomes of them."""

import hashlib
import json

import attrs
import pytest

from lbcf.core.lifecycle import deregistration, registration
from lbcf.core.lifecycle.deregistration import DeregistrationState
from lbcf.core.lifecycle.registration import RegistrationState
from lbcf.core.lifecycle.steps import (
    CallDriver,
    Finish,
    LockTaken,
    Observed,
    Permission,
    Succeeded,
    TakeLock,
    WriteStatus,
)
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import (
    ANY_INCARNATION,
    BackendRecord,
    LoadBalancerDriver,
    PodRef,
    RecordStatus,
    StaticRef,
    StaticSelection,
)
from lbcf.core.model.values import AddressSource, DrainPolicy, MemberKey, Uid
from lbcf.core.reasons import ForeignReason, Reason
from lbcf.core.selection.legacy import (
    is_about,
    is_elsewhere,
    is_needless,
    signed,
    with_uids,
)
from lbcf.core.selection.plan import Plan, plan_group
from lbcf.wire.records import parse_record
from tests.builders import (
    ALWAYS,
    START,
    WEB,
    a_driver,
    a_group,
    a_pod,
    a_record,
    a_snapshot,
    a_spec,
    at,
    held_by,
)


BY_ADDRESS = a_driver(member_key=MemberKey.ADDRESS, address_source=AddressSource.DRIVER)
ADDRESS = "10.0.0.1:8080"


def md5(text: str) -> str:
    """Name a record as LBCF in Go does."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def an_old_record(
    name: str = "",
    *,
    pod: str = "web-1",
    registered: bool | None = True,
    address: str = ADDRESS,
    generation: int = 1,
    deleting: bool = False,
) -> BackendRecord:
    """Make a record as LBCF in Go leaves one; registered None: no condition yet."""
    condition = Condition(
        conditions.REGISTERED, registered, ForeignReason(""), "ok", 0, START
    )
    status = RecordStatus(
        address, conditions=() if registered is None else (condition,)
    )
    return a_record(
        name or md5(f"front_web_uid-{pod}_8080_TCP"),
        spec=a_spec(address="", backend=PodRef(pod, Uid(""), WEB)),
        status=status,
        generation=generation,
        deleting=deleting,
    )


def what_follows(record: BackendRecord, *, locked: bool = False) -> object:
    """Say the registrar's first step about a record that it has just read."""
    enrolment = RegistrationState("me", first_seen=0.0, locked=locked)
    enrolment = enrolment.begin_turn(BY_ADDRESS, "")
    reading = registration.next_step(enrolment, at(0))
    observed = Observed(Permission(record, 0.0))
    enrolment = registration.learn(enrolment, reading, observed, at(0))
    return registration.next_step(enrolment, at(0))


@pytest.mark.parametrize("generation", [1, 7])
@pytest.mark.parametrize("driver", [a_driver(), BY_ADDRESS])
def test_registered_record_is_kept_untouched(
    generation: int, driver: LoadBalancerDriver
) -> None:
    """Nothing is written for it, however often LBCF changed it, and no drain added."""
    record = an_old_record(generation=generation)
    snapshot = a_snapshot(a_pod(), records=(record,), driver=driver)

    assert Plan(kept=1, backends=1) == plan_group(snapshot)
    assert Finish() == what_follows(record)


def test_record_of_an_earlier_namesake_goes() -> None:
    """A StatefulSet's pod came back while nobody watched: it is another backend."""
    record = an_old_record(address="10.0.0.9:8080")
    pod = a_pod(uid="another")

    plan = plan_group(a_snapshot(pod, records=(record,)))

    assert [Reason.POD_GONE] == [removal.reason for removal in plan.removals]
    assert [pod.meta.uid] == [c.desired.spec.backend.uid for c in plan.creates]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "address", "about"),
    [
        (md5("front_web_uid-web-1_8080_TCP"), "eni-7:8080", True),
        (md5("web-front-web-1-10.0.0.1-TCP-8080"), "eni-7:8080", True),
        (md5("web-front-web-1-10.0.0.1-tcp-8080"), "eni-7:8080", True),
        (md5("front_web_uid-of-another_8080_TCP"), "eni-7:8080", False),
        (md5("front_web_uid-of-another_8080_TCP"), ADDRESS, True),
        ("some-name", "eni-7:8080", True),
    ],
)
def test_name_tells_which_of_two_namesakes_is_meant(
    name: str, address: str, *, about: bool
) -> None:
    """LBCF's hash of the pod counts, then the pod's own address, then its name."""
    assert about == is_about(an_old_record(name, address=address), a_pod())


def test_record_with_a_uid_is_about_that_pod_alone() -> None:
    """Ours say it themselves."""
    assert is_about(a_record(), a_pod())
    assert not is_about(a_record(), a_pod(uid="another"))
    assert not is_about(a_record(), a_pod("web-2"))


@pytest.mark.parametrize(
    ("address", "leaves"),
    [
        (ADDRESS, False),
        ("10.0.0.9:8080", True),
        ('{"eniIP":"10.0.3.244","backendPort":8080}', False),
        ("eni-7:8080", False),
    ],
)
def test_address_in_a_drivers_own_words_is_no_other_address(
    address: str, *, leaves: bool
) -> None:
    """A driver whose addresses come from the backend from now on wrote others before."""
    record = an_old_record(address=address)
    plan = plan_group(a_snapshot(a_pod(), records=(record,), driver=a_driver()))

    assert leaves == bool(plan.removals)
    assert leaves == bool(plan.creates)


def test_uids_are_given_to_those_that_have_none() -> None:
    """A record whose pod is not at hand stays without."""
    records = (an_old_record(), an_old_record(pod="web-9"), a_record())

    first, second, third = with_uids(records, [a_pod()])

    assert PodRef("web-1", Uid("uid-web-1"), WEB) == first.spec.backend
    assert records[1:] == (second, third)


@pytest.mark.parametrize(
    "backend",
    [
        {"podBackend": {"name": "web-0", "port": {"port": 0, "portNumber": 80}}},
        {"podBackend": {"name": "web-0", "port": {"port": 80, "protocol": "tcp"}}},
        {"staticAddr": "10.0.0.1:80"},
        {
            "serviceBackend": {
                "name": "web",
                "port": {"port": 80, "protocol": "TCP"},
                "nodePort": 30080,
                "nodeName": "n1",
            }
        },
    ],
    ids=["pod", "pod of a Bind", "static", "service"],
)
def test_record_of_any_type_is_known_by_what_it_leaves_out(
    backend: dict[str, object],
) -> None:
    """As Go writes it: registered at whatever generation, and not settled."""
    metadata = {
        "name": "dea99df137c5b3d94d5e858a7c3ca778",
        "namespace": "shop",
        "uid": "u-1",
        "resourceVersion": "7",
        "generation": 4,
        "finalizers": ["lbcf.tkestack.io/deregister-backend"],
    }
    spec = {"lbName": "front", "lbDriver": "proxy", "lbInfo": {"id": "1"}, **backend}
    then = "2019-05-30T10:45:28Z"
    condition = {"type": "Registered", "status": "True", "lastTransitionTime": then}
    status = {"backendAddr": "10.0.0.1:80", "conditions": [condition]}
    body = {"metadata": metadata, "spec": spec, "status": status}

    record = parse_record(json.dumps(body).encode())

    assert record.is_legacy
    assert record.is_registered
    assert not record.is_settled


def test_static_record_is_kept() -> None:
    """An address names itself."""
    group = a_group(selection=StaticSelection(("10.0.0.1:8080",)))
    record = an_old_record()
    spec = attrs.evolve(record.spec, backend=StaticRef("10.0.0.1:8080"))
    record = attrs.evolve(record, spec=spec)

    assert Plan(kept=1, backends=1) == plan_group(
        a_snapshot(group=group, records=(record,))
    )


def test_changed_parameters_are_updated_and_the_generation_is_said_before() -> None:
    """Otherwise LBCF's success would count for parameters that it never had."""
    record = an_old_record(generation=3)
    group = a_group(parameters={"weight": "7"})

    (update,) = plan_group(a_snapshot(a_pod(), group=group, records=(record,))).updates
    before = attrs.evolve(record, status=signed(record, START))

    assert {"weight": "7"} == update.spec.parameters
    assert before.is_registered
    assert ANY_INCARNATION == before.status.ensuring
    raised = attrs.evolve(before, meta=attrs.evolve(before.meta, generation=4))
    assert not raised.is_registered


@pytest.mark.parametrize("registered", [False, None])
def test_half_done_record_takes_the_lock_first(registered: bool | None) -> None:
    """LBCF wrote the address without one; then the record is signed as anybody's."""
    record = an_old_record(registered=registered)

    step = what_follows(record)
    assert isinstance(step, TakeLock)
    assert ADDRESS == step.address

    step = what_follows(record, locked=True)
    assert isinstance(step, WriteStatus)
    assert ANY_INCARNATION == step.status.ensuring


def test_waiting_for_the_lock_leaves_the_record_recognisable() -> None:
    """What is told meanwhile must not make it look as if we had had the lock."""
    record = an_old_record(registered=False)
    step = what_follows(record)
    enrolment = RegistrationState(
        "me", 0.0, driver=BY_ADDRESS, permission=Permission(record, 0)
    )

    enrolment = registration.learn(enrolment, step, held_by(), at(0))  # type: ignore[arg-type]
    told = registration.next_step(enrolment, at(0))

    assert isinstance(told, WriteStatus)
    assert Reason.ADDRESS_IN_USE == told.status.conditions[0].reason
    assert attrs.evolve(record, status=told.status).is_legacy


def test_record_without_an_address_is_found_one() -> None:
    """Where LBCF had only just begun, we begin."""
    record = an_old_record(registered=None, address="")

    step = what_follows(record)

    assert isinstance(step, CallDriver)
    assert Operation.GENERATE_BACKEND_ADDR == step.operation
    taken = registration.learn(
        RegistrationState("me", 0.0, driver=BY_ADDRESS), step, LockTaken(), at(0)
    )
    assert taken.locked


def test_always_ensures_it_after_its_period() -> None:
    """As LBCF did; from then on it is a record of ours."""
    record = an_old_record()
    spec = attrs.evolve(record.spec, ensure_policy=ALWAYS)
    record = attrs.evolve(record, spec=spec)
    enrolment = RegistrationState("me", first_seen=0.0, driver=BY_ADDRESS)

    assert not registration.with_due(enrolment, record, at(59)).due
    assert registration.with_due(enrolment, record, at(60)).due


@pytest.mark.parametrize("registered", [True, False, None])
def test_end_is_confirmed_since_an_ensure_of_lbcf_may_land_late(
    registered: bool | None,
) -> None:
    """Taken out at once, and again when nothing sent before the deletion can arrive."""
    record = an_old_record(registered=registered, deleting=True)
    ending = DeregistrationState(first_seen=0.0, covered=BY_ADDRESS.end_settling)
    ending = ending.begin_turn(BY_ADDRESS)
    reading = deregistration.next_step(ending, at(0))
    observed = Observed(Permission(record, 0.0))
    ending = deregistration.learn(ending, reading, observed, at(0))

    first = deregistration.next_step(ending, at(0))
    assert isinstance(first, CallDriver)
    assert Operation.DEREGISTER_BACKEND == first.operation
    assert not first.final

    ending = deregistration.learn(ending, first, Succeeded(), at(0))
    assert not ending.final_done
    assert deregistration.is_final(ending, record, at(25))


def test_our_own_records_are_none_of_lbcf() -> None:
    """Neither one in the making, nor one that is registered, nor one that lost it."""
    found = a_spec(address="")
    making = a_record(spec=found, status=RecordStatus(ADDRESS), ensuring="me")

    assert not making.is_legacy
    assert not a_record(registered=True).is_legacy
    assert not a_record(spec=found, registered=True).is_legacy
    assert not a_record(spec=found).is_legacy
    assert a_record(registered=True).is_settled


@pytest.mark.parametrize(
    ("registered", "wanted", "elsewhere"),
    [
        (ADDRESS, "10.0.0.2:8080", True),
        (ADDRESS, "[fd00::1]:8080", True),
        ("[fd00::1]:8080", ADDRESS, True),
        ("10.0.0.1:81", ADDRESS, False),
        ("eni-7:8080", ADDRESS, False),
    ],
)
def test_address_in_words_of_an_lbcf_driver_is_no_other_place(
    registered: str, wanted: str, *, elsewhere: bool
) -> None:
    """Another IP with the same port is one; of what has no such form nothing is known."""
    assert elsewhere is is_elsewhere(an_old_record(address=registered), wanted)


def test_only_what_is_registered_is_left_as_it_is() -> None:
    """A record that LBCF never registered is ensured anyway, with the drain."""
    registered, unregistered = an_old_record(), an_old_record(registered=False)
    drained = attrs.evolve(registered.spec, drain=DrainPolicy())

    assert is_needless(registered, drained)
    assert not is_needless(unregistered, drained)


@pytest.mark.parametrize("said", [ForeignReason(""), ForeignReason("Theirs")])
def test_signed_record_keeps_the_reason_that_it_has(said: ForeignReason) -> None:
    """LBCF gave none: then it is the usual one."""
    record = an_old_record()
    [old] = record.status.conditions
    found = (attrs.evolve(old, reason=said),)
    record = attrs.evolve(record, status=attrs.evolve(record.status, conditions=found))

    [condition] = signed(record, START).conditions

    assert (said or Reason.REGISTERED) == condition.reason
