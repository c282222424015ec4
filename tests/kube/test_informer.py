"""The informer follows a collection through everything a network does to it.

Aspects: paging, events, bookmarks, clean ends, lost versions, throttling, pages of
proxies, cuts, silence, unreadable objects and lines, delays.
"""

import asyncio

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import attrs
import pytest

from lbcf.kube.client import KubeClient
from lbcf.kube.informer import Informer, Pacing
from lbcf.kube.kinds import Resource
from lbcf.kube.list_watch import LINE_LIMIT, Selection
from lbcf.kube.store import Store
from lbcf.runtime.tasks import CutError
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.builders import (
    CONFIG_MAPS,
    THINGS,
    PromptClock,
    Thing,
    a_thing,
    bookmark,
    event,
    key,
    parse_thing,
    thing_json,
    things,
)
from tests.kube.scripted import (
    Answer,
    ScriptedServer,
    a_status,
    answer,
    page,
    refusal,
    watch,
)
from tests.kube.tiny_api import Fault, TinyApi


WATCH = Pacing(silence=timedelta(seconds=20))
EMPTY = answer(things(version=1))

Follow = Callable[..., Awaitable[Informer[Thing]]]


@asynccontextmanager
async def following(
    informer: Informer[Thing], server: ScriptedServer
) -> AsyncIterator[None]:
    """Run an informer until the script is played."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await server.done.wait()
        yield
        task.cancel()


@pytest.fixture(name="follow")
def _follow(client: KubeClient, server: ScriptedServer, clock: PromptClock) -> Follow:
    """Plays a script to an informer and returns it as it is then."""

    async def follow(
        *answers: Answer, pacing: Pacing = WATCH, store: Store[Thing] | None = None
    ) -> Informer[Thing]:
        server.script(*answers)
        informer = Informer(client, THINGS, clock, store=store, pacing=pacing)
        async with following(informer, server):
            return informer

    return follow


def versions_watched(server: ScriptedServer) -> list[str | None]:
    """Return from which version each watch began; None stands for a list."""
    return [
        request.query["resourceVersion"] if "watch" in request.query else None
        for request in server.requests
    ]


def held(informer: Informer[Thing]) -> dict[str, str]:
    """Return the versions of the things in the store."""
    metas = [thing.meta for thing in informer.store.values()]
    return {meta.key.name: meta.resource_version for meta in metas}


def told_of(name: str) -> tuple[Resource[Thing], asyncio.Event]:
    """Return things, and what is set when the one of that name is read.

    The next page is asked for before: the server cannot tell.
    """
    is_read = asyncio.Event()

    def parse(body: bytes) -> Thing:
        thing = parse_thing(body)
        if thing.meta.key.name == name:
            is_read.set()
        return thing

    return attrs.evolve(THINGS, parse=parse), is_read


class TestList:
    """The first request, and each after a lost version, is a consistent list."""

    async def test_pages_are_joined(
        self, follow: Follow, server: ScriptedServer
    ) -> None:
        """Pages follow each other by their token and make one list."""
        informer = await follow(
            answer(things(thing_json("a", 1), version=7, rest="t=1")),
            answer(things(thing_json("b", 2), version=7)),
        )

        assert {"a": "1", "b": "2"} == held(informer)
        first, second, watching = server.requests
        assert {"limit": "500"} == first.query
        assert {"limit": "500", "continue": "t=1"} == second.query
        assert "7" == watching.query["resourceVersion"]

    async def test_synced_only_after_the_last_page(
        self, client: KubeClient, server: ScriptedServer, clock: PromptClock
    ) -> None:
        """A part of a list is no list; it is held, so that the rest is no work for seconds."""
        server.script(answer(things(thing_json("a", 1), version=7, rest="more")))
        kind, is_read = told_of("a")
        informer = Informer(client, kind, clock)
        async with following(informer, server):
            await is_read.wait()
            assert informer.last_heard is not None
            assert not informer.synced.is_set()
            assert {"a": "1"} == held(informer)

    async def test_later_list_is_taken_in_as_a_whole(
        self, client: KubeClient, server: ScriptedServer, clock: PromptClock
    ) -> None:
        """Who decides meanwhile decides by what was true at one moment."""
        server.script(
            answer(things(thing_json("a", 1), version=5)),
            refusal(410, "Expired"),
            answer(things(thing_json("b", 7), version=9, rest="more")),
        )
        kind, is_read = told_of("b")
        informer = Informer(client, kind, clock)
        async with following(informer, server):
            await is_read.wait()
            assert {"a": "1"} == held(informer)

    async def test_selectors_are_sent_with_both(
        self, client: KubeClient, server: ScriptedServer, clock: PromptClock
    ) -> None:
        """List and watch ask for the same selection."""
        server.script(EMPTY)
        selection = Selection("shop", labels="app in (a,b)", fields="spec.x!=1")
        informer = Informer(client, THINGS, clock, selection=selection)
        async with following(informer, server):
            pass

        paths = {request.path for request in server.requests}
        assert {"/apis/lbcf.test/v1/namespaces/shop/things"} == paths
        for request in server.requests:
            assert "app in (a,b)" == request.query["labelSelector"]
            assert "spec.x!=1" == request.query["fieldSelector"]

    async def test_relist_judges_earlier_own_writes(self, follow: Follow) -> None:
        """What was observed before a list was asked for must be in it, or is gone."""
        store: Store[Thing] = Store()
        written = a_thing("c", 900)

        def write(_old: Thing | None, new: Thing | None) -> None:
            if new is not None and new.meta.key == key("a"):
                store.observe(written)

        store.on_change(write)
        restored = answer(things(thing_json("a", 1), version=50))
        await follow(
            answer(things(thing_json("a", 1), version=5)),
            refusal(410, "Expired"),
            restored,
            store=store,
        )

        assert [a_thing("a", 1)] == list(store.values())

    @pytest.mark.parametrize(
        "broken",
        [
            page(503),
            page(200),
            page(404),
            answer({}),
            answer({"metadata": {"resourceVersion": "5"}}),
            answer(things(version="")),
            answer(things({"text": "nameless"}, version=5)),
            Answer(200, (b'{"metadata":',), ending="cut"),
        ],
        ids=[
            "HTML 503",
            "HTML 200",
            "HTML 404",
            "empty object",
            "no items",
            "no version",
            "nameless object",
            "cut",
        ],
    )
    async def test_no_answer_is_not_an_empty_list(
        self, follow: Follow, server: ScriptedServer, broken: Answer
    ) -> None:
        """A relist that fails leaves the store as it is, and is tried again."""
        informer = await follow(
            answer(things(thing_json("a", 3), version=3)),
            refusal(410, "Expired"),
            broken,
            broken,
            broken,
        )

        assert {"a": "3"} == held(informer)
        assert versions_watched(server)[-1] is None


class TestWatch:
    """A good watch."""

    async def test_events_change_the_store(self, follow: Follow) -> None:
        """ADDED, MODIFIED and DELETED do what they say."""
        informer = await follow(
            EMPTY,
            watch(
                event("ADDED", thing_json("a", 2)),
                event("ADDED", thing_json("b", 3)),
                event("MODIFIED", thing_json("a", 4)),
                event("DELETED", thing_json("b", 5)),
            ),
        )

        assert {"a": "4"} == held(informer)
        assert 5 == informer.store.progress

    async def test_lines_may_be_cut_anywhere(self, follow: Follow) -> None:
        """Chunks of the network are not lines."""
        chunks = (
            b'{"type":"ADDED","obj',
            b'ect":{"metadata":{"name":"a","uid":"1","resourceVersion":"2"}}}\n\n{"type":"AD',
            b'DED","object":{"metadata":{"name":"b","uid":"2","resourceVersion":"3"}}}\n',
        )
        informer = await follow(EMPTY, watch(*chunks))

        assert {"a": "2", "b": "3"} == held(informer)

    async def test_bookmark_moves_the_version(
        self, follow: Follow, server: ScriptedServer
    ) -> None:
        """The next watch begins at the bookmark, and the store knows of it."""
        informer = await follow(EMPTY, watch(bookmark(40)))

        assert [None, "1", "40"] == versions_watched(server)
        assert 40 == informer.store.progress

    async def test_bookmarks_and_an_end_are_asked_for(
        self, follow: Follow, server: ScriptedServer
    ) -> None:
        """Each watch asks for bookmarks and ends between 5 and 10 minutes."""
        await follow(EMPTY)

        query = server.requests[-1].query
        assert "true" == query["allowWatchBookmarks"]
        assert "450" == query["timeoutSeconds"]


class TestEnds:
    """Watches end in many ways."""

    async def test_clean_close_goes_on_at_once(
        self, follow: Follow, server: ScriptedServer, clock: PromptClock
    ) -> None:
        """After a watch that brought something the next one begins without delay."""
        await follow(
            EMPTY,
            watch(event("ADDED", thing_json("a", 2))),
            watch(event("MODIFIED", thing_json("a", 3))),
        )

        assert [None, "1", "2", "3"] == versions_watched(server)
        assert [0, 0] == clock.pauses

    async def test_clean_closes_without_events_slow_down(
        self, follow: Follow, clock: PromptClock
    ) -> None:
        """The first costs nothing; a server that goes on so is asked ever less."""
        await follow(EMPTY, watch(), watch(), EMPTY, watch(), watch())

        assert [0, 0.375, 0.75, 1.5] == clock.pauses

    async def test_watches_without_a_word_list_again(
        self, follow: Follow, server: ScriptedServer
    ) -> None:
        """Not even a bookmark: the version may be one that the server never had."""
        restored = answer(things(thing_json("b", 2), version=3))
        informer = await follow(
            answer(things(thing_json("a", 900), version=1000)),
            watch(),
            watch(),
            restored,
            watch(),
        )

        assert [None, "1000", "1000", None, "3", "3"] == versions_watched(server)
        assert {"b": "2"} == held(informer)
        assert 3 == informer.store.progress

    async def test_events_clear_the_failures(
        self, follow: Follow, clock: PromptClock
    ) -> None:
        """Delays start again from nothing after a watch that brought something."""
        await follow(EMPTY, watch(), page(502), watch(bookmark(2)), watch(), page(502))

        assert [0, 0.75, 0, 0, 0.75] == clock.pauses

    async def test_delays_have_a_limit(
        self, follow: Follow, clock: PromptClock
    ) -> None:
        """However long it lasts, somebody asks every half minute."""
        await follow(EMPTY, *[page(502)] * 12)

        assert 22.5 == max(clock.pauses) == clock.pauses[-1]

    @pytest.mark.parametrize(
        "forgotten",
        [
            refusal(410, "Expired"),
            watch(event("ERROR", a_status(410, "Expired"))),
        ],
        ids=["HTTP 410", "ERROR event"],
    )
    async def test_lost_version_lists_again(
        self, follow: Follow, server: ScriptedServer, forgotten: Answer
    ) -> None:
        """What vanished meanwhile is told as deleted, what stayed is not told."""
        told: list[tuple[Thing | None, Thing | None]] = []
        store: Store[Thing] = Store()
        store.on_change(lambda old, new: told.append((old, new)))
        await follow(
            answer(things(thing_json("a", 1), thing_json("b", 2), version=5)),
            forgotten,
            answer(things(thing_json("b", 2), thing_json("c", 8), version=9)),
            store=store,
        )

        assert [None, "5", None, "9"] == versions_watched(server)
        assert [(a_thing("a", 1), None), (None, a_thing("c", 8))] == told[2:]

    async def test_versions_lost_again_and_again_slow_down(
        self, follow: Follow, clock: PromptClock
    ) -> None:
        """A list whose version is forgotten at once is not repeated in a loop."""
        gone = watch(event("ERROR", a_status(410, "Expired")))
        await follow(EMPTY, gone, EMPTY, gone, EMPTY, gone)

        assert [0, 0.375, 0.75] == clock.pauses

    async def test_throttled_watch_waits_as_told(
        self, follow: Follow, server: ScriptedServer, clock: PromptClock
    ) -> None:
        """Retry-After of a 429 is the least delay; the version stays."""
        await follow(
            EMPTY, refusal(429, "TooManyRequests", Retry_After="7"), watch(bookmark(2))
        )

        assert [None, "1", "1", "2"] == versions_watched(server)
        assert [7.25, 0] == clock.pauses

    async def test_html_503_is_no_event(
        self, follow: Follow, server: ScriptedServer, clock: PromptClock
    ) -> None:
        """A proxy's page changes nothing; the watch goes on from its version."""
        informer = await follow(
            answer(things(thing_json("a", 1), version=5)), page(503), page(200)
        )

        assert {"a": "1"} == held(informer)
        assert [None, "5", "5", "5"] == versions_watched(server)
        assert [0.375, 0.75] == clock.pauses

    async def test_cut_in_a_line_goes_on_from_the_last_whole_one(
        self, follow: Follow, server: ScriptedServer
    ) -> None:
        """Half an event is none."""
        half = b'{"type":"ADDED","object":{"metadata":{"name":"b","resourceVe'
        informer = await follow(
            EMPTY, watch(event("ADDED", thing_json("a", 2)), half, ending="cut")
        )

        assert {"a": "2"} == held(informer)
        assert [None, "1", "2"] == versions_watched(server)

    async def test_clean_end_in_a_line_is_a_cut(
        self, follow: Follow, server: ScriptedServer, clock: PromptClock
    ) -> None:
        """A proxy that ends an answer well does not make half an event whole."""
        whole = b'{"type":"DELETED","object":{"metadata":{"name":"a"}}}'
        informer = await follow(
            answer(things(thing_json("a", 1), version=5)), watch(whole)
        )

        assert {"a": "1"} == held(informer)
        assert [None, "5", "5"] == versions_watched(server)
        assert [0.375] == clock.pauses

    @pytest.mark.parametrize(
        "silent",
        [watch(ending="hang"), watch(bookmark(1), ending="hang")],
        ids=["before the headers", "in the stream"],
    )
    async def test_silent_peer_is_left(
        self, follow: Follow, server: ScriptedServer, silent: Answer
    ) -> None:
        """After the silence the watch begins anew from its version."""
        pacing = Pacing(silence=timedelta(milliseconds=50))
        await follow(EMPTY, silent, pacing=pacing)

        assert [None, "1", "1"] == versions_watched(server)

    async def test_long_watch_without_events_is_good(
        self, follow: Follow, clock: PromptClock
    ) -> None:
        """An idle collection is watched on without delay."""
        pacing = Pacing(longest_delay=timedelta(microseconds=1))
        await follow(EMPTY, watch(), watch(), EMPTY, watch(), pacing=pacing)

        assert [0, 0, 0] == clock.pauses


