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
