"""The driver protocol's bytes: round trips, old spellings, and foreign input."""

import json

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from hypothesis import given
from hypothesis import strategies as st

from lbcf.core.model.operations import Operation
from lbcf.core.model.values import MemberKey
from lbcf.wire import driver
from lbcf.wire import driver_answers as answers
from lbcf.wire.driver import (
    LARGEST_MAP,
    LONGEST_DELAY,
    LONGEST_MESSAGE,
    MOST_KEYS,
    Malformed,
    parse_answer,
    parse_request,
    render_answer,
    render_request,
)
from lbcf.wire.driver_answers import (
    LONGEST_ADDRESS,
    LONGEST_EPOCH,
    BackendAnswer,
    DrainBackendAnswer,
    ListBackendsAnswer,
    RetriedAnswer,
    Status,
)
from lbcf.wire.driver_requests import (
    BackendType,
    EnsureBackendRequest,
    GenerateBackendAddrRequest,
    HealthzRequest,
    PodBackend,
    PortSelector,
    ValidateBackendRequest,
    ValidationOperation,
)
from tests.kube.tiny_schemas import schema_of
from tests.wire.driver_strategies import ANSWERS, REQUESTS


EVERY = pytest.mark.parametrize("operation", list(Operation))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["status", "succ", "msg", "recordID", "lbInfo", "port", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


def asked(**said: object) -> bytes:
    """Write an ensureBackend request with these fields beside those it must have."""
    return json.dumps({"recordID": "r", "backendAddr": "1.2.3.4:5"} | said).encode()


def answered(**said: object) -> bytes:
    """Write a Succ with these fields beside."""
    return json.dumps({"status": "Succ"} | said).encode()


def retried(body: bytes) -> BackendAnswer:
    """Read the answer to an ensureBackend."""
    answer = parse_answer(Operation.ENSURE_BACKEND, body)
    assert isinstance(answer, BackendAnswer)
    return answer


@EVERY
def test_every_operation_has_both_types(operation: Operation) -> None:
    """Each operation is told what is asked and what is answered."""
    assert operation in driver.REQUESTS
    assert operation in driver.ANSWERS


@EVERY
@given(data=st.data())
def test_requests_come_back_as_they_went(
    operation: Operation, data: st.DataObject
) -> None:
    """What is rendered and parsed is the same request again."""
    request = data.draw(REQUESTS[operation])

    assert request == parse_request(operation, render_request(request))


@EVERY
@given(data=st.data())
def test_answers_come_back_as_they_went(
    operation: Operation, data: st.DataObject
) -> None:
    """What is rendered and parsed is the same answer again."""
    answer = data.draw(ANSWERS[operation])

    assert answer == parse_answer(operation, render_answer(answer))


@EVERY
@given(data=st.data())
def test_letter_case_of_fields_does_not_matter(
    operation: Operation, data: st.DataObject
) -> None:
    """Capitals, as Go's decoder takes them, make no other message."""
    request, answer = data.draw(REQUESTS[operation]), data.draw(ANSWERS[operation])

    assert request == parse_request(operation, _shouted(render_request(request)))
    assert answer == parse_answer(operation, _shouted(render_answer(answer)))


def _shouted(body: bytes) -> bytes:
    """Write the names of the outermost fields in capitals."""
    return json.dumps({k.upper(): v for k, v in json.loads(body).items()}).encode()


@EVERY
@given(data=st.data())
def test_unknown_fields_and_nulls_are_skipped(
    operation: Operation, data: st.DataObject
) -> None:
    """A field from the future, and one that is null, change nothing."""
    request = data.draw(REQUESTS[operation])
    body = json.loads(render_request(request)) | {"future": {"a": [1]}}
    missing = {name: None for name in ("drain", "notAfter") if name not in body}

    assert request == parse_request(operation, json.dumps(body | missing).encode())


@EVERY
@given(body=st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode()))
def test_foreign_input_is_malformed_or_a_message(
    operation: Operation, body: bytes
) -> None:
    """Nothing but Malformed is raised, whatever comes in."""
    for parse in (parse_request, parse_answer):
        try:
            parse(operation, body)
        except Malformed as error:
            assert "not a valid" in str(error) or "Delay" in str(error)  # noqa: PT017


