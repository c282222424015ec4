"""The store tells one story of what watch, lists and own writes tell at their speed.

Aspects: look-ups and indexes, the keep filter, listeners, own writes that are ahead of
the watch or behind it, relists, unreadable objects, versions that are no numbers; and
that any interleaving ends with the server's state.
"""

import attrs
import pytest

from hypothesis import given
from hypothesis import strategies as st

from lbcf.core.model.values import Uid
from lbcf.kube.list_watch import (
    Bookmark,
    Event,
    Obscured,
    Page,
    Put,
    Removed,
    Unreadable,
)
from lbcf.kube.store import Store
from lbcf.wire.metadata import Identity
from tests.kube.builders import Thing, a_thing, key


Told = list[tuple[Thing | None, Thing | None]]


def removed(name: str, version: int, uid: str = "") -> Removed:
    """Make a deletion as the watch tells it."""
    return Removed(Identity(key(name), Uid(uid or f"uid-{name}"), str(version)))


def unreadable(name: str, version: int) -> Unreadable:
    """Make an object that cannot be read."""
    return Unreadable(Identity(key(name), Uid(f"uid-{name}"), str(version)), "no text")


def page(
    *objects: Thing, version: int, broken: tuple[Unreadable, ...] = ()
) -> Page[Thing]:
    """Make a whole list."""
    return Page(objects, broken, str(version))


def listening(store: Store[Thing]) -> Told:
    """Return a list to which each change is added from now on."""
    told: Told = []
    store.on_change(lambda old, new: told.append((old, new)))
    return told


def relist(store: Store[Thing], *objects: Thing, version: int) -> None:
    """Ask for a list and take its answer, with nothing in between."""
    store.begin_list()
    store.replace(page(*objects, version=version))


@pytest.fixture(name="store")
def _store() -> Store[Thing]:
    """Indexed by words of the text; holds no text that says `hidden`."""
    return Store(
        {"word": lambda thing: thing.text.split()},
        keep=lambda thing: thing.text != "hidden",
    )


class TestLookUp:
    """What deciders read."""

    def test_get_values_len(self, store: Store[Thing]) -> None:
        """An object is found by its key, among all, and counted."""
        store.apply(Put(a_thing("a", 1)))

        assert a_thing("a", 1) == store.get(key("a"))
        assert [a_thing("a", 1)] == list(store.values())
        assert 1 == len(store)
        assert store.get(key("b")) is None

    def test_index_follows_changes(self, store: Store[Thing]) -> None:
        """An object is found by what it says now, and by that alone."""
        store.apply(Put(a_thing("a", 1, "red red blue")))
        store.apply(Put(a_thing("b", 2, "blue")))
        store.apply(Put(a_thing("a", 3, "green blue")))

        assert () == store.by_index("word", "red")
        assert {a_thing("a", 3, "green blue").meta.key, key("b")} == {
            thing.meta.key for thing in store.by_index("word", "blue")
        }
        assert (0, 2) == (store.count("word", "red"), store.count("word", "blue"))

    def test_index_forgets_what_is_gone(self, store: Store[Thing]) -> None:
        """A deleted object is not found."""
        store.apply(Put(a_thing("a", 1, "red")))
        store.apply(removed("a", 2))

        assert () == store.by_index("word", "red")

    def test_object_that_is_no_longer_kept_is_told_as_gone(
        self, store: Store[Thing]
    ) -> None:
        """It leaves when it changes so; one that never was kept is never told."""
        store.apply(Put(a_thing("a", 1)))
        told = listening(store)
        store.apply(Put(a_thing("a", 2, "hidden")))
        store.apply(Put(a_thing("b", 3, "hidden")))
        store.apply(removed("b", 4))

        assert [(a_thing("a", 1), None)] == told
        assert 0 == len(store)
        assert 4 == store.progress


