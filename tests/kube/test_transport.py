"""One request: what its answers mean, what is repeated, who we say we are.

Aspects: errors by status, pages of proxies, repetitions, lost answers, time limits,
credentials, headers.
"""

import asyncio

from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import Connection
from lbcf.kube.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    Throttled,
    Unauthorized,
    Unavailable,
    UnreadableAnswer,
)
from lbcf.kube.list_watch import Selection
from lbcf.kube.requests import ApiRequest
from lbcf.kube.transport import POOL, Transport
from tests.kube.builders import (
    THINGS,
    PromptClock,
    Thing,
    a_thing,
    bookmark,
    key,
    thing_json,
)
from tests.kube.scripted import (
    Answer,
    ScriptedServer,
    answer,
    page,
    refusal,
    running,
    watch,
)
from tests.patience import PATIENCE
from tests.steady import run_steadily


THING = answer(thing_json("web", 1))
THROTTLED = refusal(429, "TooManyRequests", Retry_After="1")
CUT = Answer(200, (b'{"meta',), ending="cut")


class TestErrors:
    """The tree of errors."""

    @pytest.mark.parametrize(
        ("code", "reason", "expected"),
        [
            (400, "BadRequest", Invalid),
            (401, "Unauthorized", Unauthorized),
            (403, "Forbidden", Forbidden),
            (404, "NotFound", NotFound),
            (405, "MethodNotAllowed", KubeError),
            (409, "Conflict", Conflict),
            (409, "AlreadyExists", AlreadyExists),
            (410, "Expired", Expired),
            (422, "Invalid", Invalid),
            (429, "TooManyRequests", Throttled),
            (500, "InternalError", Unavailable),
            (503, "ServiceUnavailable", Unavailable),
            (504, "Timeout", Unavailable),
        ],
    )
    async def test_status_becomes_its_error(
        self,
        client: KubeClient,
        server: ScriptedServer,
        code: int,
        reason: str,
        expected: type[KubeError],
    ) -> None:
        """Each has its class, and tells the server's words, cut to a fit length."""
        server.script(*[refusal(code, reason, "w" * 1000)] * 3)
        with pytest.raises(KubeError) as caught:
            await client.create(THINGS, "shop", {})

        assert expected is type(caught.value)
        assert (code, reason) == (caught.value.status, caught.value.reason)
        assert f"{code} {'w' * 256}" == str(caught.value).split(": ", 1)[1]

    @pytest.mark.parametrize("code", [200, 302, 400, 403, 404, 409, 410, 422, 502, 503])
    async def test_page_of_a_proxy_means_nothing(
        self, client: KubeClient, server: ScriptedServer, code: int
    ) -> None:
        """Above all a 404 is no absence; and nobody reads what the page says."""
        server.script(page(code))
        with pytest.raises(Unavailable) as caught:
            await client.patch(THINGS, key("web"), {})

        assert caught.value.sent is True
        assert "db7.intern" not in str(caught.value)
        assert str(code) in str(caught.value)

    async def test_missing_kind_is_no_absence(
        self, client: KubeClient, server: ScriptedServer
    ) -> None:
        """A 404 `Status` that names no object is about the kind."""
        status = {"kind": "Status", "code": 404, "reason": "NotFound", "details": {}}
        server.script(*[answer(status, 404)] * 3)

        with pytest.raises(Unavailable):
            await client.get(THINGS, key("web"))

    async def test_unreadable_object_is_a_bad_answer(
        self, client: KubeClient, server: ScriptedServer
    ) -> None:
        """The message says what is wrong with it."""
        server.script(answer(thing_json("web", 1, text=7)))

        with pytest.raises(UnreadableAnswer, match="text"):
            await client.get(THINGS, key("web"))

    async def test_redirect_is_not_followed(
        self, client: KubeClient, server: ScriptedServer
    ) -> None:
        """Credentials go nowhere but to the server."""
        moved = Answer(307, headers={"Location": server.host + "/elsewhere"})
        server.script(moved, THING)

        with pytest.raises(Unavailable):
            await client.create(THINGS, "shop", {})
        assert 1 == len(server.requests)


