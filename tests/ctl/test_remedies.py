"""What to do is told beside what is wrong, with the names that it takes."""

import attrs
import pytest

from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.names import bind_group_key, bind_load_balancer_key
from lbcf.core.model.operations import Operation
from lbcf.core.model.values import MemberKey, ObjectKey
from lbcf.core.reasons import Reason
from lbcf.ctl.remedies import Trouble, remedied_line, remedy_of
from lbcf.ctl.report import Mark
from lbcf.ctl.status import status_report
from tests.builders import START, a_driver, a_key, a_record, seconds
from tests.ctl.readings import NOW, a_reading, text_of
from tests.ctl.test_records import a_status


def a_trouble(
    reason: Reason,
    message: str = "because",
    *,
    url: str = "http://proxy:8080/",
    key: ObjectKey | None = None,
) -> Trouble:
    """Make what one condition says, of something that a driver at a URL is called for."""
    driver = attrs.evolve(a_driver(), url=url)
    told = Condition(conditions.REGISTERED, False, reason, message, 1, START)
    return Trouble(key or a_key("web"), told, driver)


def test_url_of_a_404_is_told() -> None:
    """The path was wrong, or is another program's."""
    message = "ensureBackend of driver shop/proxy: answered with HTTP status 404"
    told = remedy_of(a_trouble(Reason.DRIVER_BAD_STATUS, message))

    asked = "POST http://proxy:8080/ensureBackend"
    assert f"it was {asked}: is the path in spec.url right?" == told


def test_https_at_a_server_of_plain_http_is_told() -> None:
    """TLS did not come about; nothing says so but the scheme."""
    message = (
        "ensureBackend of driver shop/proxy: not reached: no TLS connection came about"
    )
    told = remedy_of(a_trouble(Reason.DRIVER_UNREACHABLE, message, url="https://p:1"))

    assert "does anything speak TLS at https://p:1? If it speaks plain HTTP, " in told
    assert told.endswith("write spec.url with http://")


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (Reason.DRIVER_BAD_ANSWER, "the answer is not valid HTTP"),
        (Reason.DRIVER_CONNECTION_LOST, "the connection ended before the answer"),
        (
            Reason.DRIVER_BAD_STATUS,
            "healthz of driver shop/proxy: answered with HTTP status 400",
        ),
    ],
)
def test_plain_http_at_a_server_of_https_is_told(reason: Reason, message: str) -> None:
    """Servers answer it in three ways."""
    told = remedy_of(a_trouble(reason, message))

    at = "http://proxy:8080/"
    assert f"if TLS is spoken at {at}, write spec.url with https://" in told
    assert "TLS" not in remedy_of(a_trouble(reason, message, url="https://p:1"))


def test_orphans_are_taken_out_by_a_command() -> None:
    """Where that is possible: not of a Bind, nor where addresses tell members apart."""
    listing = {Operation.LIST_BACKENDS.value: seconds(1)}
    by_record = attrs.evolve(a_driver(), timeouts=listing)
    by_address = attrs.evolve(by_record, member_key=MemberKey.ADDRESS)
    trouble = a_trouble(Reason.MEMBERS_ORPHANED, key=a_key("front"))

    told = remedy_of(attrs.evolve(trouble, driver=by_record))
    assert told.endswith("Then: kubectl lbcf remove-orphans lb/front -n shop")
    of_a_bind = bind_load_balancer_key(a_key("both"), "front")
    for key, driver in ((trouble.key, by_address), (of_a_bind, by_record)):
        other = attrs.evolve(trouble, key=key, driver=driver)
        assert remedy_of(other).endswith("Then take them out there, by hand")


def test_refusal_is_mended_as_the_driver_says() -> None:
    """Its words are in the message; what else it refuses is one command away."""
    told = remedy_of(a_trouble(Reason.DRIVER_REFUSED))

    assert told.startswith("mend what the driver's words name: it is asked again")
    assert told.endswith("kubectl lbcf why driver/proxy -n shop")


@pytest.mark.parametrize("kind", [conditions.DRAINED, conditions.DEREGISTERED])
def test_record_that_waits_for_a_driver_that_is_gone_can_be_abandoned(
    kind: str,
) -> None:
    """One that is to be registered can wait."""
    trouble = a_trouble(Reason.DRIVER_UNREACHABLE)
    stuck = attrs.evolve(trouble, condition=attrs.evolve(trouble.condition, type=kind))

    assert remedy_of(stuck).endswith(
        "kubectl lbcf abandon br/web -n shop --reason TEXT"
    )
    assert remedy_of(stuck).startswith(remedy_of(trouble))
    assert "abandon" not in remedy_of(trouble)


def test_role_that_lets_secrets_be_read_is_named() -> None:
    """With the namespace that it is to be bound in."""
    told = remedy_of(a_trouble(Reason.DRIVER_SECRET_UNREAD))

    assert "bind the ClusterRole lbcf-driver-secrets to our" in told
    assert "in namespace shop: docs/security.md#our-processes" in told


@pytest.mark.parametrize(
    ("key", "command"),
    [
        (a_key("web"), "kubectl patch bg web -n shop --type merge -p "),
        (bind_group_key(a_key("b")), "kubectl patch bind b -n shop --type merge -p "),
    ],
)
def test_command_that_lets_held_removals_through_is_told(
    key: ObjectKey, command: str
) -> None:
    """As it can be pasted."""
    told = remedy_of(a_trouble(Reason.TOO_MANY_UNREADY, key=key))

    patch = '{"spec":{"protection":{"maxUnreadyPercent":null}}}'
    assert f"{command}'{patch}'" in told


def test_sentences_of_the_page_serve_all_other_reasons() -> None:
    """Without Markdown; what only repeats the message is left out."""
    assert "create it, or abandon what waits: docs/operate.md#abandon-a-record" == (
        remedy_of(a_trouble(Reason.DRIVER_NOT_FOUND))
    )
    assert "" == remedy_of(a_trouble(Reason.DRIVER_RUNNING))
    every = [remedy_of(a_trouble(reason)) for reason in Reason]
    assert [] == [text for text in every if "](" in text or "`" in text]


def test_condition_that_says_yes_needs_none() -> None:
    """Only what is wrong has something to be done about it."""
    trouble = a_trouble(Reason.DRIVER_NOT_FOUND)

    assert remedied_line(trouble, NOW).remedy
    assert "" == remedied_line(trouble, NOW, Mark.NONE).remedy


def test_status_and_why_tell_what_to_do() -> None:
    """Below the message, in a line of its own."""
    status = a_status(conditions.REGISTERED, Reason.DRIVER_NOT_TRUSTED)
    found = status_report(a_reading(a_record(status=status)), (), NOW)

    told = "\n      because\n      to do: its certificate; spec.tls.caBundle and"
    assert told in text_of(found)