class TestListeners:
    """What triggers hear."""

    def test_order_is_that_of_registration(self, store: Store[Thing]) -> None:
        """Each change goes to the first listener first."""
        heard: list[str] = []
        store.on_change(lambda _old, _new: heard.append("first"))
        store.on_change(lambda _old, _new: heard.append("second"))
        store.apply(Put(a_thing("a", 1)))

        assert ["first", "second"] == heard

    def test_one_that_fails_does_not_harm_the_others(self, store: Store[Thing]) -> None:
        """The change is in the store, and the next listener hears of it."""

        def fail(_old: Thing | None, _new: Thing | None) -> None:
            raise ZeroDivisionError

        store.on_change(fail)
        told = listening(store)
        store.apply(Put(a_thing("a", 1)))

        assert [(None, a_thing("a", 1))] == told

    def test_who_comes_late_may_hear_of_all_that_is_there(
        self, store: Store[Thing]
    ) -> None:
        """As if it came then; of what has gone nobody tells, and the others hear nothing twice."""
        told, late = listening(store), Told()
        for version, name in enumerate("ab", 1):
            store.apply(Put(a_thing(name, version)))
        store.apply(removed("a", 3))
        before = len(told)
        store.follow(lambda old, new: late.append((old, new)))
        store.apply(Put(a_thing("b", 4)))

        assert [
            (None, a_thing("b", 2)),
            (a_thing("b", 2), a_thing("b", 4)),
        ] == late
        assert before + 1 == len(told)

    def test_store_has_changed_before_they_hear(self, store: Store[Thing]) -> None:
        """A listener that looks sees the new state, indexes included."""
        seen: list[object] = []
        store.on_change(lambda _old, _new: seen.append(store.by_index("word", "red")))
        store.apply(Put(a_thing("a", 1, "red")))

        assert [(a_thing("a", 1, "red"),)] == seen

    def test_same_version_is_not_told_twice(self, store: Store[Thing]) -> None:
        """The watch's echo of an own write is no news."""
        store.observe(a_thing("a", 1))
        told = listening(store)
        store.apply(Put(a_thing("a", 1)))

        assert [] == told

    def test_namesake_is_told_as_end_and_beginning(self, store: Store[Thing]) -> None:
        """Another uid is another object, even if no deletion was seen."""
        old, new = a_thing("a", 1), a_thing("a", 5, uid="other")
        store.apply(Put(old))
        told = listening(store)
        store.apply(Put(new))

        assert [(old, None), (None, new)] == told


class TestObserve:
    """A writer's own result."""

    def test_is_seen_at_once(self, store: Store[Thing]) -> None:
        """The next decision sees it, and it is told."""
        store.apply(Put(a_thing("a", 1)))
        told = listening(store)
        store.observe(a_thing("a", 5))

        assert [(a_thing("a", 1), a_thing("a", 5))] == told

    def test_does_not_move_progress(self, store: Store[Thing]) -> None:
        """Other objects' changes up to that version have not been seen."""
        store.observe(a_thing("a", 5))

        assert 0 == store.progress

    def test_older_than_what_is_held_is_ignored(self, store: Store[Thing]) -> None:
        """Versions are compared as numbers: 9 is older than 10."""
        store.apply(Put(a_thing("a", 10)))
        store.observe(a_thing("a", 9))

        assert a_thing("a", 10) == store.get(key("a"))

    def test_older_than_progress_and_absent_is_gone(self, store: Store[Thing]) -> None:
        """The watch was faster: it has told the object and its end already."""
        store.apply(Put(a_thing("a", 5)))
        store.apply(removed("a", 6))
        store.observe(a_thing("a", 5))

        assert store.get(key("a")) is None

    def test_created_object_is_taken(self, store: Store[Thing]) -> None:
        """What the watch has not come to yet is new."""
        store.apply(Bookmark("4"))
        store.observe(a_thing("a", 5))

        assert a_thing("a", 5) == store.get(key("a"))

    def test_watch_behind_it_does_not_bring_the_past_back(
        self, store: Store[Thing]
    ) -> None:
        """Events from before the write change nothing, deletions included."""
        store.observe(a_thing("a", 9, uid="second"))
        told = listening(store)
        store.apply(Put(a_thing("a", 5, uid="first")))
        store.apply(removed("a", 6, uid="first"))
        store.apply(Put(a_thing("a", 7, uid="second")))

        assert [] == told
        assert 7 == store.progress

    def test_versions_that_are_no_numbers_are_left_to_the_watch(
        self, store: Store[Thing]
    ) -> None:
        """Nobody can say which of two is later then."""
        store.apply(Put(a_thing("a", "x")))
        store.observe(a_thing("a", "y"))
        store.observe(a_thing("b", "z"))
        store.observe_gone(a_thing("a", "y").meta)

        assert [a_thing("a", "x")] == list(store.values())

    def test_is_compared_with_an_unreadable_version(self, store: Store[Thing]) -> None:
        """A write after the unreadable version makes the object readable again."""
        store.apply(Obscured(unreadable("a", 5)))
        store.observe(a_thing("a", 4))
        assert [key("a")] == list(store.unreadable)

        store.observe(a_thing("a", 6))
        assert {} == store.unreadable
        assert a_thing("a", 6) == store.get(key("a"))


