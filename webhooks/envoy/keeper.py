"""Keeps the state: on disk first, then to the Envoys, then it is known who has it.

One process at a time has a state directory. Others wait for it, serve no Envoy, and say so.
"""

import asyncio

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta

import attrs
import structlog

from lbcf.runtime.clock import Clock, SystemClock
from lbcf.runtime.flags import BindAddress
from webhooks.envoy.balancers import Balancer, Identity
from webhooks.envoy.errors import EnvoyError, NotSaved, NotYet
from webhooks.envoy.fleets import Fleet, Fleets
from webhooks.envoy.management import Files, Management
from webhooks.envoy.resources import resources
from webhooks.envoy.store import Store
from webhooks.shared.addresses import Address


EXPIRE = timedelta(seconds=1)
"""How often it is looked for Envoys that were away for too long."""

RETRY_LOCK = timedelta(seconds=0.5)
"""How often a process asks for a state directory that another one has."""

Edit = Callable[[Balancer | None], Balancer | None]

_log = structlog.get_logger(__name__)


@attrs.define(eq=False)
class Keeper:
    """The state of all load balancers of one directory.

    Attributes:
        store: where it is kept.
        address: where Envoys connect to.
        files: TLS of that; None: none.
        forget_after: when an Envoy without a stream is taken for gone.
        clock: its time and ids.
    """

    store: Store
    address: BindAddress
    files: Files | None = None
    forget_after: timedelta = timedelta(seconds=30)
    clock: Clock = attrs.field(factory=SystemClock)
    epoch: str = attrs.field(default="", init=False)
    fleets: Fleets = attrs.field(init=False)
    _wanted: dict[Identity, Balancer] = attrs.field(factory=dict, init=False)
    _published: dict[Identity, Balancer] = attrs.field(factory=dict, init=False)
    _due: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _flush: asyncio.Future[EnvoyError | None] | None = attrs.field(
        default=None, init=False
    )
    _management: Management | None = attrs.field(default=None, init=False)
    _tasks: set[asyncio.Task[None]] = attrs.field(factory=set, init=False)
    _opening: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)
    _failed: str = attrs.field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        """Share the clock."""
        self.fleets = Fleets(self.clock.monotonic, self.forget_after)

    @property
    def is_open(self) -> bool:
        """Whether this process has the directory, and Envoys can connect."""
        return self._management is not None

    async def open(self) -> None:
        """Serve Envoys; or, where another process has the directory, once it ends.

        Raises:
            OSError: the directory or the address cannot be used.
        """
        async with self._opening:
            if self._tasks or self.is_open:
                return
            if not await self._opened():
                _log.info("envoy.standing_by", directory=str(self.store.folder))
                self._spawn(self._wait_for_lock())

    async def close(self) -> None:
        """End all streams, and let another process have the directory."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self._management is not None:
            await self._management.close()
            self._management = None
        self.store.release()

    async def ready(self) -> None:
        """Wait until the driver can work, as long as the caller does.

        Raises:
            NotYet: another process has the directory.
            NotSaved: it cannot be used.
        """
        try:
            await self.open()
        except OSError as error:
            raise NotSaved(str(error)) from error
        if self._failed:
            raise NotSaved(self._failed)
        if not self.is_open:
            raise NotYet(
                f"another process of this driver has {self.store.folder}, and is to be "
                "called in place of this one, which takes over when that one ends"
            )

    def find(self, known: Identity) -> Balancer | None:
        """Return a load balancer as it shall be."""
        return self._wanted.get(known)

    def made_for(self, fleet: str, owner: str) -> Identity | None:
        """Return the load balancer of a LoadBalancer that was never told where it is."""
        found = (
            known
            for known, one in self._wanted.items()
            if known.fleet == fleet and owner in one.owners
        )
        return next(found, None)

    def rivals(self, known: Identity, there: Sequence[Address]) -> list[Balancer]:
        """Return the others that would be sent the same connections.

        Args:
            known: a load balancer.
            there: where it listens, or is to.
        """
        return [
            one
            for other, one in self._wanted.items()
            if other != known
            and _has_port_of(other, known)
            and _meet(one.places, there)
        ]

    async def change(self, known: Identity, edit: Edit) -> None:
        """Change a load balancer; returns when it is on disk and due to the Envoys.

        Raises:
            EnvoyError: it cannot be written, or what the edit raises.
        """
        after = edit(self._wanted.get(known))
        if after is None:
            self._wanted.pop(known, None)
        else:
            self._wanted[known] = after
        while self._published.get(known) != self._wanted.get(known):
            if self._flush is None:
                self._flush = asyncio.get_running_loop().create_future()
            self._due.set()
            failure = await asyncio.shield(self._flush)
            if failure is not None:
                raise failure

    def fleet(self, known: Identity) -> Fleet:
        """Return the fleet of a load balancer."""
        return self.fleets.peek(known.fleet)

    async def _opened(self) -> bool:
        """Take the directory and serve Envoys; False: another process has it."""
        if not self.store.lock():
            return False
        try:
            self.epoch = self.store.epoch(self.clock.new_id()[:8])
            self._wanted = dict(self.store.load())
            self.fleets.remember(self.store.load_envoys())
            self._publish(self._wanted)
            management = Management(
                self.address, self.fleets, self.epoch, self.files, self.store.step
            )
            await management.open()
        except BaseException:
            self.store.release()
            raise
        self._management = management
        self._spawn(self._write())
        self._spawn(self._write_envoys())
        self._spawn(self._expire())
        return True

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    async def _wait_for_lock(self) -> None:
        """Take over when the other process has ended."""
        try:
            while not await self._opened():
                await self.clock.sleep(RETRY_LOCK)
        except OSError as error:
            self._failed = str(error)
            _log.error("envoy.cannot_take_over", error=str(error))

    def _publish(self, changed: Mapping[Identity, Balancer | None]) -> None:
        """Have Envoys told of what is on disk now."""
        for known, balancer in changed.items():
            fleet = self.fleets.fleet(known.fleet)
            if balancer is None:
                self._published.pop(known, None)
                fleet.take_away(known.name)
                self.fleets.tidy(fleet)
            else:
                self._published[known] = balancer
                fleet.put(resources(balancer, self.epoch))

    async def _write(self) -> None:
        """Write what changes, all that came meanwhile at once; then publish it."""
        while True:
            await self._due.wait()
            self._due.clear()
            flush, self._flush = self._flush, None
            failure: EnvoyError | None = None
            batch = self._unpublished()
            try:
                await asyncio.to_thread(self.store.save, batch)
                self._publish(batch)
            except OSError as error:
                failure = NotSaved(
                    f"the driver's state cannot be written ({error}), so no Envoy is "
                    "told: make room, or mend the volume"
                )
            if flush is not None:
                flush.set_result(failure)

    def _unpublished(self) -> Mapping[Identity, Balancer | None]:
        """Return what is not on disk as it shall be."""
        keys = {*self._wanted, *self._published}
        return {
            key: self._wanted.get(key)
            for key in keys
            if self._wanted.get(key) != self._published.get(key)
        }

    async def _expire(self) -> None:
        """Forget Envoys that do not come back, also where nobody asks for their fleet."""
        while True:
            await self.clock.sleep(EXPIRE)
            self.fleets.expire()

    async def _write_envoys(self) -> None:
        """Write which Envoys there are whenever that changes."""
        while True:
            await self.fleets.unsaved()
            try:
                await asyncio.to_thread(self.store.save_envoys, self.fleets.known())
            except OSError as error:
                _log.warning("envoy.fleets_not_saved", error=str(error))


def _has_port_of(one: Identity, other: Identity) -> bool:
    """Tell whether two listeners are of one fleet and port."""
    return (one.fleet, one.listen.port, one.udp) == (
        other.fleet,
        other.listen.port,
        other.udp,
    )


def _meet(some: Sequence[Address], others: Sequence[Address]) -> bool:
    """Tell whether connections to one address may be connections to another one."""
    return any(
        one.ip.version == other.ip.version
        and (one.ip == other.ip or one.ip.is_unspecified or other.ip.is_unspecified)
        for one in some
        for other in others
    )
