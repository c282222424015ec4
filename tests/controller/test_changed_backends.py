"""Which pods of a group changed since it was last looked at."""

from lbcf.controller.triggers import ChangedBackends
from tests.builders import a_key


WEB, API = a_key("web"), a_key("api")


def test_changed_pods_are_taken_once() -> None:
    """Taking them forgets them; nothing noted means the whole group."""
    scopes = ChangedBackends()
    scopes.note(WEB, "web-1")
    scopes.note(WEB, "web-2")

    assert {"web-1", "web-2"} == scopes.take(WEB)
    assert None is scopes.take(WEB)


def test_widening_outdoes_all_notes() -> None:
    """Whichever came first."""
    before, after = ChangedBackends(), ChangedBackends()
    before.note(WEB, "web-1")
    before.widen(WEB)
    after.widen(WEB)
    after.note(WEB, "web-1")

    assert None is before.take(WEB)
    assert None is after.take(WEB)


def test_widening_lasts_for_one_look() -> None:
    """The next one is as narrow as what was noted since."""
    scopes = ChangedBackends()
    scopes.widen(WEB)
    scopes.take(WEB)
    scopes.note(WEB, "web-1")

    assert {"web-1"} == scopes.take(WEB)


def test_groups_do_not_mix() -> None:
    """Each has its own notes."""
    scopes = ChangedBackends()
    scopes.note(WEB, "web-1")
    scopes.widen(API)

    assert {"web-1"} == scopes.take(WEB)


def test_pods_that_are_held_are_part_of_each_look() -> None:
    """Whoever else has changed; until they are held no more."""
    scopes = ChangedBackends()
    scopes.hold(WEB, frozenset({"old-1"}))
    scopes.note(WEB, "web-1")

    assert {"web-1"} == scopes.pending(WEB)
    assert {"old-1", "web-1"} == scopes.take(WEB)
    assert set() == scopes.pending(WEB)
    assert {"old-1"} == scopes.take_leaving(WEB)
    assert (WEB,) == scopes.holding()
    scopes.hold(WEB, frozenset())
    scopes.note(WEB, "web-1")
    assert {"web-1"} == scopes.take(WEB)
    assert (set(), ()) == (scopes.take_leaving(WEB), scopes.holding())


def test_look_at_the_whole_group_has_those_that_are_held() -> None:
    """It leaves nobody out."""
    scopes = ChangedBackends()
    scopes.hold(WEB, frozenset({"old-1"}))
    scopes.widen(WEB)

    assert None is scopes.pending(WEB)
    assert None is scopes.take(WEB)