class TestRepetition:
    """What is sent again, and what is not."""

    async def test_throttled_write_is_sent_again(
        self, client: KubeClient, server: ScriptedServer, clock: PromptClock
    ) -> None:
        """It was not looked at; the wait is as long as the server says."""
        server.script(THROTTLED, THROTTLED, THING)

        assert a_thing("web", 1) == await client.create(THINGS, "shop", {})
        assert [1.1, 1.2] == clock.pauses

    async def test_it_gives_up_after_three(
        self, client: KubeClient, server: ScriptedServer
    ) -> None:
        """The caller learns when to come again."""
        server.script(*[THROTTLED] * 4)
        with pytest.raises(Throttled) as caught:
            await client.create(THINGS, "shop", {})

        assert timedelta(seconds=1) == caught.value.retry_after
        assert 3 == len(server.requests)

    async def test_long_wish_is_left_to_the_caller(
        self, client: KubeClient, server: ScriptedServer
    ) -> None:
        """Nobody is kept waiting inside a call for a minute."""
        server.script(refusal(429, "TooManyRequests", Retry_After="60"), THING)
        with pytest.raises(Throttled) as caught:
            await client.get(THINGS, key("web"))

        assert timedelta(minutes=1) == caught.value.retry_after
        assert 1 == len(server.requests)

    @pytest.mark.parametrize(
        ("broken", "sent"),
        [(page(503), True), (CUT, None), (Answer(ending="cut"), None)],
        ids=["answered", "cut in the answer", "cut before the answer"],
    )
    async def test_write_that_may_be_applied_is_not_repeated(
        self,
        client: KubeClient,
        server: ScriptedServer,
        broken: Answer,
        sent: bool | None,
    ) -> None:
        """The caller must look before it writes again."""
        for write in (
            client.create(THINGS, "shop", {}),
            client.patch(THINGS, key("web"), {}),
        ):
            server.script(broken)
            with pytest.raises(Unavailable) as caught:
                await write
            assert sent is caught.value.sent
            assert caught.value.maybe_applied

        assert 2 == len(server.requests)

    async def test_read_is_repeated(
        self, client: KubeClient, server: ScriptedServer
    ) -> None:
        """Reading twice harms nobody."""
        server.script(page(503), CUT, THING)

        assert a_thing("web", 1) == await client.get(THINGS, key("web"))

    async def test_refused_connection_is_surely_unsent(
        self, clock: PromptClock
    ) -> None:
        """It is tried three times, writes as well, and said to be harmless."""
        nobody = Connection("http://127.0.0.1:1")
        async with connected(nobody, clock) as client:
            with pytest.raises(Unavailable) as caught:
                await client.create(THINGS, "shop", {})

        assert not caught.value.maybe_applied
        assert 2 == len(clock.slept)

    async def test_nothing_is_sent_by_a_closed_client(
        self, server: ScriptedServer, clock: PromptClock
    ) -> None:
        """A repetition that slept meanwhile opens no session that nobody would close."""
        async with connected(server.connection, clock) as client:
            pass

        with pytest.raises(Unavailable, match="the client is closed") as caught:
            await client.get(THINGS, key("web"))

        assert not caught.value.maybe_applied
        assert [] == server.requests

    def test_time_limit_covers_all(self, clock: PromptClock) -> None:
        """A server that says nothing leaves open whether it heard."""
        limit = timedelta(milliseconds=50)

        async def story() -> int:
            async with (
                running() as server,
                connected(server.connection, clock) as client,
            ):
                with pytest.raises(Unavailable, match=r"0\.05 s") as caught:
                    await client.create(THINGS, "shop", {}, within=limit)
            assert caught.value.sent is None
            return len(server.requests)

        assert 1 == run_steadily(story())

    def test_time_limit_begins_with_a_place(self, clock: PromptClock) -> None:
        """Who waits for as long as the limit behind somebody is sent, and answered."""
        limit = timedelta(seconds=1)

        async def story() -> list[Thing | BaseException]:
            async with (
                running() as server,
                connected(server.connection, clock, at_once=1) as client,
            ):
                server.script(Answer(ending="hang"), THING)
                creates = (
                    client.create(THINGS, "shop", {}, within=limit) for _ in "ab"
                )
                return await asyncio.gather(*creates, return_exceptions=True)

        answers = run_steadily(story())
        assert isinstance(answers[0], Unavailable)
        assert a_thing("web", 1) == answers[1]


class Tokens:
    """A source of tokens that expire when told so."""

    def __init__(self) -> None:
        self.number = 1
        self.renewals = 0
        self.allowed = asyncio.Event()
        self.allowed.set()

    async def authorization(self) -> str:
        """Return the header of now."""
        return f"Bearer {self.number}"

    async def renew(self) -> None:
        """Get the next token."""
        await self.allowed.wait()
        self.renewals += 1
        self.number += 1

    def connection(self, host: str) -> Connection:
        """Use it."""
        return Connection(host, authorization=self.authorization, renew=self.renew)