class TestObserveGone:
    """An end by an own write."""

    def test_is_seen_at_once(self, store: Store[Thing]) -> None:
        """The object is told as gone before the watch says so."""
        store.apply(Put(a_thing("a", 1)))
        told = listening(store)
        store.observe_gone(a_thing("a", 1).meta)
        store.apply(removed("a", 3))

        assert [(a_thing("a", 1), None)] == told

    def test_watch_behind_it_brings_no_ghost(self, store: Store[Thing]) -> None:
        """Events of the object from before its end are not believed."""
        store.observe(a_thing("a", 5))
        store.observe_gone(a_thing("a", 5).meta)
        store.apply(Put(a_thing("a", 4)))
        store.apply(Put(a_thing("a", 5)))

        assert 0 == len(store)

    def test_unseen_object_is_remembered(self, store: Store[Thing]) -> None:
        """One that was created and ended before the watch told of it stays away."""
        store.observe_gone(a_thing("a", 5).meta)
        store.apply(Put(a_thing("a", 5)))

        assert 0 == len(store)

    def test_unseen_successor_is_remembered(self, store: Store[Thing]) -> None:
        """The watch may still tell of the one before it: that one stays till then."""
        store.apply(Put(a_thing("a", 3, uid="first")))
        store.observe_gone(a_thing("a", 7, uid="second").meta)
        store.apply(removed("a", 5, uid="first"))
        store.apply(Put(a_thing("a", 7, uid="second")))

        assert 0 == len(store)

    def test_namesake_stays(self, store: Store[Thing]) -> None:
        """The end of one object says nothing about its successor."""
        store.apply(Put(a_thing("a", 5, uid="second")))
        store.observe_gone(a_thing("a", 3, uid="first").meta)

        assert a_thing("a", 5, uid="second") == store.get(key("a"))

    def test_late_result_cannot_undo_it(self, store: Store[Thing]) -> None:
        """What another write returned before the end comes too late."""
        store.apply(Put(a_thing("a", 1)))
        store.observe_gone(a_thing("a", 1).meta)
        store.observe(a_thing("a", 2))

        assert 0 == len(store)

    def test_nothing_is_remembered_of_ends_that_were_told(
        self, store: Store[Thing]
    ) -> None:
        """A watch that was faster leaves nothing to remember."""
        store.apply(Put(a_thing("a", 1)))
        store.apply(removed("a", 2))
        store.observe_gone(a_thing("a", 1).meta)

        # Cannot happen on a server, but shows that the uid is not shut out.
        store.apply(Put(a_thing("a", 3)))
        assert 1 == len(store)


class TestReplace:
    """A list after the watch broke."""

    def test_only_differences_are_told(self, store: Store[Thing]) -> None:
        """Vanished, changed and new objects are told; the others stay as they are."""
        relist(store, a_thing("a", 1), a_thing("b", 2), a_thing("c", 3), version=5)
        told = listening(store)
        relist(store, a_thing("b", 2), a_thing("c", 7), a_thing("d", 8), version=9)

        expected: Told = [
            (a_thing("a", 1), None),
            (a_thing("c", 3), a_thing("c", 7)),
            (None, a_thing("d", 8)),
        ]
        assert expected == told

    def test_later_own_write_is_not_wiped_out(self, store: Store[Thing]) -> None:
        """What was observed while the list was on its way, and after its version."""
        store.begin_list()
        store.observe(a_thing("new", 12))
        store.observe(a_thing("changed", 13))
        store.replace(page(a_thing("changed", 8), version=10))

        assert a_thing("new", 12) == store.get(key("new"))
        assert a_thing("changed", 13) == store.get(key("changed"))

    def test_earlier_own_write_is_judged_by_the_list(self, store: Store[Thing]) -> None:
        """A consistent list has what was written before it was asked for."""
        store.observe(a_thing("a", 5))
        store.begin_list()
        store.observe(a_thing("b", 9))
        store.replace(page(version=10))

        assert 0 == len(store)

    def test_restored_server_counts_from_an_earlier_number(
        self, store: Store[Thing]
    ) -> None:
        """After a restore of etcd the list counts, however high we were."""
        relist(store, a_thing("a", 900), a_thing("b", 901), version=1000)
        store.observe(a_thing("c", 1001))
        relist(store, a_thing("a", 40), version=50)
        store.apply(Put(a_thing("a", 51)))

        assert [a_thing("a", 51)] == list(store.values())
        assert 51 == store.progress

    def test_end_while_the_list_was_on_its_way(self, store: Store[Thing]) -> None:
        """A list from before the end brings no ghost."""
        relist(store, a_thing("a", 1), version=2)
        store.begin_list()
        store.observe_gone(a_thing("a", 1).meta)
        store.replace(page(a_thing("a", 1), version=3))

        assert 0 == len(store)

    def test_ends_before_the_list_are_forgotten(self, store: Store[Thing]) -> None:
        """The list itself lacks what ended before: nothing is to be remembered."""
        relist(store, a_thing("a", 1), version=2)
        store.observe_gone(a_thing("a", 1).meta)
        relist(store, version=3)

        # Cannot happen on a server, but shows that the uid is not shut out.
        store.apply(Put(a_thing("a", 4)))
        assert 1 == len(store)