ODD = JSON | st.sampled_from([1.0, 1.5, 3600, 3601, -1, "5", "", "Succ", 10**30])


@EVERY
@given(data=st.data())
def test_the_short_way_reads_what_the_long_way_reads(
    operation: Operation, data: st.DataObject
) -> None:
    """Whether all is in our own spelling decides how a message is read, not as what."""
    whole = json.loads(render_answer(data.draw(ANSWERS[operation])))
    whole.pop("minRetryDelayinSeconds", None)
    odd = data.draw(st.dictionaries(st.sampled_from(sorted(whole)), ODD, max_size=2))
    asked_for = json.loads(render_request(data.draw(REQUESTS[operation])))
    asked_for.pop("OldParameters", None)

    for parse, said in ((parse_answer, whole | odd), (parse_request, asked_for)):
        assert _read(parse, operation, said) == _read(
            parse, operation, said | {"future": 1}
        )


def _read(
    parse: Callable[[Operation, bytes], object],
    operation: Operation,
    said: dict[str, object],
) -> object:
    """Return the message, or what is wrong with it."""
    try:
        return parse(operation, json.dumps(said).encode())
    except Malformed as error:
        return str(error)


def test_nested_fields_take_any_letter_case_but_whole_objects_stay() -> None:
    """A pod keeps its own field names and its nulls."""
    body = json.dumps(
        {
            "recordid": "r",
            "PODBACKEND": {"Pod": {"Kind": "Pod", "x": None}, "Port": {"PORT": 80}},
        }
    ).encode()

    request = parse_request(Operation.GENERATE_BACKEND_ADDR, body)

    assert isinstance(request, GenerateBackendAddrRequest)
    assert (
        PodBackend(pod={"Kind": "Pod", "x": None}, port=PortSelector(port=80))
        == request.pod_backend
    )


@pytest.mark.parametrize("name", ["port", "portNumber", "Port", "portnumber"])
def test_either_name_of_a_port_gives_both(name: str) -> None:
    """A port that came in one spelling goes out in both."""
    body = json.dumps(
        {"recordID": "r", "podBackend": {"pod": {}, "port": {name: 8080}}}
    ).encode()

    sent = json.loads(
        render_request(parse_request(Operation.GENERATE_BACKEND_ADDR, body))
    )

    assert {"port": 8080, "portNumber": 8080, "protocol": "TCP"} == sent["podBackend"][
        "port"
    ]


def test_old_parameters_are_sent_in_both_spellings() -> None:
    """LBCF's code reads one spelling, drivers after its document the other."""
    request = ValidateBackendRequest(
        backend_type=BackendType.POD,
        operation=ValidationOperation.UPDATE,
        old_parameters={"weight": "1"},
    )

    sent = json.loads(render_request(request))

    assert {"weight": "1"} == sent["oldParameters"] == sent["OldParameters"]


def test_retry_delay_is_sent_in_both_spellings() -> None:
    """A caller after LBCF's document finds the delay too."""
    answer = RetriedAnswer(status=Status.RUNNING, min_retry_delay_in_seconds=7)

    sent = json.loads(render_answer(answer))

    assert 7 == sent["minRetryDelayInSeconds"] == sent["minRetryDelayinSeconds"]


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        pytest.param(5, 5, id="a number"),
        pytest.param("5", 5, id="a number in a string"),
        pytest.param(" 5 ", 5, id="with spaces"),
        pytest.param(1.2, 2, id="a fraction is rounded up"),
        pytest.param("", 0, id="an empty string is unsaid"),
        pytest.param(None, 0, id="null is unsaid"),
        pytest.param(-3, 0, id="negative is none"),
        pytest.param("-3", 0, id="negative in a string"),
        pytest.param(10**30, LONGEST_DELAY, id="huge is cut"),
        pytest.param("1e999", LONGEST_DELAY, id="infinite is cut"),
    ],
)
@pytest.mark.parametrize(
    "name",
    ["minRetryDelayInSeconds", "minRetryDelayinSeconds", "MINRETRYDELAYINSECONDS"],
)
def test_retry_delay_is_read(name: str, said: object, seconds: int) -> None:
    """A driver's wish is understood in every spelling, and cut to size."""
    assert seconds == retried(answered(**{name: said})).min_retry_delay_in_seconds


