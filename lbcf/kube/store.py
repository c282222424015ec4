"""Holds what an informer has seen of a kind: decisions are made from it without a request.

`informer` feeds it from lists and watches, writers feed it with what their own writes
returned (`observe`), and listeners turn its changes into keys for a queue. Watch and
writers tell the same story at different speed; versions (KEP-5504: they are numbers that
grow) decide whose is the later word.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Generic, TypeVar, assert_never

import structlog

from lbcf.core.model.resources import Meta
from lbcf.core.model.values import ObjectKey, Uid
from lbcf.kube.kinds import HasMeta
from lbcf.kube.list_watch import (
    Bookmark,
    Event,
    Obscured,
    Page,
    Put,
    Removed,
    Unreadable,
)
from lbcf.wire.metadata import Identity, identity_of, number_of


T = TypeVar("T", bound=HasMeta)

Terms = Callable[[T], Iterable[Hashable]]
"""Says under which values an object is to be found; pure, always the same for it."""


class Index(Generic[T]):
    """Objects by the values that `terms` gives for them."""

    def __init__(self, terms: Terms[T]) -> None:
        self._terms = terms
        self._found: dict[Hashable, dict[ObjectKey, T]] = {}

    def add(self, value: T) -> None:
        """Put an object in."""
        for term in self._terms(value):
            self._found.setdefault(term, {})[value.meta.key] = value

    def discard(self, value: T) -> None:
        """Take an object out that was put in."""
        for term in set(self._terms(value)):
            found = self._found.get(term, {})
            found.pop(value.meta.key, None)
            if not found:
                self._found.pop(term, None)

    def find(self, term: Hashable) -> tuple[T, ...]:
        """Return the objects with that value."""
        return tuple(self._found.get(term, {}).values())

    def count(self, term: Hashable) -> int:
        """Return how many objects have that value."""
        return len(self._found.get(term, {}))


Listener = Callable[[T | None, T | None], None]
"""Told the object before and after; cheap, never waits."""

log = structlog.get_logger(__name__)

_ENDS_REMEMBERED: Final = 10_000


class Store(Generic[T]):
    """The objects of one kind.

    Where an object cannot be read, its last readable version stays, and its key is in
    `unreadable`: whoever decides about it must hold.

    Args:
        indexes: by name, for `by_index`.
        keep: objects for which it is False are not held; pure.
        where: the same of keys, so that one that cannot be read is left out, too.
    """

    def __init__(
        self,
        indexes: Mapping[str, Terms[T]] | None = None,
        keep: Callable[[T], bool] = lambda _value: True,
        where: Callable[[ObjectKey], bool] = lambda _key: True,
    ) -> None:
        self._held: dict[ObjectKey, T] = {}
        self._unreadable: dict[ObjectKey, Unreadable] = {}
        self._indexes = {name: Index(terms) for name, terms in (indexes or {}).items()}
        self._keep = keep
        self._where = where
        self._listeners: list[Listener[T]] = []
        self._unreadable_listeners: list[Callable[[ObjectKey], None]] = []
        self._progress = 0
        self._fresh: set[ObjectKey] = set()
        self._placed: set[ObjectKey] = set()
        self._ended: dict[Uid, None] = {}
        self._ended_before_list: frozenset[Uid] = frozenset()

    def __len__(self) -> int:
        """Return how many objects are held."""
        return len(self._held)

    @property
    def progress(self) -> int:
        """Return the newest version that lists and watches have told of."""
        return self._progress

    @property
    def unreadable(self) -> Mapping[ObjectKey, str]:
        """Return the keys of objects that cannot be read, with what is wrong."""
        return MappingProxyType(
            {key: found.message for key, found in self._unreadable.items()}
        )

    def get(self, key: ObjectKey) -> T | None:
        """Return an object, None if it is not held."""
        return self._held.get(key)

    def held_for(self, value: T) -> T:
        """Return the object that is held, where a list brings the same version again.

        Who gathers a whole list before it is taken in has no second copy of it then.
        """
        held = self._held.get(value.meta.key)
        if held is None or identity_of(held.meta) != identity_of(value.meta):
            return value
        return held

    def values(self) -> Collection[T]:
        """Return all objects, as a view."""
        return self._held.values()

    def by_index(self, name: str, term: Hashable) -> Collection[T]:
        """Return the objects that an index finds under a value."""
        return self._indexes[name].find(term)

    def count(self, name: str, term: Hashable) -> int:
        """Return how many objects an index finds under a value, of which no copy is made."""
        return self._indexes[name].count(term)

    def on_change(self, listener: Listener[T]) -> None:
        """Call a listener for each change from now on, after those added before it.

        A namesake of another uid is told as an end and a beginning.
        """
        self._listeners.append(listener)

    def follow(self, listener: Listener[T]) -> None:
        """Call a listener for each object that is held, and for each change from now on.

        For who begins to work on what has been read for long.
        """
        self.on_change(listener)
        self.tell_all(listener)

    def tell_all(self, listener: Listener[T]) -> None:
        """Call a listener for each object that is held, as if it came now."""
        for value in tuple(self._held.values()):
            self._call(listener, None, value)

    def on_end(self, listener: Callable[[ObjectKey], None]) -> None:
        """Call a listener with the key of each object that ends."""

        def changed(old: T | None, new: T | None) -> None:
            if old is not None and new is None:
                listener(old.meta.key)

        self.on_change(changed)

    def on_unreadable(self, listener: Callable[[ObjectKey], None]) -> None:
        """Call a listener when a key comes into `unreadable`, changes there, or leaves."""
        self._unreadable_listeners.append(listener)

    def observe(self, value: T) -> None:
        """Take what one's own write returned, so that the next decision sees it.

        It may be old news: the watch may have told a later version, or the end.
        """
        seen = identity_of(value.meta)
        newest = self._known(seen.key)
        beaten = self._progress if newest is None else newest.number
        if seen.number is None or beaten is None or seen.number <= beaten:
            return
        if seen.uid not in self._ended:
            self._fresh.add(seen.key)
            self._settle(value)

    def observe_gone(self, meta: Meta) -> None:
        """Take it that an object has ended by one's own write, which returned this."""
        ended = identity_of(meta)
        if ended.number is None:
            return
        newest = self._known(ended.key)
        if newest is not None and newest.uid == ended.uid:
            self._remember_end(ended.uid)
            self._drop(ended.key)
        elif ended.number > self._progress:
            # The watch has not even told its beginning.
            self._remember_end(ended.uid)

    def place(self, value: T) -> None:
        """Hold a value made of an object of another kind, of which no list here tells."""
        self._placed.add(value.meta.key)
        self._settle(value)

    def displace(self, key: ObjectKey) -> None:
        """Hold a placed value no longer."""
        self._placed.discard(key)
        self._drop(key)

    def begin_list(self) -> None:
        """Note that a consistent list is being asked for.

        It will have all that was written before this moment. What is observed from now
        on it may or may not have.
        """
        self._fresh.clear()
        self._ended_before_list = frozenset(self._ended)

    def take_in(self, values: Iterable[T]) -> None:
        """Hold what a list has whose rest is still to come, before `replace` ends it."""
        for value in values:
            self._put(value)

    def replace(self, page: Page[T]) -> None:
        """Become what a whole list says; only real differences are told."""
        for uid in self._ended_before_list:
            self._ended.pop(uid, None)
        number = number_of(page.version)
        # Not the greater of both: a restored etcd counts from an earlier number.
        self._progress = number or 0
        self._forget_all_but(page, number)
        self.take_in(page.objects)
        for unreadable in page.unreadable:
            self._obscure(unreadable)

    def apply(self, event: Event[T]) -> None:
        """Follow one event of a watch."""
        match event:
            case Put(value):
                self._put(value)
                self._move(value.meta.resource_version)
            case Obscured(unreadable):
                self._obscure(unreadable)
                self._move(unreadable.identity.version)
            case Removed(identity):
                self._remove(identity)
                self._move(identity.version)
            case Bookmark(version):
                self._move(version)
            case _:
                assert_never(event)

    def _put(self, value: T) -> None:
        # A write of our own may have shown a later version already.
        if not self._is_outdated(identity_of(value.meta)):
            self._fresh.discard(value.meta.key)
            self._settle(value)

    def _obscure(self, unreadable: Unreadable) -> None:
        """Note that an object's newest version cannot be read."""
        key = unreadable.identity.key
        if not self._where(key) or self._is_outdated(unreadable.identity):
            return
        self._unreadable[key] = unreadable
        log.warning("object.unreadable", key=str(key), message=unreadable.message)
        self._tell_unreadable(key)

    def _remove(self, ended: Identity) -> None:
        self._ended.pop(ended.uid, None)
        if not self._is_outdated(ended):
            self._fresh.discard(ended.key)
            self._drop(ended.key)

    def _is_outdated(self, told: Identity) -> bool:
        """Return whether a write of our own has shown a later state than this one."""
        if told.uid in self._ended:
            return True
        if told.key not in self._fresh:
            return False
        newest = self._known(told.key)
        if newest is None or newest.number is None or told.number is None:
            return False
        return newest.number > told.number

    def _known(self, key: ObjectKey) -> Identity | None:
        if key in self._unreadable:
            return self._unreadable[key].identity
        held = self._held.get(key)
        return None if held is None else identity_of(held.meta)

    def _move(self, version: str) -> None:
        self._progress = max(self._progress, number_of(version) or 0)

    def _remember_end(self, uid: Uid) -> None:
        """Believe nothing more of an object until the watch tells its end.

        Of one outside the selection it never will: hence the bound.
        """
        self._ended[uid] = None
        if len(self._ended) > _ENDS_REMEMBERED:
            self._ended.pop(next(iter(self._ended)))

    def _forget_all_but(self, page: Page[T], number: int | None) -> None:
        """Drop what a list does not have, but for what was written after it."""
        listed = {value.meta.key for value in page.objects}
        listed.update(unreadable.identity.key for unreadable in page.unreadable)
        for key in [*self._held, *self._unreadable]:
            known = self._known(key)
            later = (
                key in self._fresh
                and known is not None
                and (known.number or 0) > (number or 0)
            )
            if key not in listed and not later and key not in self._placed:
                self._drop(key)

    def _settle(self, value: T) -> None:
        """Hold this version, or none if it is not to be kept; tell the difference."""
        key = value.meta.key
        if not (self._where(key) and self._keep(value)):
            self._drop(key)
            return
        old = self._held.get(key)
        if old is not None and old.meta.uid != value.meta.uid:
            self._drop(key)
            old = None
        cleared = self._unreadable.pop(key, None) is not None
        if old is None or old.meta.resource_version != value.meta.resource_version:
            self._hold(key, old, value)
            self._tell(old, value)
        elif cleared:
            self._tell(old, old)
        if cleared:
            self._tell_unreadable(key)

    def _hold(self, key: ObjectKey, old: T | None, new: T) -> None:
        """Put an object in the old one's place."""
        self._held[key] = new
        for index in self._indexes.values():
            if old is not None:
                index.discard(old)
            index.add(new)

    def _drop(self, key: ObjectKey) -> None:
        """Hold it no longer."""
        obscured = self._unreadable.pop(key, None)
        old = self._held.pop(key, None)
        if old is not None:
            for index in self._indexes.values():
                index.discard(old)
            self._tell(old, None)
        if obscured is not None:
            self._tell_unreadable(key)

    def _tell(self, old: T | None, new: T | None) -> None:
        """Call the listeners; one that fails does not keep the others from being called."""
        for listener in self._listeners:
            self._call(listener, old, new)

    @staticmethod
    def _call(listener: Listener[T], old: T | None, new: T | None) -> None:
        try:
            listener(old, new)
        except Exception:
            either = new or old
            key = None if either is None else str(either.meta.key)
            log.exception("listener.failed", key=key)

    def _tell_unreadable(self, key: ObjectKey) -> None:
        """Call the listeners that wait for unreadable objects."""
        for listener in self._unreadable_listeners:
            try:
                listener(key)
            except Exception:
                log.exception("listener.failed", key=str(key))
