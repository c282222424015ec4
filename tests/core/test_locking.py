"""Which load balancers are one: keys as drivers say them, else by URL and identity."""

import pytest

from lbcf.core.lifecycle.locking import canonical_url, key_of, with_key


URL = "http://driver.shop:9000/lb"
INFO = {"name": "front", "site": "a"}


@pytest.mark.parametrize(
    "spelled",
    [
        "HTTP://driver.shop:9000/lb",
        "http://Driver.Shop:9000/lb/",
        "http://driver.shop.:9000/lb",
        "http://driver.shop:09000/lb",
        "http://driver.shop:9000/%6cb",
        "http://driver.shop:9000/./lb",
        "http://driver.shop:9000/x/../lb/.",
        "http://driver.shop:9000/../%2e%2E/lb",
    ],
)
def test_one_url_in_many_spellings(spelled: str) -> None:
    """Whatever the HTTP client takes for one URL is one, and so is its key."""
    assert canonical_url(URL) == canonical_url(spelled)
    assert key_of("", URL, INFO) == key_of("", spelled, INFO)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://a", "http://a:80/"),
        ("https://a/", "HTTPS://A:443"),
        ("http://[fd00::1]:80", "http://[FD00::1]"),
        ("http://[fd00::1]:80", "http://[fd00:0::01]"),
        ("http://a/%2f?x=%6c", "http://a/%2F?x=l"),
    ],
)
def test_default_ports_need_not_be_said(one: str, other: str) -> None:
    """They are those of the scheme."""
    assert canonical_url(one) == canonical_url(other)


@pytest.mark.parametrize(
    "other",
    [
        "https://driver.shop:9000/lb",
        "http://driver.shop:9001/lb",
        "http://driver.bank:9000/lb",
        "http://driver.shop:9000/LB",
        "http://driver.shop:9000/x/lb",
        "http://driver.shop:9000/..lb",
        "http://driver.shop:9000/%2flb",
        "http://driver.shop:9000/lb?x=1",
    ],
)
def test_what_is_another_url(other: str) -> None:
    """Paths are told apart by letter case."""
    assert canonical_url(URL) != canonical_url(other)


@pytest.mark.parametrize("text", ["", "http://[::1", "http://a:port/", "not a url"])
def test_what_is_no_url_is_some_key_all_the_same(text: str) -> None:
    """It locks with what is spelled the same."""
    assert key_of("", text, INFO) == key_of("", text, INFO)


def test_the_order_of_an_identity_means_nothing() -> None:
    """A map has none."""
    other = dict(reversed(INFO.items()))

    assert key_of("", URL, INFO) == key_of("", URL, other)
    assert key_of("", URL, INFO) != key_of("", URL, {**INFO, "site": "b"})


def test_what_a_driver_answers_counts_before_its_url() -> None:
    """Also when it is not asked, or says nothing, the next time."""
    answered = key_of("pool-7", URL, INFO)

    assert answered == key_of("pool-7", "http://elsewhere", {})
    assert answered == key_of("", "http://elsewhere", {}, known=["url:1", answered])
    assert answered != key_of("pool-8", URL, INFO, known=[answered])


def test_a_key_by_url_goes_with_the_url() -> None:
    """A driver that has moved shares its members with all that are there."""
    before = key_of("", URL, INFO)

    assert key_of("", "http://b", INFO) == key_of("", "http://b", INFO, known=[before])


def test_nobodys_answer_is_taken_for_a_url() -> None:
    """Whatever a driver answers."""
    by_url = key_of("", URL, INFO)

    assert by_url != key_of(by_url, URL, INFO)


def test_older_keys_stay_behind_the_newest() -> None:
    """Each once, and not without end."""
    assert ("b", "a") == with_key(("a",), "b")
    assert ("e", "d", "c", "b") == with_key(("d", "c", "b", "a"), "e")


def test_a_key_that_is_known_keeps_its_place() -> None:
    """Who holds a lock under it would take the others in another order."""
    assert ("b", "a") == with_key(("b", "a"), "a")
    assert ("b", "a") == with_key((), "a", ("b", "a"))


def test_keys_of_others_that_are_the_same_come_along() -> None:
    """In their order, behind a newer one; what a lagging view lacks stays before them."""
    assert ("b", "a") == with_key(("a",), "b", ("b", "a"))
    assert ("c", "b", "a") == with_key(("a",), "c", ("b", "a"))
    assert ("c", "b", "a") == with_key(("b", "a"), "c", ("a",))
    assert ("e", "d", "c", "b") == with_key(("a",), "e", ("d", "c", "b", "a"))


@pytest.mark.parametrize(
    ("spelled", "canonical"),
    [
        ("HTTP://A:80/x/?q=%41", "http://a/x?q=A"),
        ("http://a.:81", "http://a:81"),
        ("http://xa.x/x", "http://xa.x/x"),
        ("http://[FD00:0::01]/", "http://[fd00::1]"),
        ("http://a/%2f%c3%bc", "http://a/%2F%C3%BC"),
        ("http://a/x/y/../z", "http://a/x/z"),
        ("http:///x", "http:///x"),
        ("http://aX", "http://ax"),
        ("http://a/X", "http://a/X"),
    ],
)
def test_canonical_spelling(spelled: str, canonical: str) -> None:
    """It is what records hold locks under: another version must not spell it otherwise."""
    assert canonical == canonical_url(spelled)