@pytest.mark.parametrize("said", ["soon", "nan", True, [], {"a": 1}])
def test_retry_delay_must_be_a_number(said: object) -> None:
    """What is no number makes the answer invalid, and is not quoted."""
    with pytest.raises(Malformed, match=r"must be a number of seconds$"):
        retried(answered(minRetryDelayInSeconds=said))


def test_long_messages_are_cut() -> None:
    """A driver cannot fill conditions without end."""
    assert "x" * LONGEST_MESSAGE == retried(answered(msg="x" * 1000)).msg


def test_last_of_two_spellings_counts() -> None:
    """Go's decoder writes each into the same field."""
    assert "b" == retried(b'{"status": "Succ", "msg": "a", "Msg": "b"}').msg


def test_null_after_a_value_leaves_it() -> None:
    """Go's decoder does nothing at a null."""
    assert "a" == retried(b'{"status": "Succ", "msg": "a", "Msg": null}').msg


def test_null_in_a_map_is_an_empty_string() -> None:
    """Go reads it so; the key counts."""
    assert {"a": "", "B": "c"} == retried(
        answered(injectedInfo={"a": None, "B": "c"})
    ).injected_info


def test_unsaid_injected_info_is_none() -> None:
    """Saying nothing is told apart from saying that there is nothing."""
    assert retried(answered()).injected_info is None
    assert {} == retried(answered(injectedInfo={})).injected_info


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(b"", "truncated", id="empty"),
        pytest.param(b"<html>", "malformed", id="html"),
        pytest.param(b'{"status": "Su', "truncated", id="cut"),
        pytest.param(b'{"status": "Succ"} x', "trailing", id="more after it"),
        pytest.param(b'{"status": "\xff"}', "not UTF-8", id="no UTF-8"),
        pytest.param(b"[" * 100_000, "nested too deeply", id="deep"),
        pytest.param(b"[]", "got `array`", id="an array"),
        pytest.param(b"{}", "`status`", id="no status"),
        pytest.param(b'{"status": null}', "`status`", id="null status"),
        pytest.param(answered(msg=5), r"\$\.msg", id="a number as text"),
        pytest.param(answered(injectedInfo={"a": 1}), "injectedInfo", id="wrong map"),
        pytest.param(answered(injectedInfo=["a"]), "injectedInfo", id="no map"),
    ],
)
def test_broken_answers_are_told(body: bytes, text: str) -> None:
    """The error names what is wrong, and where."""
    with pytest.raises(Malformed, match=text):
        retried(body)


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        ({"a": "x" * 8192, "b": "x" * 8191}, "at most 16384 characters"),
        ({"k" * 16383: "xx"}, "at most 16384 characters"),
        ({f"k{number}": "" for number in range(257)}, "at most 256 keys"),
    ],
    ids=["values", "keys", "many"],
)
def test_what_cannot_be_kept_is_no_answer(kept: dict[str, str], text: str) -> None:
    """The API server would refuse the record, and nobody could say why."""
    for operation in ("ensureBackend", "drainBackend", "deregisterBackend"):
        with pytest.raises(Malformed, match=f"injectedInfo must have {text}"):
            parse_answer(Operation(operation), answered(injectedInfo=kept))
    with pytest.raises(Malformed, match=f"lbInfo must have {text}"):
        parse_answer(Operation.CREATE_LOAD_BALANCER, answered(lbInfo=kept))


