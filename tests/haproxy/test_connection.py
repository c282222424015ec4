"""One line, one answer, with an end in bytes and in time."""

import asyncio
import contextlib

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import pytest

from lbcf.sdk import Fail, Refusal, RetryAfter, Succ
from tests.haproxy.conftest import ANYWHERE, HERE, PATIENT, patient
from tests.haproxy.proxy import Haproxy
from tests.haproxy.relay import changes_cut
from tests.haproxy.requests import NO_CHECK, an_ensure, an_identity
from tests.haproxy.rig import HaproxyRig
from tests.haproxy.waiting import until
from tests.webhooks.requests import RECORD
from tests.webhooks.troubled import asking, settled
from webhooks.haproxy.commands import Command
from webhooks.haproxy.connection import LONGEST_LINE, LONGEST_TCP_LINE, Limits, exchange
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.endpoints import Endpoint
from webhooks.haproxy.errors import (
    InvalidInput,
    NoAnswer,
    Uncertain,
    Unreachable,
    Unreadable,
)
from webhooks.haproxy.load_balancers import LoadBalancers
from webhooks.haproxy.runtime_api import RuntimeApi


IMPATIENT = Limits(patience=timedelta(seconds=0.3))


def an_impatient_driver(patience: timedelta = timedelta(seconds=8)) -> HaproxyDriver:
    """Return a driver that gives each command 0.3 s."""
    return HaproxyDriver(
        LoadBalancers(ANYWHERE, IMPATIENT, addresses=HERE), patience=patience
    )


