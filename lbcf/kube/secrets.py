"""Follows the Secrets that drivers name, each by a watch on its one name.

`lbcf.drivers.access` looks them up, and listeners have the drivers tried again when one
changes. Nobody needs the right to list Secrets: RBAC grants list and watch by
resourceNames to who selects by the name.
"""

import asyncio
import contextlib

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from datetime import timedelta
from functools import partial

import attrs

from lbcf.core.model.access import Lack, NoSecret, Secret
from lbcf.core.model.names import SYSTEM_NAMESPACE
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import KubeError, NotFound
from lbcf.kube.informer import Informer
from lbcf.kube.kinds import SECRETS
from lbcf.kube.list_watch import Selection
from lbcf.kube.store import Store
from lbcf.runtime.clock import Clock
from lbcf.runtime.tasks import end_tasks


MOST = 1000
"""Secrets that are followed: each has a connection of its own."""
MOST_PER_NAMESPACE = 64
"""Of them, those of one namespace; kube-system, whose drivers serve everybody, has no
limit of its own and goes first."""


@attrs.frozen(eq=False)
class _Watch:
    """One Secret, and what follows it."""

    informer: Informer[Secret]
    task: asyncio.Task[None]


def choose_secrets(
    wanted: Collection[ObjectKey],
    already: Collection[ObjectKey],
    most: int = MOST,
    per_namespace: int = MOST_PER_NAMESPACE,
) -> set[ObjectKey]:
    """Choose the Secrets that are followed, where more are named than can be.

    Those of kube-system first; of the other namespaces the first Secret of each, then
    the second, and so on: who names many takes nobody's last one. Among equals those
    that are followed already.
    """
    ranks: Counter[str] = Counter()
    turns: list[tuple[int, bool, ObjectKey]] = []
    for is_new, key in sorted((key not in already, key) for key in wanted):
        ranks[key.namespace] += 1
        rank = 0 if key.namespace == SYSTEM_NAMESPACE else ranks[key.namespace]
        if rank <= per_namespace:
            turns.append((rank, is_new, key))
    return {key for _, _, key in sorted(turns)[:most]}


def _left_out(key: ObjectKey) -> NoSecret:
    """Return why a Secret that some driver names is not followed."""
    return NoSecret(
        Lack.UNREAD,
        f"namespace {key.namespace} names too many Secrets: {MOST_PER_NAMESPACE} of a "
        f"namespace are followed, {MOST} of all; delete drivers that nobody needs",
    )


class Secrets:
    """The Secrets that drivers name.

    Args:
        client: of its own: where many are named at once, many are asked for.
        clock: the time.
    """

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._named: dict[ObjectKey, frozenset[ObjectKey]] = {}
        self._watches: dict[ObjectKey, _Watch] = {}
        self._read: dict[ObjectKey, Secret | NoSecret] = {}
        self._readers: Counter[ObjectKey] = Counter()
        self._listeners: list[Callable[[ObjectKey], None]] = []
        self._is_choosing = False

    def follow(self, drivers: Store[LoadBalancerDriver]) -> None:
        """Follow from now on what these drivers name."""
        drivers.on_change(self._driver_changed)

    def on_change(self, listener: Callable[[ObjectKey], None]) -> None:
        """Call a listener with the key of each driver one of whose Secrets has changed."""
        self._listeners.append(listener)

    def find(self, key: ObjectKey) -> Secret | NoSecret:
        """Return a Secret that some driver names, or why there is none."""
        self._choose()
        watch = self._watches.get(key)
        if watch is None:
            return self._read.get(key, _left_out(key))
        store, informer = watch.informer.store, watch.informer
        if key in store.unreadable:
            return NoSecret(Lack.UNREAD, store.unreadable[key])
        found = store.get(key)
        if found is not None:
            return found
        if informer.synced.is_set():
            return NoSecret(Lack.MISSING)
        error = informer.last_error
        return NoSecret(Lack.UNREAD, "" if error is None else str(error))

    @contextlib.asynccontextmanager
    async def reading(self, driver: LoadBalancerDriver) -> AsyncIterator[None]:
        """Read what a driver names, and hold it until the block ends.

        For a process that follows no drivers.
        """
        for key in driver.secrets:
            self._readers[key] += 1
        try:
            for key in driver.secrets:
                self._read[key] = await self._got(key)
            yield
        finally:
            for key in driver.secrets:
                self._readers[key] -= 1
                if not self._readers[key]:
                    del self._readers[key]
                    self._read.pop(key, None)

    async def _got(self, key: ObjectKey) -> Secret | NoSecret:
        """Read a Secret as it is now."""
        try:
            return await self._client.get(SECRETS, key)
        except NotFound:
            return NoSecret(Lack.MISSING)
        except KubeError as error:
            return NoSecret(Lack.UNREAD, str(error))

    async def settle(self, within: timedelta) -> None:
        """Wait until all have been read, no longer than that."""
        self._choose()
        reads = [
            asyncio.create_task(watch.informer.synced.wait())
            for watch in self._watches.values()
        ]
        if reads:
            _, late = await asyncio.wait(reads, timeout=within.total_seconds())
            for read in late:
                read.cancel()

    async def close(self) -> None:
        """End all watches."""
        tasks = [watch.task for watch in self._watches.values()]
        self._watches.clear()
        await end_tasks(tasks)

    def _driver_changed(
        self, old: LoadBalancerDriver | None, new: LoadBalancerDriver | None
    ) -> None:
        """Follow what it names now, and no longer what it alone has named."""
        before = frozenset[ObjectKey]()
        if old is not None:
            before = self._named.pop(old.meta.key, before)
        if new is not None and new.secrets:
            self._named[new.meta.key] = new.secrets
        named = frozenset[ObjectKey]() if new is None else new.secrets
        if named != before and not self._is_choosing:
            # Once for all drivers of a list, not once for each.
            self._is_choosing = True
            asyncio.get_running_loop().call_soon(self._choose)

    def _choose(self) -> None:
        """Follow those that are chosen of all that are named, if that has changed."""
        if not self._is_choosing:
            return
        self._is_choosing = False
        wanted = {key for keys in self._named.values() for key in keys}
        followed = choose_secrets(wanted, self._watches.keys())
        for key in self._watches.keys() - followed:
            self._watches.pop(key).task.cancel()
        for key in sorted(followed - self._watches.keys()):
            self._watches[key] = self._started(key)

    def _started(self, key: ObjectKey) -> _Watch:
        """Begin to follow a Secret."""
        store: Store[Secret] = Store()
        tell = partial(self._tell, key)
        store.on_change(lambda _old, _new: tell())
        store.on_unreadable(lambda _key: tell())
        informer = Informer(
            self._client,
            SECRETS,
            self._clock,
            store=store,
            selection=Selection(key.namespace, fields=f"metadata.name={key.name}"),
        )
        return _Watch(informer, asyncio.create_task(informer.run()))

    def _tell(self, key: ObjectKey) -> None:
        for driver in list(self._users(key)):
            for listener in self._listeners:
                listener(driver)

    def _users(self, key: ObjectKey) -> Iterator[ObjectKey]:
        return (driver for driver, keys in self._named.items() if key in keys)