def test_the_largest_map_is_kept() -> None:
    """Just as much as may be."""
    kept = {"a": "x" * 8192, "b": "x" * 8190}

    assert kept == retried(answered(injectedInfo=kept)).injected_info


@pytest.mark.parametrize("status", ["succ", "SUCC", "Success", "", "secret - at x"])
def test_status_is_taken_literally_and_not_quoted(status: str) -> None:
    """LBCF compares exactly; a foreign page's words do not get out."""
    with pytest.raises(Malformed, match=r"unknown word - at `\$\.status`$"):
        retried(answered(status=status))


IMPOSSIBLE = pytest.mark.parametrize("count", [-1, 2**63, 10**23, 10**30])


@IMPOSSIBLE
def test_counts_that_cannot_be_are_malformed(count: int) -> None:
    """A count that cannot be, or that no status can hold, is no answer."""
    with pytest.raises(Malformed, match="activeConnections"):
        parse_answer(Operation.DRAIN_BACKEND, answered(activeConnections=count))


@IMPOSSIBLE
def test_counts_that_cannot_be_are_malformed_in_lists(count: int) -> None:
    """So is the whole list; of a batch only the item, which is taken for unanswered."""
    said = {"activeConnections": count}
    member = {"backendAddr": "192.0.2.1:80", "state": "Active", **said}
    with pytest.raises(Malformed, match="activeConnections"):
        parse_answer(Operation.LIST_BACKENDS, answered(backends=[member]))

    items = [{"recordID": name, "status": "Running"} for name in "ab"]
    body = answered(results=[{**items[0], **said}, items[1]])
    batch = parse_answer(Operation.DRAIN_BACKENDS, body)
    assert isinstance(batch, answers.DrainBackendsAnswer)
    assert ["b"] == [result.record_id for result in batch.results]


def test_addresses_and_epochs_that_cannot_be_kept_are_malformed() -> None:
    """The API server would refuse the status, turn after turn."""
    for said in ("a" * 4097, "192.0.2.1\x1b[2J", "192.0.2.1\u202e"):
        with pytest.raises(Malformed, match="backendAddr"):
            parse_answer(Operation.GENERATE_BACKEND_ADDR, answered(backendAddr=said))
    for said in ("a" * 1025, "1\n"):
        with pytest.raises(Malformed, match="epoch"):
            parse_answer(Operation.LIST_BACKENDS, answered(epoch=said))


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("backendAddr", "a" * 4097),
        ("backendAddr", "192.0.2.1\x1b[2J"),
        ("recordID", "a" * 254),
        ("recordID", "\u202eexe.gnp"),
    ],
)
def test_members_that_no_condition_can_name_are_malformed(
    field: str, said: str
) -> None:
    """Who belongs to no record is named in the status of its load balancer."""
    member = {"backendAddr": "192.0.2.1:80", "recordID": "uid-1", "state": "Active"}
    body = answered(backends=[member, {**member, field: said}])

    with pytest.raises(Malformed, match="backend"):
        parse_answer(Operation.LIST_BACKENDS, body)


