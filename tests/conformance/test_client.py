"""How answers are read: leniently for all rules, strictly for the one on answers."""

import pytest

from lbcf.conformance.client import check_answer, read_answer
from lbcf.conformance.findings import Broken, Exchange
from lbcf.core.model.operations import Operation


ENSURE = Operation.ENSURE_BACKEND
DRAIN = Operation.DRAIN_BACKEND


def an_exchange(
    operation: Operation, answer: str, status: int | None = 200, trouble: str = ""
) -> Exchange:
    """Return an exchange that ended with this answer."""
    return Exchange(operation, b"{}", status, answer.encode(), trouble)


@pytest.mark.parametrize(
    ("exchange", "message"),
    [
        (
            an_exchange(ENSURE, "", None, "no answer: refused"),
            "ensureBackend got no answer: no answer: refused",
        ),
        (
            an_exchange(ENSURE, '{"status": "Succ"}', 201),
            "ensureBackend answered HTTP 201, not 200: how it went is said in the body",
        ),
        (an_exchange(ENSURE, "x" * (1 << 20 | 1)), "the answer is over"),
        (an_exchange(ENSURE, "<html>"), "ensureBackend: "),
        (an_exchange(ENSURE, '{"status": "Done"}'), "ensureBackend: "),
    ],
    ids=["nothing came", "another status", "too large", "no JSON", "no status"],
)
def test_answers_that_controllers_do_not_take(exchange: Exchange, message: str) -> None:
    """The text says which, and the exchange that showed it is kept."""
    with pytest.raises(Broken, match=message) as found:
        read_answer(ENSURE, exchange)

    assert found.value.exchange is exchange


@pytest.mark.parametrize(
    ("operation", "status", "message"),
    [
        (ENSURE, 302, "redirects are not followed"),
        (ENSURE, 400, "it takes this for no request of the operation"),
        (ENSURE, 401, "give --token-file"),
        (ENSURE, 403, "give --cert-file"),
        (ENSURE, 404, "it is not served, and each driver must serve it"),
        (DRAIN, 404, "--operations names it, and it is not served"),
        (ENSURE, 503, "not 200: how it went is said in the body"),
        (
            Operation.VALIDATE_BACKEND,
            503,
            "it cannot tell now: run the kit while its load balancer can be reached",
        ),
    ],
)
def test_what_another_status_means_is_told(
    operation: Operation, status: int, message: str
) -> None:
    """By the protocol's table of codes."""
    with pytest.raises(Broken) as found:
        read_answer(operation, an_exchange(operation, "", status))

    assert f"{operation} answered HTTP {status}" in found.value.text
    assert message in found.value.text


@pytest.mark.parametrize(
    ("operation", "answer", "message"),
    [
        (ENSURE, '{"status": "Running", "minRetryDelayInSeconds": -1}', "not 0 to"),
        (ENSURE, '{"status": "Running", "minRetryDelayinSeconds": "3601"}', "not 0 to"),
        (DRAIN, '{"status": "Succ", "activeConnections": 2}', "2 connections are left"),
    ],
)
def test_what_controllers_put_right_is_found_by_the_strict_rule_alone(
    operation: Operation, answer: str, message: str
) -> None:
    """All other rules are about something else."""
    exchange = an_exchange(operation, answer)
    read_answer(operation, exchange)

    with pytest.raises(Broken, match=message):
        check_answer(operation, exchange)


@pytest.mark.parametrize("delay", ["0", '"3600"', "null", '""', "1.5"])
def test_delays_of_all_forms_are_right(delay: str) -> None:
    """LBCF's drivers send numbers and strings."""
    answer = f'{{"status": "Running", "minRetryDelayInSeconds": {delay}}}'

    check_answer(ENSURE, an_exchange(ENSURE, answer))
