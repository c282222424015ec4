"""An API server in memory, for tests in virtual time, where no socket lives.

It knows objects with versions, uids, generations, finalizers, status subresources and
preconditions, lists with selectors, and watches with bookmarks. `test_contract` holds it
to what the real one does; `tiny_rules` says what becomes of an object, `tiny_history`
what lists and watches tell.
"""

import asyncio

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from http import HTTPStatus
from typing import cast

import msgspec

from lbcf.kube.errors import Unavailable
from lbcf.kube.requests import JSON_PATCH, ApiRequest
from tests.kube.tiny_history import TOO_OLD, Change, History, Watch, bookmark, matcher
from tests.kube.tiny_rules import (
    Json,
    Place,
    check_named,
    created,
    ending,
    is_over,
    json_patched,
    metadata_of,
    patched,
    place_of,
    refused,
    with_metadata,
)
from tests.kube.tiny_schemas import check_of


__all__ = ["Fault", "Json", "TinyApi"]

_START = datetime(2026, 1, 1, tzinfo=UTC)


class Fault(Enum):
    """What happens to a request on its way."""

    UNSENT = auto()
    """It never arrives, and the sender knows."""

    UNANSWERED = auto()
    """It is carried out, and the answer is lost."""

    STALLED = auto()
    """It arrives, and nothing ever comes back."""

    CUT = auto()
    """It never arrives: a library cancels what waits for it, which nobody has asked for."""


