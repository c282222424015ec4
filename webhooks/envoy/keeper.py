"""Keeps the state: on disk first, then to the Envoys, then it is known who has it.

One process at a time has a state directory. Others wait for it, serve no Envoy, and say so.
"""

import asyncio
import contextlib

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta

import attrs
import structlog

from lbcf.runtime.clock import Clock, SystemClock
from lbcf.runtime.flags import BindAddress
from lbcf.runtime.tasks import end_tasks
from webhooks.envoy.balancers import Balancer, Identity
from webhooks.envoy.errors import EnvoyError, NotSaved, NotYet
from webhooks.envoy.fleets import Fleet, Fleets
from webhooks.envoy.management import Files, Management
from webhooks.envoy.resources import noted, resources
from webhooks.envoy.store import Store
from webhooks.shared.addresses import Address


EXPIRE = timedelta(seconds=1)
"""How often it is looked for Envoys that were away for too long."""

TRY_REFUSED = timedelta(seconds=10)
"""How often Envoys are sent once more what they refused: a port may be free by now."""

RETRY_LOCK = timedelta(seconds=0.5)
"""How often a process asks for a state directory that another one has."""

RETRY_WRITE = timedelta(seconds=1)
"""How soon what could not be written is written again, where nobody asks before."""

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
        epoch: names the state; versions of what Envoys have begin with it.
        memory: names what is remembered of members; others where an older state was put back.
    """

    store: Store
    address: BindAddress
    files: Files | None = None
    forget_after: timedelta = timedelta(seconds=30)
    clock: Clock = attrs.field(factory=SystemClock)
    epoch: str = attrs.field(default="", init=False)
    memory: str = attrs.field(default="", init=False)
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
    _unsure: set[Identity] = attrs.field(factory=set, init=False)
    _writing_since: float | None = attrs.field(default=None, init=False)
    _not_saved: NotSaved | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        """Share the clock."""
        self.fleets = Fleets(self.clock.monotonic, self.forget_after)

    @property
    def is_open(self) -> bool:
        """Whether this process has the directory, and Envoys can connect."""
        return self._management is not None

    def trouble(self, patience: timedelta) -> EnvoyError | None:
        """Return what is wrong with the state directory; None: nothing, as far as is known.

        Args:
            patience: what takes longer to write hangs.
        """
        if self._failed:
            return NotSaved(self._failed)
        since = self._writing_since
        if (
            since is not None
            and self.clock.monotonic() - since >= patience.total_seconds()
        ):
            return self._still_writing
        return self._not_saved

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
        await end_tasks(self._tasks)
        self._tasks.clear()
        if self._management is not None:
            await self._management.close()
            self._management = None
        # A thread that writes does not end with the task that waits for it.
        await asyncio.to_thread(self.store.release)

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

    def made_for(self, fleet: str, owner: str) -> list[Identity]:
        """Return what was made for a LoadBalancer, also where it was never told of it."""
        return [
            known
            for known, one in self._wanted.items()
            if known.fleet == fleet and owner in one.owners
        ]

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

    async def change(self, known: Identity, edit: Edit, patience: timedelta) -> None:
        """Change a load balancer; returns when it is on disk and due to the Envoys.

        Args:
            known: which.
            edit: returns what it shall be.
            patience: how long to wait for the disk.

        Raises:
            NotYet: it is still being written, and is due to the Envoys when that is done.
            EnvoyError: it cannot be written, or what the edit raises.
        """
        before = self._wanted.get(known)
        after = noted(before, edit(before))
        if after is None:
            self._wanted.pop(known, None)
        else:
            self._wanted[known] = after
        try:
            async with asyncio.timeout(patience.total_seconds()):
                await self._written(known)
        except TimeoutError:
            raise self._still_writing from None

    @property
    def _still_writing(self) -> NotYet:
        """What to say where the disk takes longer than anybody waits."""
        return NotYet(
            f"the state is still being written to {self.store.folder}, and no Envoy was told: "
            "look after the volume if this lasts"
        )

    async def _written(self, known: Identity) -> None:
        """Wait until a load balancer is on disk as it shall be.

        What is being written is not what was published last: a change that is undone meanwhile
        has to be written, too.

        Raises:
            NotSaved: it cannot be written.
        """
        while known in self._unsure or (
            self._published.get(known) != self._wanted.get(known)
        ):
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
            self._load()
            self._publish(self._wanted)
            management = Management(
                self.address,
                self.fleets,
                self.epoch,
                self.files,
                self.store.step,
                self.clock,
            )
            await management.open()
        except BaseException:
            self.store.release()
            raise
        self._management = management
        self._spawn(management.follow())
        self._spawn(self._write())
        self._spawn(self._write_envoys())
        self._spawn(self._expire())
        self._spawn(self._try_refused())
        return True

    def _load(self) -> None:
        """Read the state.

        What cannot be read is put back by a person, from older files: whoever knew what was
        listed of those since has to learn that these are others.

        Raises:
            OSError: it cannot be read.
        """
        try:
            self._wanted = dict(self.store.load())
            self.fleets.remember(self.store.load_envoys())
        except OSError:
            with contextlib.suppress(OSError):  # what is told is that of the file
                self.store.restore(self.clock.new_id()[:8])
            raise
        self.memory = f"{self.epoch}.{self.store.restored}".rstrip(".")

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    async def _wait_for_lock(self) -> None:
        """Take over when the other process has ended."""
        try:
            while not await self._opened():
                await self.clock.sleep(RETRY_LOCK)
        except Exception as error:  # noqa: BLE001  (nobody else would ever learn of it)
            self._failed = f"this process cannot take over: {_words(error)}"
            _log.error("envoy.cannot_take_over", error=_words(error))

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
            await self._until_due()
            self._due.clear()
            flush, self._flush = self._flush, None
            self._not_saved = await self._saved(self._unpublished())
            if flush is not None:
                flush.set_result(self._not_saved)

    async def _until_due(self) -> None:
        """Wait for a change; not for long where something could not be written."""
        retry = RETRY_WRITE.total_seconds() if self._not_saved else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(retry):
                await self._due.wait()

    async def _saved(
        self, batch: Mapping[Identity, Balancer | None]
    ) -> NotSaved | None:
        """Write and publish; return what went wrong, and leaves unsure what is on disk."""
        self._unsure |= batch.keys()
        self._writing_since = self.clock.monotonic()
        try:
            await asyncio.to_thread(self.store.save, batch)
            self._publish(batch)
        except Exception as error:  # noqa: BLE001  (those who wait are told)
            if self._not_saved is None:  # it is tried again and again
                is_known = isinstance(error, OSError)
                _log.error(
                    "envoy.not_saved",
                    error=_words(error),
                    exc_info=None if is_known else error,
                )
            return NotSaved(
                f"the driver's state cannot be written ({_words(error)}), so no Envoy is "
                "told: make room, or mend the volume"
            )
        finally:
            self._writing_since = None
        self._unsure -= batch.keys()
        return None

    def _unpublished(self) -> Mapping[Identity, Balancer | None]:
        """Return what is not on disk as it shall be, as far as is known."""
        keys = {*self._wanted, *self._published, *self._unsure}
        return {
            key: self._wanted.get(key)
            for key in keys
            if key in self._unsure or self._wanted.get(key) != self._published.get(key)
        }

    async def _expire(self) -> None:
        """Forget Envoys that do not come back, also where nobody asks for their fleet."""
        while True:
            await self.clock.sleep(EXPIRE)
            self.fleets.expire()

    async def _try_refused(self) -> None:
        """Have refused resources tried again, for as long as they are refused."""
        while True:
            await self.clock.sleep(TRY_REFUSED)
            for fleet in self.fleets:
                fleet.try_refused()

    async def _write_envoys(self) -> None:
        """Write which Envoys there are whenever that changes, and until it is written."""
        while True:
            await self.fleets.unsaved()
            said = ""
            while failure := await self._envoys_failure():
                if failure != said:  # it is tried again and again
                    _log.warning("envoy.fleets_not_saved", error=failure)
                said = failure
                await self.clock.sleep(RETRY_WRITE)

    async def _envoys_failure(self) -> str:
        """Write which Envoys there are; return what went wrong, empty: nothing."""
        try:
            await asyncio.to_thread(self.store.save_envoys, self.fleets.known())
        except Exception as error:  # noqa: BLE001  (it is told, and tried again)
            return _words(error)
        return ""


def _words(error: Exception) -> str:
    """Return what an error says, or is where it says nothing."""
    return str(error) or repr(error)


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