class TestUnreadable:
    """Objects that exist but cannot be read."""

    def test_last_readable_version_stays(self, store: Store[Thing]) -> None:
        """What cannot be read removes nothing."""
        store.apply(Put(a_thing("a", 1)))
        store.apply(Obscured(unreadable("a", 2)))

        assert a_thing("a", 1) == store.get(key("a"))
        assert {key("a"): "no text"} == store.unreadable

    def test_coming_and_going_are_told(self, store: Store[Thing]) -> None:
        """Deciders hear when to hold and when to go on."""
        heard: list[tuple[str, bool]] = []
        store.on_unreadable(
            lambda key: heard.append((key.name, key in store.unreadable))
        )
        told = listening(store)
        store.apply(Obscured(unreadable("a", 2)))
        store.apply(Put(a_thing("a", 3)))
        store.apply(Obscured(unreadable("b", 4)))
        store.apply(removed("b", 5))

        assert [("a", True), ("a", False), ("b", True), ("b", False)] == heard
        assert [(None, a_thing("a", 3))] == told

    def test_list_clears_it(self, store: Store[Thing]) -> None:
        """Readable again, even in the version held before, is a change."""
        store.apply(Put(a_thing("a", 1)))
        store.apply(Obscured(unreadable("a", 2)))
        store.apply(Obscured(unreadable("b", 3)))
        told = listening(store)
        relist(store, a_thing("a", 1), version=9)

        assert {} == store.unreadable
        assert [(a_thing("a", 1), a_thing("a", 1))] == told

    def test_list_brings_it(self, store: Store[Thing]) -> None:
        """What a list cannot read stays held."""
        store.apply(Put(a_thing("a", 1)))
        store.begin_list()
        store.replace(page(version=9, broken=(unreadable("a", 2),)))

        assert a_thing("a", 1) == store.get(key("a"))
        assert [key("a")] == list(store.unreadable)


@attrs.define
class Server:
    """An API server's history: one revision per write."""

    history: list[Event[Thing]] = attrs.Factory(list)
    state: dict[str, Thing] = attrs.Factory(dict)
    births: int = 0

    @property
    def revision(self) -> int:
        """Return the newest version."""
        return len(self.history)

    def write(self, name: str) -> Thing:
        """Create or change an object."""
        old = self.state.get(name)
        if old is None:
            self.births += 1
        uid = old.meta.uid if old else f"uid-{self.births}"
        thing = a_thing(name, self.revision + 1, uid=uid)
        self.history.append(Put(thing))
        self.state[name] = thing
        return thing

    def delete(self, name: str) -> Thing | None:
        """Delete an object; return it as it was."""
        old = self.state.pop(name, None)
        if old is not None:
            self.history.append(removed(name, self.revision + 1, old.meta.uid))
        return old