@contextlib.asynccontextmanager
async def a_peer(
    folder: Path, answer: bytes, times: int = 1
) -> AsyncIterator[Endpoint]:
    """Listen as something that is not HAProxy 2.6, and answer that, again and again."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        with contextlib.suppress(OSError):
            for _ in range(times):
                writer.write(answer)
                await writer.drain()
        writer.close()

    path = str(folder / "peer.sock")
    async with await asyncio.start_unix_server(talk, path):
        yield Endpoint(path=path)


async def test_an_answer_without_end(tmp_path: Path) -> None:
    """An endless answer, as HAProxy 3.2.0 gives to long lines, is cut at the limit."""
    async with a_peer(tmp_path, b"x" * 1024, times=10_000) as endpoint:
        with pytest.raises(Unreadable, match="more than 65536 bytes"):
            await exchange(endpoint, "show info", Limits(PATIENT.patience, most=65536))


async def test_a_peer_that_hangs_up(tmp_path: Path) -> None:
    """The end of the stream before any answer is no answer."""
    async with a_peer(tmp_path, b"") as endpoint:
        with pytest.raises(NoAnswer, match="without an answer"):
            await exchange(endpoint, "show info", PATIENT)


async def test_an_answer_in_pieces(tmp_path: Path) -> None:
    """An answer is whole however many pieces it comes in."""
    async with a_peer(tmp_path, b"piece\n", times=1000) as endpoint:
        answer = await exchange(endpoint, "show info", PATIENT)

    assert "piece\n" * 1000 == answer


async def test_nobody_there(tmp_path: Path) -> None:
    """A socket that does not exist says so, and what to look at."""
    with pytest.raises(Unreachable, match="is this its `stats socket`"):
        await exchange(Endpoint(path=str(tmp_path / "no")), "show info", PATIENT)


@pytest.mark.parametrize(
    ("endpoint", "longest"),
    [
        (Endpoint(path="/nowhere"), LONGEST_LINE),
        (Endpoint(host="127.0.0.1", port=1), LONGEST_TCP_LINE),
    ],
    ids=["unix", "tcp"],
)
async def test_a_line_that_is_too_long(endpoint: Endpoint, longest: int) -> None:
    """A line that HAProxy might hang on is refused before a connection is made."""
    with pytest.raises(InvalidInput, match=f"at most {longest}"):
        await exchange(endpoint, "x" * longest, Limits())
    with pytest.raises(Unreachable):
        await exchange(endpoint, "x" * (longest - 1), PATIENT)


@pytest.mark.parametrize("line", ["a\nb", "a\r", "tab\t", "é", "\0"])
async def test_a_line_that_is_none(line: str) -> None:
    """What is not one line of printable ASCII is refused before a connection is made."""
    with pytest.raises(InvalidInput, match="one line of ASCII"):
        await exchange(Endpoint(path="/nowhere"), line, Limits())


@pytest.mark.haproxy
async def test_the_longest_line_is_answered(proxy: Haproxy) -> None:
    """HAProxy answers lines of the greatest length that we send."""
    endpoints = {
        Endpoint(path=proxy.socket): LONGEST_LINE,
        Endpoint(host="127.0.0.1", port=proxy.runtime_port): LONGEST_TCP_LINE,
    }
    for endpoint, longest in endpoints.items():
        answer = await exchange(endpoint, "x" * (longest - 1), PATIENT)

        assert answer.startswith("Unknown command")


@pytest.mark.haproxy
async def test_all_slots_are_taken(driver: HaproxyDriver, proxy: Haproxy) -> None:
    """With the ten slots taken, an operation fails and says so; later it succeeds."""
    lb_info = an_identity(proxy)
    held = [await asyncio.open_unix_connection(proxy.socket) for _ in range(10)]

    with pytest.raises(Fail, match="`stats maxconn`"):
        await an_impatient_driver().ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))
    for _, writer in held:
        writer.close()
    await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80"))

    assert 1 == len(await proxy.ours())


class CountedApi(RuntimeApi):
    """The real client, and how many lines were under way together."""

    inside: ClassVar[int] = 0
    most: ClassVar[int] = 0

    async def ask(self, line: str) -> str:
        """Send the line."""
        CountedApi.inside += 1
        CountedApi.most = max(CountedApi.most, CountedApi.inside)
        try:
            return await super().ask(line)
        finally:
            CountedApi.inside -= 1


@pytest.mark.haproxy
async def test_one_slot_is_enough(proxy: Haproxy) -> None:
    """With nine slots taken by others, fifty operations at once all succeed."""
    driver = patient(HaproxyDriver, connect=CountedApi, addresses=HERE)
    lb_info = an_identity(proxy)
    CountedApi.most = 0
    held = [await asyncio.open_unix_connection(proxy.socket) for _ in range(9)]

    await asyncio.gather(
        *(
            driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80", f"r-{number}"))
            for number in range(50)
        )
    )

    for _, writer in held:
        writer.close()
    assert 50 == len(await proxy.ours())
    assert 1 == CountedApi.most


@pytest.mark.haproxy
async def test_operations_end_while_haproxy_hangs(proxy: Haproxy) -> None:
    """All operations end, those too that wait for others; none takes effect later."""
    driver = an_impatient_driver(patience=timedelta(seconds=0.7))
    lb_info = an_identity(proxy)
    async with proxy.hung():
        answers = await asyncio.gather(
            *(
                driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80", f"r-{number}"))
                for number in range(20)
            ),
            return_exceptions=True,
        )

    assert {type(answer) for answer in answers} <= {Fail, RetryAfter}
    assert [] == await proxy.ours()


@pytest.mark.haproxy
async def test_a_change_without_an_answer_is_uncertain(proxy: Haproxy) -> None:
    """A command that HAProxy takes up after we have gone is not called a failure."""
    api = RuntimeApi(Endpoint(path=proxy.socket), IMPATIENT)
    async with proxy.hung():
        with pytest.raises(Uncertain):
            await api.change(Command("add server web/lbcf-late 127.0.1.1:80"))

    async def is_there() -> bool:
        return ["lbcf-late"] == await proxy.ours()

    await until(is_there)


class SilentApi(RuntimeApi):
    """The real client, whose answers to `add server` get lost."""

    async def ask(self, line: str) -> str:
        """Send the line, and lose the answer."""
        answer = await super().ask(line)
        if line.startswith("add server"):
            raise NoAnswer("lost")
        return answer


class LosingApi(RuntimeApi):
    """The real client, whose `add server` do not arrive yet."""

    lost: ClassVar[list[str]] = []

    async def ask(self, line: str) -> str:
        """Send any other line."""
        if line.startswith("add server"):
            self.lost.append(line)
            raise NoAnswer("lost")
        return await super().ask(line)


@pytest.mark.haproxy
async def test_an_uncertain_operation_goes_on(proxy: Haproxy) -> None:
    """An operation whose command may take effect yet answers Running, not Fail."""
    driver = HaproxyDriver(LoadBalancers(ANYWHERE, connect=SilentApi, addresses=HERE))
    request = an_ensure(an_identity(proxy), "127.0.1.1:80")

    with pytest.raises(RetryAfter, match="lost"):
        await driver.ensure_backend(request)
    await driver.ensure_backend(request)

    assert 1 == len(await proxy.ours())


LITTLE = NO_CHECK | {"maxconn": "1"}
MUCH = NO_CHECK | {"maxconn": "100"}


@pytest.mark.haproxy
@pytest.mark.parametrize("api", [SilentApi, RuntimeApi])
@pytest.mark.parametrize("together", [False, True])
async def test_parameters_change_before_an_answer_arrives(
    proxy: Haproxy, api: type[RuntimeApi], together: bool
) -> None:
    """HAProxy's answer was lost, or the driver's: what the member has is not forgotten."""
    driver = HaproxyDriver(LoadBalancers(ANYWHERE, connect=api, addresses=HERE))
    lb_info = an_identity(proxy)

    async def ensured(parameters: dict[str, str]) -> object:
        request = an_ensure(lb_info, "127.0.1.1:80", parameters=parameters)
        try:
            if together:
                return (await driver.ensure_backends([request]))[RECORD]
            return await driver.ensure_backend(request)
        except Refusal as said:
            return said

    await ensured(LITTLE)
    changed = await ensured(MUCH)
    back = await ensured(LITTLE)

    assert isinstance(changed, Fail)
    assert "cannot be changed to 'maxconn 100' while it is registered" in changed.msg
    assert isinstance(back, Succ)
    assert {"options": "maxconn 1"} == back.injected_info


@pytest.mark.haproxy
async def test_a_member_that_was_lost_comes_back_with_other_parameters(
    proxy: Haproxy, driver: HaproxyDriver
) -> None:
    """What it was added with once does not count any more."""
    lb_info = an_identity(proxy)
    first = an_ensure(lb_info, "127.0.1.1:80", parameters=LITTLE)
    kept = dict((await driver.ensure_backend(first)).injected_info or {})
    await proxy.reload()

    again = an_ensure(lb_info, "127.0.1.1:80", parameters=MUCH, injected_info=kept)
    answer = await driver.ensure_backend(again)

    assert {"options": "maxconn 100"} == answer.injected_info


@pytest.mark.haproxy
async def test_an_add_that_came_late_has_its_own_parameters(proxy: Haproxy) -> None:
    """Of two that may have come, one is told to be there only if that is certain."""
    driver = patient(HaproxyDriver, connect=LosingApi, addresses=HERE)
    lb_info = an_identity(proxy)
    LosingApi.lost.clear()
    for parameters in (LITTLE, MUCH):
        with pytest.raises(RetryAfter):
            await driver.ensure_backend(
                an_ensure(lb_info, "127.0.1.1:80", parameters=parameters)
            )
    await proxy.ask(LosingApi.lost[0])

    with pytest.raises(Fail, match="cannot be changed to 'maxconn 100'"):
        await driver.ensure_backend(an_ensure(lb_info, "127.0.1.1:80", parameters=MUCH))


@pytest.mark.haproxy
@pytest.mark.parametrize("operation", ["ensure", "drain", "deregister"])
async def test_a_change_whose_answer_was_cut(tmp_path: Path, operation: str) -> None:
    """It was made, and the driver cannot know: it answers Running, and looks again."""
    async with HaproxyRig.running(tmp_path) as rig:
        driver = rig.start()
        ask = asking(driver, operation, rig.ensure())
        if operation != "ensure":
            await driver.ensure_backend(rig.ensure())
        before = await rig.state()

        rig.relay.spoil = changes_cut
        with pytest.raises(RetryAfter, match="hung up") as said:
            await ask()
        meanwhile = await rig.state()
        await rig.end("cut")
        await settled(ask)

        assert rig.relay.path in said.value.msg
        assert before != meanwhile
        assert rig.at_last[operation] is await rig.state()
