"""Names of records and labels: short, legal, the same at every run, never shared."""

import re

import pytest

from hypothesis import given
from hypothesis import strategies as st

from lbcf.core.model import names
from lbcf.core.model.values import ObjectKey


DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

IDENTITIES = st.lists(st.text(max_size=8), min_size=1, max_size=4)


@given(st.text(max_size=300), st.text(max_size=300), st.integers(0, 65535), IDENTITIES)
def test_record_name_is_a_dns_label(
    group: str, backend: str, number: int, identity: list[str]
) -> None:
    """Whatever people call their groups and pods, the name is RFC 1123 and fits 63."""
    assert DNS_LABEL.fullmatch(names.record_name(group, backend, number, identity))


@given(IDENTITIES, IDENTITIES)
def test_names_differ_exactly_where_identities_do(
    one: list[str], other: list[str]
) -> None:
    """The hash tells apart what the readable part cannot, and nothing else."""
    first = names.record_name("web", "web-1", 80, one)
    second = names.record_name("web", "web-1", 80, other)

    assert (one == other) is (first == second)


def test_record_name_is_the_same_at_every_run() -> None:
    """A create that nobody answered is found again by another process."""
    name = names.record_name("web", "web-1", 8080, ["web", "uid", "front"])

    assert "web-web-1-8080-8c4822f96798" == name


def test_long_names_keep_their_hash() -> None:
    """What is cut off is the readable part, without a dash at its end."""
    name = names.record_name("g" * 49 + "-" + "x" * 50, "pod", 1, ["a"])

    assert "g" * 49 + "-" + names.digest(["a"]) == name
    assert 63 == len(names.record_name("g" * 50, "pod", 1, ["a"]))


def test_name_of_which_nothing_can_be_read_is_a_record_s() -> None:
    """A name must begin with a letter or a digit."""
    assert f"record-{names.digest(['a'])}" == names.record_name("é" * 60, "", 1, ["a"])


def test_parts_of_an_identity_do_not_run_together() -> None:
    """The same letters, divided otherwise, are another identity."""
    assert names.digest(["ab", "c"]) != names.digest(["a", "bc"])
    assert names.digest(["a", ""]) != names.digest(["a"])


@given(st.text(max_size=100))
def test_label_value_is_always_legal(text: str) -> None:
    """Names may be longer than labels, and addresses hold signs that labels do not."""
    assert LABEL_VALUE.fullmatch(names.label_value(text))


@pytest.mark.parametrize("text", ["web", "Web_1.a-b", "x" * 63, "9"])
def test_label_value_is_the_text_itself_where_it_can(text: str) -> None:
    """People look for records by the names that they know."""
    assert text == names.label_value(text)


@pytest.mark.parametrize("text", ["-web", "web.", "10.0.0.1:80", "x" * 64, "é", ""])
def test_label_value_is_a_hash_where_it_must(text: str) -> None:
    """What a label cannot hold is found by its hash."""
    assert names.digest([text], 40) == names.label_value(text)


@pytest.mark.parametrize(
    ("name", "home"),
    [
        pytest.param("front", ObjectKey("shop", "front"), id="own"),
        pytest.param("lbcf-front", ObjectKey("kube-system", "lbcf-front"), id="shared"),
        pytest.param("my-lbcf-front", ObjectKey("shop", "my-lbcf-front"), id="inside"),
    ],
)
def test_shared_objects_live_in_kube_system(name: str, home: ObjectKey) -> None:
    """The prefix decides, as LBCF has it."""
    assert home == names.home_of(name, "shop")