@attrs.define
class Run:
    """One interleaving of a server, a writer and an informer."""

    server: Server = attrs.Factory(Server)
    store: Store[Thing] = attrs.Factory(Store)
    mirror: dict[str, Thing] = attrs.Factory(dict)
    watched: int = 0
    answers: list[tuple[str, Thing]] = attrs.Factory(list)
    listed: Page[Thing] | None = None
    is_listing: bool = False
    ended: set[Uid] = attrs.Factory(set)
    lies: list[str] = attrs.Factory(list)

    def __attrs_post_init__(self) -> None:
        """Keep a copy of the store by its announcements alone."""
        self.store.on_change(self._mirror)

    def _mirror(self, old: Thing | None, new: Thing | None) -> None:
        """Follow an announcement, which must fit to the ones before."""
        known = new or old
        assert known is not None
        name = known.meta.key.name
        # The store survives a listener that raises: noted here, judged at the end.
        if old != self.mirror.get(name):
            self.lies.append(f"{old} was not there before {new}")
        if new is not None and new.meta.uid in self.ended:
            self.lies.append(f"{new} is a ghost")
        if new is None:
            self.mirror.pop(name, None)
        else:
            self.mirror[name] = new

    def write(self, name: str) -> None:
        """A write that is answered later."""
        self.answers.append(("put", self.server.write(name)))

    def delete(self, name: str) -> None:
        """A deletion that is answered later."""
        old = self.server.delete(name)
        if old is not None:
            self.answers.append(("gone", old))

    def stranger(self, name: str) -> None:
        """Somebody else writes, or deletes what is there every other time."""
        if self.server.revision % 2:
            self.server.delete(name)
        else:
            self.server.write(name)

    def answer(self, _name: str) -> None:
        """The answer to an own write arrives, and nothing held goes back by it."""
        if not self.answers:
            return
        kind, thing = self.answers.pop(0)
        if kind == "gone":
            self.store.observe_gone(thing.meta)
            self.ended.add(thing.meta.uid)
            held = self.store.get(thing.meta.key)
            assert held is None or held.meta.uid != thing.meta.uid
            return
        before = self.store.get(thing.meta.key)
        self.store.observe(thing)
        held = self.store.get(thing.meta.key)
        if before is not None:
            assert held is not None
            assert int(held.meta.resource_version) >= int(thing.meta.resource_version)

    def watch(self, _name: str) -> None:
        """The watch tells one more event, unless it is broken."""
        if not self.is_listing and self.watched < self.server.revision:
            self.store.apply(self.server.history[self.watched])
            self.watched += 1

    def begin_list(self, _name: str) -> None:
        """The watch breaks, and a list is asked for."""
        self.store.begin_list()
        self.is_listing, self.listed = True, None

    def serve_list(self, _name: str) -> None:
        """The server makes the list; it is on its way."""
        if self.is_listing and self.listed is None:
            objects = tuple(self.server.state.values())
            self.listed = page(*objects, version=self.server.revision)

    def finish_list(self, _name: str) -> None:
        """The list arrives; the watch goes on from its version."""
        if self.listed is not None:
            self.store.replace(self.listed)
            self.watched = int(self.listed.version)
            self.is_listing, self.listed = False, None

    def settle(self) -> None:
        """Let all answers, lists and events arrive."""
        while self.answers:
            self.answer("")
        self.serve_list("")
        self.finish_list("")
        while self.watched < self.server.revision:
            self.watch("")


STEPS = (
    Run.write,
    Run.delete,
    Run.stranger,
    Run.answer,
    Run.watch,
    Run.begin_list,
    Run.serve_list,
    Run.finish_list,
)


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from("ab")), max_size=40))
def test_any_interleaving_ends_with_the_servers_state(
    steps: list[tuple[object, str]],
) -> None:
    """Store and announcements agree with the server once everything has arrived."""
    run = Run()
    for step, name in steps:
        assert callable(step)
        step(run, name)
    run.settle()

    assert [] == run.lies
    held = {thing.meta.key.name: thing for thing in run.store.values()}
    assert run.server.state == held
    assert run.server.state == run.mirror
    assert run.server.revision == run.store.progress


def test_keys_elsewhere_are_not_held() -> None:
    """Neither what can be read, nor what cannot."""
    store: Store[Thing] = Store(where=lambda key: key.name != "elsewhere")
    store.replace(page(a_thing("elsewhere", 2), a_thing("here", 3), version=3))
    store.observe(a_thing("elsewhere", 4))
    store.apply(Obscured(unreadable("elsewhere", 5)))

    assert ["here"] == [one.meta.key.name for one in store.values()]
    assert not store.unreadable