class TinyApi:
    """Implements `HttpTransport`.

    Args:
        now: tells the time for metadata.

    Attributes:
        objects: by path.
        requests: all that arrived, as method and path.
        fault: happens to each request while it is set.
        history: all that was ever stored.
        on_change: called after each change.
        on_invalid: told what a kind's schema refused.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: _START) -> None:
        self.objects: dict[str, Json] = {}
        self.requests: list[str] = []
        self.fault: Fault | None = None
        self.history = History()
        self.on_change: list[Callable[[Change], None]] = []
        self.on_invalid: Callable[[str], None] = lambda _said: None
        self._now = now
        self._waiting: list[asyncio.Future[None]] = []

    async def send(self, request: ApiRequest, within: timedelta | None = None) -> bytes:
        """Carry a request out, or let its fault happen."""
        fault = self.fault
        if fault is Fault.UNSENT:
            raise Unavailable(f"{request}: refused", sent=False)
        if fault is Fault.CUT:
            raise asyncio.CancelledError
        if fault is Fault.STALLED:
            await asyncio.sleep(within.total_seconds() if within else 30)
            raise Unavailable(f"{request}: no answer", sent=None)
        self.requests.append(str(request))
        answer = self.perform(request)
        await asyncio.sleep(0)
        if fault is Fault.UNANSWERED:
            raise Unavailable(f"{request}: cut", sent=None)
        return answer

    @asynccontextmanager
    async def stream(
        self, request: ApiRequest, silence: timedelta
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch that lasts as long as it asked for."""
        _ = silence
        self.requests.append(str(request))
        yield self._chunks(self.watch(request), int(request.query["timeoutSeconds"]))

    async def _chunks(self, watch: Watch, seconds: int) -> AsyncIterator[bytes]:
        """Give out what happens, and a bookmark at the end."""
        if watch.is_too_old:
            yield TOO_OLD
            return
        until = asyncio.get_running_loop().time() + seconds
        while True:
            chunk = watch.take(self.history.version)
            if chunk:
                yield chunk
                continue
            news = asyncio.get_running_loop().create_future()
            self._waiting.append(news)
            try:
                async with asyncio.timeout_at(until):
                    await news
            except TimeoutError:
                yield bookmark(self.history.version)
                return

    def watch(self, request: ApiRequest) -> Watch:
        """Begin to watch; who watches asks for what is new by himself."""
        return Watch(self.history, place_of(request.path), request.query)

    def perform(self, request: ApiRequest, *, at: int | None = None) -> bytes:
        """Carry a request out.

        Args:
            request: anything but a watch.
            at: the version that a list shows, None: what is true now.

        Raises:
            KubeError: as the real server would refuse it.
        """
        place = place_of(request.path)
        body = cast("Json", msgspec.json.decode(request.body or b"{}"))
        match request.method:
            case "GET" if not place.name:
                return self._list(request, place, at)
            case "GET":
                return msgspec.json.encode(self._found(request, place))
            case "POST":
                return msgspec.json.encode(self._create(request, place, body))
            case "PATCH":
                return msgspec.json.encode(self._patch(request, place, body))
            case "DELETE":
                return msgspec.json.encode(self._delete(request, place, body))

    def put(self, path: str, whole: Json) -> Json:
        """Store an object as some other client would, whatever the rules say."""
        place = place_of(path)
        if "uid" not in metadata_of(whole):
            uid = f"uid-{self.history.version + 1}"
            own: Json = {"name": place.name, "namespace": place.namespace, "uid": uid}
            whole = with_metadata(whole, **{**own, **metadata_of(whole)})
        return self._store(place, whole)

    def remove(self, path: str) -> None:
        """Remove an object as if nothing held it."""
        self._end(place_of(path), self.objects[path])

    def _list(self, request: ApiRequest, place: Place, at: int | None) -> bytes:
        """List a collection as it is, or was."""
        matches = matcher(request.query)
        if at is None:
            stored = iter(
                [(place_of(path), whole) for path, whole in self.objects.items()]
            )
        else:
            stored = self.history.objects_at(at)
        items = [
            whole
            for found, whole in stored
            if found.kind == place.kind
            and place.namespace in ("", found.namespace)
            and matches(whole)
        ]
        version = str(self.history.version if at is None else at)
        whole = {"metadata": {"resourceVersion": version}, "items": items}
        return msgspec.json.encode(whole)

    def _found(self, request: ApiRequest, place: Place) -> Json:
        """Return an object that exists."""
        found = self.objects.get(place.path)
        if found is None:
            raise refused(request, HTTPStatus.NOT_FOUND, "NotFound")
        return found

    def _create(self, request: ApiRequest, place: Place, body: Json) -> Json:
        """Make an object."""
        name = str(metadata_of(body)["name"])
        path = f"{request.path}/{name}"
        if path in self.objects:
            raise refused(request, HTTPStatus.CONFLICT, "AlreadyExists")
        self._hold(request, place, body)
        uid = f"uid-{self.history.version + 1}"
        return self._store(place_of(path), created(place, body, uid, self._now()))

    def _patch(self, request: ApiRequest, place: Place, body: Json) -> Json:
        """Change an object by a patch; what changes nothing makes no version."""
        found = self._found(request, place)
        if request.content_type == JSON_PATCH:
            whole = json_patched(request, found, cast("list[Json]", body))
        else:
            check_named(request, found, metadata_of(body))
            whole = patched(request, place, found, body)
        self._hold(request, place, whole)
        if whole == found:
            return found
        if is_over(whole):
            # Taking the last finalizer off ends the object in one transaction; what
            # is returned has the version from before.
            self._end(place, whole)
            return whole
        return self._store(place_of(place.path), whole)

    def _hold(self, request: ApiRequest, place: Place, whole: Json) -> None:
        """Hold an object to the schema of its kind.

        Raises:
            Invalid: it breaks it; says where.
        """
        said = check_of(place.plural)(whole)
        if said is not None:
            self.on_invalid(f"{request}: {said}")
            code = HTTPStatus.UNPROCESSABLE_ENTITY
            raise refused(request, code, "Invalid", said)

    def _delete(self, request: ApiRequest, place: Place, body: Json) -> Json:
        """Remove an object, or begin to."""
        found = self._found(request, place)
        check_named(request, found, cast("Json", body.get("preconditions", {})))
        metadata = metadata_of(found)
        if metadata.get("deletionTimestamp"):
            return found
        if metadata.get("finalizers"):
            return self._store(place, ending(place, found, self._now()))
        self._end(place, found)
        return {"kind": "Status", "status": "Success"}

    def _store(self, place: Place, whole: Json) -> Json:
        """Keep an object in a new version."""
        version = self.history.version + 1
        before = self.objects.get(place.path)
        after = with_metadata(whole, resourceVersion=str(version))
        self.objects[place.path] = after
        self._tell(Change(version, place, before, after))
        return after

    def _end(self, place: Place, last: Json) -> None:
        """Remove an object; its end has a version of its own."""
        version = self.history.version + 1
        place = place_of(place.path)
        del self.objects[place.path]
        last = with_metadata(last, resourceVersion=str(version))
        self._tell(Change(version, place, last, None))

    def _tell(self, change: Change) -> None:
        """Note a change, and wake whoever waits for one."""
        self.history.add(change)
        waiting, self._waiting = self._waiting, []
        for news in waiting:
            if not news.done():
                news.set_result(None)
        for listener in self.on_change:
            listener(change)