def test_ingress_is_read_as_it_is_said() -> None:
    """An empty list says that there is none, a missing one nothing at all."""
    said = [
        {"IP": "2001:db8::1", "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]},
        {"hostname": "front.example.com", "zone": "a", "ports": None},
    ]
    found = parse_answer(Operation.CREATE_LOAD_BALANCER, answered(ingress=said))
    nothing = parse_answer(Operation.ENSURE_LOAD_BALANCER, answered())
    none = parse_answer(Operation.ENSURE_LOAD_BALANCER, answered(ingress=[]))

    assert isinstance(found, answers.CreateLoadBalancerAnswer)
    assert [
        answers.Ingress(
            ip="2001:db8::1",
            ports=[
                answers.IngressPort(port=80),
                answers.IngressPort(port=53, protocol="UDP"),
            ],
        ),
        answers.Ingress(hostname="front.example.com"),
    ] == found.ingress
    assert isinstance(nothing, answers.EnsureLoadBalancerAnswer)
    assert isinstance(none, answers.EnsureLoadBalancerAnswer)
    assert (None, []) == (nothing.ingress, none.ingress)


@pytest.mark.parametrize(
    ("one", "text"),
    [
        ({}, "one of ip and hostname"),
        ({"ip": "10.0.0.1", "hostname": "a.b"}, "one of ip and hostname"),
        ({"ip": "10.0.0.256"}, "neither IPv4 nor IPv6"),
        ({"ip": "fe80::1%eth0"}, "neither IPv4 nor IPv6"),
        ({"hostname": "Front.example.com"}, "no DNS name"),
        ({"hostname": "-a.b"}, "no DNS name"),
        ({"hostname": "a..b"}, "no DNS name"),
        ({"hostname": "a." * 126 + "bc"}, "no DNS name"),
        ({"ip": "10.0.0.1", "ports": [{"port": 0}]}, "port"),
        ({"ip": "10.0.0.1", "ports": [{"port": 1, "protocol": "SCTP"}]}, "protocol"),
        ({"ip": "10.0.0.1", "ports": [{"port": 1}] * 101}, "ports"),
    ],
)
def test_ingress_that_no_service_can_have_is_no_answer(
    one: dict[str, object], text: str
) -> None:
    """The API server would refuse the Service's status, turn after turn."""
    for operation in ("createLoadBalancer", "ensureLoadBalancer"):
        with pytest.raises(Malformed, match=text):
            parse_answer(Operation(operation), answered(ingress=[one]))
    many = [{"ip": f"10.0.0.{n}"} for n in range(17)]
    with pytest.raises(Malformed, match="ingress"):
        parse_answer(Operation.CREATE_LOAD_BALANCER, answered(ingress=many))


@pytest.mark.parametrize(
    ("plural", "path", "limit"),
    [
        ("backendrecords", "status.backendAddr.maxLength", LONGEST_ADDRESS),
        ("backendrecords", "status.injectedInfo.maxProperties", MOST_KEYS),
        (
            "backendrecords",
            "status.injectedInfo.additionalProperties.maxLength",
            LARGEST_MAP,
        ),
        ("backendrecords", "spec.lbInfo.maxProperties", MOST_KEYS),
        ("backendrecords", "spec.lbInfo.additionalProperties.maxLength", LARGEST_MAP),
        ("backendrecords", "status.drain.activeConnections.format", "int64"),
        ("backendrecords", "status.drain.activeConnections.minimum", 0),
        ("loadbalancers", "status.lbInfo.maxProperties", MOST_KEYS),
        ("loadbalancers", "status.lbInfo.additionalProperties.maxLength", LARGEST_MAP),
        ("loadbalancers", "status.epoch.maxLength", LONGEST_EPOCH),
        ("loadbalancers", "status.ingress.maxItems", answers.MOST_INGRESS),
    ],
)
def test_answers_are_bounded_as_the_kinds_are(
    plural: str, path: str, limit: object
) -> None:
    """What is taken from a driver can be stored."""
    found: object = schema_of(plural)
    for step in path.split("."):
        assert isinstance(found, dict)
        found = found[step] if step in found else found["properties"][step]

    assert limit == found


def test_messages_show_what_they_say() -> None:
    """Neither a terminal nor a reader can be led astray."""
    said = "full\x1b[31m\x1b]0;title\x07 of\r\n\u202egnp.exe\u200b\x00"

    assert "full of  gnp.exe" == retried(answered(msg=said)).msg


def test_unsaid_connections_are_none() -> None:
    """A driver that cannot count says nothing."""
    answer = parse_answer(Operation.DRAIN_BACKEND, answered())

    assert isinstance(answer, DrainBackendAnswer)
    assert answer.active_connections is None


def test_a_list_without_status_is_a_success() -> None:
    """The status is there only to say that it could not be listed."""
    answer = parse_answer(Operation.LIST_BACKENDS, b'{"epoch": "1"}')

    assert ListBackendsAnswer(epoch="1") == answer


@pytest.mark.parametrize("operation", ["healthz", "judgePodDeregister"])
def test_a_verdict_must_be_said(operation: str) -> None:
    """A missing yes is not taken for a no: the answer is invalid."""
    with pytest.raises(Malformed, match="missing required field"):
        parse_answer(Operation(operation), b"{}")


@pytest.mark.parametrize(
    "backends",
    [
        pytest.param({}, id="none"),
        pytest.param(
            {
                "podBackend": {"pod": {}, "port": {"port": 1}},
                "nodeBackend": {"node": {}, "port": {"port": 1}},
            },
            id="two",
        ),
    ],
)
def test_an_address_is_asked_of_one_backend(backends: dict[str, object]) -> None:
    """Neither none nor several make a request."""
    body = json.dumps({"recordID": "r"} | backends).encode()

    with pytest.raises(Malformed, match="exactly one"):
        parse_request(Operation.GENERATE_BACKEND_ADDR, body)


@pytest.mark.parametrize("port", [{}, {"port": 0}, {"port": 65536}, {"port": "80"}])
def test_a_port_is_a_number_in_range(port: dict[str, object]) -> None:
    """Ports are 1 to 65535."""
    body = json.dumps({"recordID": "r", "podBackend": {"pod": {}, "port": port}})

    with pytest.raises(Malformed, match="port"):
        parse_request(Operation.GENERATE_BACKEND_ADDR, body.encode())


def test_not_after_is_rfc_3339_in_utc() -> None:
    """The limit goes out as Go and people read it."""
    request = EnsureBackendRequest(
        record_id="r",
        backend_addr="1.2.3.4:5",
        not_after=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )

    assert "2026-01-02T03:04:05Z" == json.loads(render_request(request))["notAfter"]


def test_not_after_without_zone_is_refused() -> None:
    """A moment without a zone is none."""
    with pytest.raises(Malformed, match="notAfter"):
        parse_request(Operation.ENSURE_BACKEND, asked(notAfter="2026-01-02T03:04:05"))


def test_healthz_may_have_no_body() -> None:
    """LBCF's periodic look brings none."""
    assert HealthzRequest() == parse_request(Operation.HEALTHZ, b"")


def test_a_plain_request_of_lbcf_is_read() -> None:
    """What LBCF in Go sends needs nothing of what is new."""
    request = parse_request(Operation.ENSURE_BACKEND, asked(dryRun=False, lbInfo=None))

    assert (
        EnsureBackendRequest(record_id="r", backend_addr="1.2.3.4:5", lb_info={})
        == request
    )


def test_unsaid_fields_are_not_sent() -> None:
    """A driver that knows nothing of a new field is not shown a null."""
    request = EnsureBackendRequest(record_id="r", backend_addr="1.2.3.4:5")

    assert "notAfter" not in json.loads(render_request(request))


@pytest.mark.parametrize(
    "operation",
    [
        Operation.VALIDATE_LOAD_BALANCER,
        Operation.CREATE_LOAD_BALANCER,
        Operation.ENSURE_LOAD_BALANCER,
        Operation.GENERATE_BACKEND_ADDR,
        Operation.ENSURE_BACKEND,
        Operation.DRAIN_BACKEND,
        Operation.DEREGISTER_BACKEND,
    ],
)
def test_a_caller_need_not_say_its_member_key(operation: Operation) -> None:
    """LBCF does not know the field: then nothing is said of it, in neither direction."""
    body = {"recordID": "r", "backendAddr": "a", "podBackend": POD_BACKEND}

    def read(**more: object) -> object:
        request = parse_request(operation, json.dumps(body | more).encode())
        said = json.loads(render_request(request)).get("memberKey", "unsaid")
        return getattr(request, "member_key", "no field"), said

    assert (None, "unsaid") == read() == read(memberKey=None)
    assert (MemberKey.RECORD, "Record") == read(memberKey="Record")
    with pytest.raises(Malformed):
        read(memberKey="Name")


POD_BACKEND = {"pod": {}, "port": {"port": 80}}