class TestUnreadable:
    """What cannot be read is held, and said."""

    async def test_object_does_not_stop_the_watch(self, follow: Follow) -> None:
        """Its last readable version stays; the objects after it are followed."""
        informer = await follow(
            answer(things(thing_json("a", 1), version=5)),
            watch(
                event("MODIFIED", thing_json("a", 6, text=7)),
                event("ADDED", thing_json("b", 7)),
            ),
        )

        assert {"a": "1", "b": "7"} == held(informer)
        assert [key("a")] == list(informer.store.unreadable)
        assert "text" in informer.store.unreadable[key("a")]
        assert 7 == informer.store.progress

    async def test_object_in_a_list_is_named(self, follow: Follow) -> None:
        """The others of the list are held as usual."""
        informer = await follow(
            answer(things(thing_json("a", 1, text=7), thing_json("b", 2), version=5))
        )

        assert {"b": "2"} == held(informer)
        assert [key("a")] == list(informer.store.unreadable)
        assert informer.synced.is_set()

    @pytest.mark.parametrize(
        "line",
        [
            b"<html>\n",
            b'{"type":"ADDED","object":{}}\n',
            b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}\n',
            b'{"type":"SHRUNK","object":{"metadata":{"name":"a"}}}\n',
            b'{"type":"BOOKMARK","object":{}}\n',
            b"x" * (LINE_LIMIT + 2),
        ],
        ids=["HTML", "nameless", "no UTF-8", "new type", "empty bookmark", "huge"],
    )
    async def test_line_makes_it_list_again(
        self, follow: Follow, server: ScriptedServer, clock: PromptClock, line: bytes
    ) -> None:
        """It may have been an event: only a list tells what it changed."""
        await follow(EMPTY, watch(line), answer(things(version=9)))

        assert [None, "1", None, "9"] == versions_watched(server)
        assert [0.375] == clock.pauses

    async def test_error_event_is_not_decoded_as_an_object(
        self, follow: Follow, server: ScriptedServer
    ) -> None:
        """An ERROR of the server's ends the watch, and it goes on from its version."""
        trouble = event("ERROR", a_status(500, "InternalError", "etcd is away"))
        informer = await follow(EMPTY, watch(trouble))

        assert 0 == len(informer.store)
        assert [None, "1", "1"] == versions_watched(server)


async def test_fault_of_our_own_does_not_end_it(
    client: KubeClient, server: ScriptedServer, clock: PromptClock
) -> None:
    """A decoder with a bug is logged, and the collection listed again."""

    def parse(_body: bytes) -> Thing:
        raise ZeroDivisionError

    server.script(*[answer(things(thing_json("a", 1), version=5))] * 3)
    faulty = THINGS.__class__("lbcf.test", "v1", "things", "Thing", parse)
    informer = Informer(client, faulty, clock)
    async with following(informer, server):
        assert not informer.synced.is_set()

    assert [0.375, 0.75, 1.5] == clock.pauses


def test_cut_that_nobody_asked_for_does_not_end_it() -> None:
    """Its task would end without a word, and the store would age."""

    async def play() -> None:
        api = TinyApi()
        api.fault = Fault.CUT
        informer = Informer(KubeClient(api), CONFIG_MAPS, VirtualClock())
        running = asyncio.create_task(informer.run())
        await asyncio.sleep(2)
        assert not informer.synced.is_set()
        assert isinstance(informer.last_error, CutError)

        api.fault = None
        await asyncio.sleep(5)
        assert informer.synced.is_set()

        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_virtual(play())