class TestCredentials:
    """Who we say we are."""

    async def test_refused_token_is_renewed_once(
        self, server: ScriptedServer, clock: PromptClock
    ) -> None:
        """Also for a write: a request that was not believed was not carried out."""
        tokens = Tokens()
        server.script(refusal(401, "Unauthorized"), THING)
        async with connected(tokens.connection(server.host), clock) as client:
            await client.create(THINGS, "shop", {})

        sent = [request.headers["authorization"] for request in server.requests]
        assert ["Bearer 1", "Bearer 2"] == sent

    async def test_many_refusals_renew_once(
        self, server: ScriptedServer, clock: PromptClock
    ) -> None:
        """Requests side by side share the new token."""
        tokens = Tokens()
        server.script(*[refusal(401, "Unauthorized")] * 3, THING, THING, THING)
        tokens.allowed.clear()
        async with (
            connected(tokens.connection(server.host), clock) as client,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(3):
                group.create_task(client.get(THINGS, key("web")))
            while len(server.requests) < 3:  # noqa: ASYNC110 - the server has no event
                await asyncio.sleep(0)
            tokens.allowed.set()

        assert 1 == tokens.renewals

    async def test_token_that_stays_refused_is_told(
        self, server: ScriptedServer, clock: PromptClock
    ) -> None:
        """No loop of renewals."""
        tokens = Tokens()
        server.script(*[refusal(401, "Unauthorized")] * 5)
        async with connected(tokens.connection(server.host), clock) as client:
            with pytest.raises(Unauthorized):
                await client.get(THINGS, key("web"))

        assert 2 == len(server.requests)

    async def test_watch_renews_for_the_next_one(
        self, server: ScriptedServer, clock: PromptClock
    ) -> None:
        """The informer opens watches anew; the next one has the new token."""
        tokens = Tokens()
        server.script(refusal(401, "Unauthorized"))
        async with connected(tokens.connection(server.host), clock) as client:
            watching = client.watch(
                THINGS,
                Selection(),
                version="1",
                seconds=1,
                silence=timedelta(seconds=1),
            )
            with pytest.raises(Unauthorized):
                await watching.__aenter__()

        assert "Bearer 2" == await tokens.authorization()


class TestRequests:
    """What a server sees."""

    async def test_headers_and_parameters(
        self, client: KubeClient, server: ScriptedServer
    ) -> None:
        """Who asks, who writes, and what kind of body comes."""
        server.script(THING, THING, THING)
        await client.create(THINGS, "shop", {"text": "x"})
        await client.patch(THINGS, key("web"), {}, subresource="status")
        await client.patch(THINGS, key("web"), [])

        create, merge, patch = server.requests
        assert "lbcf-test/1" == create.headers["user-agent"]
        assert {"fieldManager": "tests"} == create.query
        expected = {"apiVersion": "lbcf.test/v1", "kind": "Thing", "text": "x"}
        assert expected == create.json()
        assert "/apis/lbcf.test/v1/namespaces/shop/things/web/status" == merge.path
        assert "application/merge-patch+json" == merge.headers["content-type"]
        assert "application/json-patch+json" == patch.headers["content-type"]

    async def test_connection_is_kept(
        self, client: KubeClient, server: ScriptedServer
    ) -> None:
        """Requests one after the other share it."""
        server.script(THING, THING)
        await client.get(THINGS, key("web"))
        await client.get(THINGS, key("web"))

        assert 1 == server.connections

    async def test_connection_outlives_refusals(
        self, client: KubeClient, server: ScriptedServer
    ) -> None:
        """They are answers: in a storm of conflicts each handshake costs more than the request."""
        server.script(refusal(404, "NotFound"), refusal(409, "Conflict"), THING)
        with pytest.raises(NotFound):
            await client.get(THINGS, key("web"))
        with pytest.raises(Conflict):
            await client.create(THINGS, "shop", {})
        await client.get(THINGS, key("web"))

        assert 1 == server.connections

    async def test_watches_take_no_request_s_place(
        self, server: ScriptedServer, clock: PromptClock
    ) -> None:
        """However many are open: what has to end is ended at once."""
        streams = [watch(bookmark(1), ending="hang")] * POOL
        server.script(*streams, THING)
        silence = timedelta(seconds=PATIENCE)
        things = "/apis/lbcf.test/v1/things"
        async with (
            Transport(server.connection, clock) as transport,
            AsyncExitStack() as watches,
        ):
            for _ in streams:
                opened = transport.stream(ApiRequest("GET", things), silence)
                await watches.enter_async_context(opened)
            await transport.send(ApiRequest("DELETE", f"{things}/web"))

        assert "DELETE" == server.requests[-1].method
