"""A load balancer and its members on a real Envoy, with requests under way."""

import asyncio
import itertools

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial

import grpc
import msgspec
import pytest

from aiohttp import ClientSession

from lbcf.sdk import Fail, RetryAfter, Running, Succ
from tests.envoy.conftest import StartServer
from tests.envoy.rig import BRIEF
from tests.envoy.stage import LONG, UNAIDED, Stage, are_connected
from tests.envoy.streams import GrpcServer, Stream
from tests.haproxy.waiting import until
from tests.haproxy.web import Traffic, ask
from tests.lab.cluster.ports import free_ports
from tests.lab.demo import peers
from tests.webhooks.troubled import settled, told
from webhooks.envoy import keeper
from webhooks.envoy.attributes import parse_attributes
from webhooks.envoy.driver import EnvoyDriver
from webhooks.envoy.errors import InvalidInput
from webhooks.envoy.loads import INTERVAL


pytestmark = pytest.mark.envoy


async def test_a_rollout_loses_no_request(
    stage: Stage, start_server: StartServer
) -> None:
    """Members come and go under load: drained, taken out, replaced."""
    driver = await stage.driver()
    await stage.envoy()
    await driver.create_load_balancer(stage.create(**UNAIDED))
    old = await start_server("old")
    await driver.ensure_backend(stage.ensure("old", old.address))
    traffic = Traffic(stage.url)
    await stage.until_workers_know()

    async with traffic.flowing(people=6):
        for number in range(3):
            new = await start_server(f"new{number}")
            await driver.ensure_backend(stage.ensure(new.name, new.address))
            drain = stage.drain(old.name, old.address)
            await driver.drain_backend(drain)
            await stage.until_workers_know()
            await settled(partial(driver.drain_backend, drain))
            await driver.deregister_backend(stage.deregister(old.name, old.address))
            await old.stop()
            old = new

    assert 0 == traffic.failed, traffic.answers
    assert traffic.answers["new1"] > 0


async def test_a_drain_waits_for_the_last_request(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> None:
    """It tells how many there are, and at which Envoy; new ones go elsewhere."""
    driver = await stage.driver()
    await stage.envoy()
    await driver.create_load_balancer(stage.create())
    first, second = await start_server("first"), await start_server("second")
    await driver.ensure_backend(stage.ensure("first", first.address))
    await stage.until_workers_know()
    slow = asyncio.create_task(ask(client, f"{stage.url}slow"))

    async def is_held() -> bool:
        return first.waiting == 1

    await until(is_held)
    await driver.ensure_backend(stage.ensure("second", second.address))

    async def is_counted() -> bool:
        answer = await driver.drain_backend(stage.drain("first", first.address))
        assert isinstance(answer, Running), answer
        return answer.active_connections == 1 and "1 at envoy-1" in str(answer.msg)

    await until(is_counted)
    await stage.until_workers_know()
    answers = {await ask(client, stage.url) for _ in range(8)}
    first.release()
    await settled(lambda: driver.drain_backend(stage.drain("first", first.address)))

    assert "first" == await slow
    assert {"second"} == answers


async def test_a_drain_without_load_reports_waits(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> None:
    """Nothing is known of requests under way: never done, and the Envoy is named."""
    driver = await stage.driver()
    await stage.envoy(reports=False)
    await driver.create_load_balancer(stage.create())
    server = await start_server("one")
    await driver.ensure_backend(stage.ensure("one", server.address))

    for _ in range(3):
        await asyncio.sleep(2 * INTERVAL)
        answer = await driver.drain_backend(stage.drain("one", server.address))
        assert isinstance(answer, Running), answer
        assert "requests or connections left: ? at envoy-1" in str(answer.msg)
    await stage.until_workers_know()
    assert "503" == await ask(client, stage.url)
    await driver.deregister_backend(
        stage.deregister("one", server.address, drained=False)
    )


async def test_nothing_new_goes_to_the_last_member_that_drains(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> None:
    """Also where most members are out, which is a panic to Envoy by default."""
    driver = await stage.driver()
    await stage.envoy()
    await driver.create_load_balancer(stage.create())
    only = await start_server("only")
    await driver.ensure_backend(stage.ensure("only", only.address))

    await settled(lambda: driver.drain_backend(stage.drain("only", only.address)))
    await stage.until_workers_know()

    assert "503" == await ask(client, stage.url)


async def test_connections_are_counted_in_tcp(
    stage: Stage, start_server: StartServer
) -> None:
    """A drain waits until the client has closed its connection."""
    driver = await stage.driver()
    await stage.envoy()
    await driver.create_load_balancer(stage.create(protocol="tcp"))
    server = await start_server("one")
    await driver.ensure_backend(stage.ensure("one", server.address))
    host, _, port = stage.listen.rpartition(":")
    await stage.until_workers_know()
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"200 OK" in await reader.readline()

    async def is_counted() -> bool:
        answer = await driver.drain_backend(stage.drain("one", server.address))
        assert isinstance(answer, Running), answer
        return answer.active_connections == 1

    await until(is_counted)
    writer.close()
    await writer.wait_closed()
    await settled(lambda: driver.drain_backend(stage.drain("one", server.address)))


async def test_two_records_at_one_address(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> None:
    """The end of one takes nothing from the other."""
    driver = await stage.driver()
    envoy = await stage.envoy()
    await driver.create_load_balancer(stage.create())
    server = await start_server("one")
    for record in ("old", "new"):
        await driver.ensure_backend(stage.ensure(record, server.address))

    drained = await driver.drain_backend(stage.drain("old", server.address))
    await driver.deregister_backend(stage.deregister("old", server.address))
    await stage.until_workers_know()

    assert isinstance(drained, Succ)
    assert {server.address: "HEALTHY"} == await envoy.members(stage.listen)
    assert "one" == await ask(client, stage.url)


async def test_every_envoy_has_to_acknowledge(
    stage: Stage, start_server: StartServer
) -> None:
    """One that hangs is named; so is one that is not connected, until it is forgotten."""
    driver = await stage.driver(patience=BRIEF)
    server, listen = await start_server("one"), stage.listen
    await stage.envoy("a")
    stage.listen = f"127.0.0.2:{listen.rpartition(':')[2]}"
    await settled(partial(driver.create_load_balancer, stage.create()))

    stage.relay.hang()
    slow = await told(
        lambda: driver.ensure_backend(stage.ensure("one", server.address))
    )
    stage.relay.flow()
    await settled(lambda: driver.ensure_backend(stage.ensure("one", server.address)))
    await stage.relay.cut()
    await until(partial(are_connected, driver, ""))
    absent = await told(
        lambda: driver.deregister_backend(stage.deregister("one", server.address))
    )
    stage.clock.skip(LONG)
    await settled(
        lambda: driver.deregister_backend(stage.deregister("one", server.address))
    )
    none = await told(
        lambda: driver.ensure_backend(stage.ensure("one", server.address))
    )

    assert "Envoy a has not acknowledged it yet" == slow
    assert "Envoy a of fleet 'edge' is not connected" in absent
    assert "no Envoy of fleet 'edge' is connected to this driver" in none


async def test_one_that_hangs_counts_as_connected_no_more(
    stage: Stage, start_server: StartServer
) -> None:
    """Its connection is not closed: it gives no answer to the driver's keepalives."""
    driver = await stage.driver(patience=BRIEF)
    await stage.envoy("a")
    await settled(partial(driver.create_load_balancer, stage.create()))
    server = await start_server("one")

    stage.relay.hang()
    await until(partial(are_connected, driver, ""))
    absent = await told(
        lambda: driver.ensure_backend(stage.ensure("one", server.address))
    )
    stage.relay.flow()
    await settled(lambda: driver.ensure_backend(stage.ensure("one", server.address)))

    assert "Envoy a of fleet 'edge' is not connected" in absent


@pytest.mark.parametrize("protocol", ["http", "tcp"])
async def test_what_is_left_after_the_deadline_goes_on(
    stage: Stage, start_server: StartServer, client: ClientSession, protocol: str
) -> None:
    """Envoy has no way to close what one member has: it ends with the member, or by itself."""
    driver = await stage.driver()
    envoy = await stage.envoy()
    await settled(partial(driver.create_load_balancer, stage.create(protocol=protocol)))
    server = await start_server("one")
    await settled(lambda: driver.ensure_backend(stage.ensure("one", server.address)))
    await stage.until_workers_know()
    slow = [asyncio.create_task(ask(client, f"{stage.url}slow")) for _ in range(2)]

    async def are_held() -> bool:
        return server.waiting == len(slow)

    await until(are_held)
    await driver.drain_backend(stage.drain("one", server.address))
    await driver.deregister_backend(
        stage.deregister("one", server.address, drained=False)
    )
    members = await envoy.members(stage.listen)
    await stage.until_workers_know()
    async with ClientSession() as new:
        refused = await ask(new, stage.url)
    server.release()

    assert {} == members
    assert "one" != refused
    assert ["one", "one"] == await asyncio.gather(*slow)


async def test_what_an_envoy_refuses_is_told_in_its_words(
    stage: Stage, start_server: StartServer
) -> None:
    """A port that is taken concerns this load balancer alone, and not who leaves it."""
    driver = await stage.driver()
    await stage.envoy()
    server, good = await start_server("one"), stage.listen
    await driver.create_load_balancer(stage.create())
    taken = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    stage.listen = f"127.0.0.1:{taken.sockets[0].getsockname()[1]}"

    with pytest.raises(Fail, match=r"Envoy envoy-1 refused it: .*[Aa]ddress"):
        await driver.create_load_balancer(stage.create("other"))
    with pytest.raises(Fail, match="Envoy envoy-1 refused it"):
        await driver.ensure_backend(stage.ensure("one", server.address))
    gone = await driver.deregister_backend(stage.deregister("one", server.address))
    stage.listen = good
    other = await driver.ensure_backend(stage.ensure("two", server.address))

    assert [Succ, Succ] == [type(gone), type(other)]
    taken.close()


async def test_what_an_envoy_refused_is_tried_again(
    stage: Stage, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port that is free by now is listened on, though nothing else has changed."""
    monkeypatch.setattr(keeper, "TRY_REFUSED", timedelta(seconds=0.2))
    driver = await stage.driver()
    envoy = await stage.envoy()
    server = await start_server("one")
    taken = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    stage.listen = f"127.0.0.1:{taken.sockets[0].getsockname()[1]}"
    with pytest.raises(Fail, match=r"Envoy envoy-1 refused it: .*[Aa]ddress"):
        await driver.create_load_balancer(stage.create())

    taken.close()
    await taken.wait_closed()
    await until(partial(is_created, driver, stage))
    await driver.ensure_backend(stage.ensure("one", server.address))

    assert [f"lbcf/{stage.listen}"] == await envoy.listeners()


async def is_created(driver: EnvoyDriver, stage: Stage) -> bool:
    """Ask for the load balancer; tell whether all Envoys have it."""
    try:
        await driver.create_load_balancer(stage.create())
    except Fail:
        return False
    return True


async def test_a_load_balancer_goes_with_its_last_owner(
    stage: Stage, start_server: StartServer
) -> None:
    """Then nothing of it is left at Envoy; a delete again is done."""
    driver = await stage.driver()
    envoy = await stage.envoy()
    await driver.create_load_balancer(stage.create())
    other = msgspec.structs.replace(stage.create(), record_id="other")
    await driver.create_load_balancer(other)
    server = await start_server("one")
    await driver.ensure_backend(stage.ensure("one", server.address))

    first = await driver.delete_load_balancer(stage.delete("other"))
    between = await envoy.listeners()
    last = [await driver.delete_load_balancer(stage.delete()) for _ in range(2)]

    assert "stays" in str(first.msg)
    assert [f"lbcf/{stage.listen}"] == between
    assert [Succ, Succ] == [type(one) for one in last]
    assert [] == await envoy.listeners()
    assert {} == await envoy.members(stage.listen)
    with pytest.raises(Fail, match="there is no load balancer"):
        await driver.ensure_backend(stage.ensure("one", server.address))


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [("127.0.0.1", "0.0.0.0"), ("0.0.0.0", "127.0.0.1")],  # noqa: S104
)
async def test_nobody_gets_connections_of_others(
    stage: Stage, mine: str, theirs: str
) -> None:
    """The same port at all addresses, or at one of them, is taken."""
    driver, (port,) = await stage.driver(), free_ports(1)
    await stage.envoy()
    stage.listen = f"{mine}:{port}"
    await driver.create_load_balancer(stage.create())
    other = msgspec.structs.replace(stage.create("other"), namespace="shop")

    with pytest.raises(Fail, match="of another namespace"):
        await driver.create_load_balancer(other)
    stage.listen = f"{theirs}:{port}"
    with pytest.raises(Fail, match="would also be those of"):
        await driver.create_load_balancer(stage.create("other"))


async def test_a_pool_gives_each_its_address(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> None:
    """Two with one lbSpec, as Services of a class have it, are two listeners."""
    driver = await stage.driver()
    envoy = await stage.envoy()
    (port,) = free_ports(1)
    stage.listen = f"0.0.0.0:{port}"
    places = [f"127.0.0.{number}:{port}" for number in (2, 3)]
    for number, record in ((2, "two"), (3, "three")):
        wanted = stage.create(address=f"127.0.0.{number}")
        made = await driver.create_load_balancer(
            msgspec.structs.replace(wanted, record_id=record)
        )
        assert made.lb_info is not None
        assert [f"127.0.0.{number}"] == [one.ip for one in made.ingress or ()]
        stage.listen = made.lb_info["listen"]
        server = await start_server(record)
        await driver.ensure_backend(stage.ensure(record, server.address))
        stage.listen = f"0.0.0.0:{port}"
    await stage.until_workers_know()
    answers = [await ask(client, f"http://{place}/") for place in places]

    stage.listen = places[0]
    with pytest.raises(Fail, match=r"address: .* keeps its address 127\.0\.0\.2"):
        await driver.ensure_load_balancer(stage.remake(address="127.0.0.3"))
    again = await driver.ensure_load_balancer(stage.remake(address="127.0.0.2"))
    stage.listen = f"0.0.0.0:{port}"
    never_answered = msgspec.structs.replace(
        stage.delete("three"), lb_info={}, lb_spec=stage.lb_info
    )
    await driver.delete_load_balancer(never_answered)

    assert ["two", "three"] == answers
    assert ["127.0.0.2"] == [one.ip for one in again.ingress or ()]
    assert [f"lbcf/{places[0]}"] == await envoy.listeners()


async def test_an_address_that_the_machine_has_not_yet(stage: Stage) -> None:
    """The listener is there before it: the network may move the address any time."""
    driver = await stage.driver()
    envoy = await stage.envoy()

    await driver.create_load_balancer(stage.create(address="198.18.255.1"))

    port = stage.listen.rpartition(":")[2]
    assert [f"lbcf/198.18.255.1:{port}"] == await envoy.listeners()


Said = Mapping[str, str]
PROTOCOLS: Sequence[Said] = (
    {},
    {"upstreamProtocol": "http2"},
    {"upstreamProtocol": "client"},
    {"protocol": "tcp"},
)
ALGORITHMS = ("roundrobin", "leastrequest", "random", "source", "maglev")
CHECKS: Sequence[Said] = (
    {},
    {"check": "tcp", "checkInterval": "500ms"},
    {"check": "http", "checkPath": "/", "checkRise": "2", "checkFall": "2"},
)


async def test_envoy_takes_all_attributes(
    stage: Stage, start_server: StartServer
) -> None:
    """Each protocol with each algorithm and each check, changed with a member in."""
    driver = await stage.driver()
    envoy = await stage.envoy()
    await driver.create_load_balancer(stage.create())
    server = await start_server("one")
    member = stage.ensure("one", server.address, {"weight": "5", "zone": "a"})
    await driver.ensure_backend(member)

    for protocol, algorithm, check in itertools.product(PROTOCOLS, ALGORITHMS, CHECKS):
        said = {**protocol, "algorithm": algorithm, **check, "accessLog": "stdout"}
        if algorithm in {"roundrobin", "leastrequest"}:
            said["slowStart"] = "1s"
        if "protocol" not in protocol:
            said |= {"stickyCookie": "LB", "requestTimeout": "30s"}
        await settled(partial(driver.ensure_load_balancer, stage.remake(**said)))

    assert [server.address] == list(await envoy.members(stage.listen))
    await driver.ensure_backend(member)


async def test_members_are_spoken_to_as_clients_speak(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> None:
    """One load balancer for HTTP/1.1 and for gRPC, which is HTTP/2."""
    driver = await stage.driver()
    await stage.envoy()
    await driver.create_load_balancer(stage.create(upstreamProtocol="client"))
    async with (
        GrpcServer.running("grpc", "127.0.1.1") as only_http2,
        grpc.aio.insecure_channel(stage.listen) as channel,
    ):
        await driver.ensure_backend(stage.ensure("grpc", only_http2.address))
        await stage.until_workers_know()
        stream = Stream.begin(channel)
        assert "grpc" == await stream.ask()
        await stream.end()
        drain = stage.drain("grpc", only_http2.address)
        await settled(partial(driver.drain_backend, drain))
    only_http1 = await start_server("http1")
    await driver.ensure_backend(stage.ensure("http1", only_http1.address))
    await stage.until_workers_know()

    assert "http1" == await ask(client, stage.url)


@pytest.mark.parametrize("said", [{}, {"upstreamIdleTimeout": "100ms"}])
async def test_idle_connections_end_before_members_end_them(
    stage: Stage, client: ClientSession, said: dict[str, str]
) -> None:
    """A request that crosses a member's close is lost: the member may have had it."""
    driver = await stage.driver()
    envoy = await stage.envoy()
    await driver.create_load_balancer(stage.create(**said))

    async def is_let_go() -> bool:
        (host,) = (await envoy.clusters())[f"lbcf/{stage.listen}"].values()
        counts = {one["name"]: int(one.get("value", 0)) for one in host["stats"]}
        return counts["cx_active"] == 0

    async with peers.serving(peers.resetting(peers.GOOD)) as port:
        await driver.ensure_backend(stage.ensure("one", f"127.0.0.1:{port}"))
        await stage.until_workers_know()
        first = await ask(client, stage.url)
        await until(is_let_go)

        assert ["pod=a\n"] * 2 == [first, await ask(client, stage.url)]


async def test_a_cookie_leads_to_a_draining_member(
    stage: Stage, start_server: StartServer
) -> None:
    """Who was there goes on there until the deadline; others do not come."""
    driver = await stage.driver()
    await stage.envoy()
    await driver.create_load_balancer(stage.create(stickyCookie="LB"))
    first, second = await start_server("first"), await start_server("second")
    await driver.ensure_backend(stage.ensure("first", first.address))
    await stage.until_workers_know()
    async with ClientSession() as known, ClientSession() as new:
        known.cookie_jar.clear()
        async with known.get(stage.url) as response:
            cookie = response.headers["Set-Cookie"].partition(";")[0]
        await driver.ensure_backend(stage.ensure("second", second.address))
        await driver.drain_backend(stage.drain("first", first.address))
        await stage.until_workers_know()

        async def answer(session: ClientSession, **headers: str) -> str:
            async with session.get(stage.url, headers=headers) as response:
                return await response.text()

        assert {"first"} == {await answer(known, Cookie=cookie) for _ in range(4)}
        assert {"second"} == {await answer(new) for _ in range(4)}

        gone = stage.deregister("first", first.address, drained=False)
        await driver.deregister_backend(gone)
        await stage.until_workers_know()
        assert {"second"} == {await answer(known, Cookie=cookie) for _ in range(4)}


async def test_clients_of_other_networks_are_turned_away(
    stage: Stage, start_server: StartServer, client: ClientSession
) -> None:
    """What a Service's loadBalancerSourceRanges says; taken away, all are served."""
    driver = await stage.driver()
    await stage.envoy()
    made = await driver.create_load_balancer(
        stage.create(loadBalancerSourceRanges="198.18.0.0/15, 2001:db8::/32")
    )
    server = await start_server("one")
    await driver.ensure_backend(stage.ensure("one", server.address))

    await stage.until_workers_know()
    before = await ask(client, stage.url)
    await driver.ensure_load_balancer(
        stage.remake(loadBalancerSourceRanges="127.0.0.0/8", sessionAffinity="ClientIP")
    )

    assert before != "one"

    async def is_served() -> bool:
        return await ask(client, stage.url) == "one"

    await until(is_served)
    assert ["127.0.0.1"] == [one.ip for one in made.ingress or ()]


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"colour": "red"}, "'colour' is unknown; known are protocol"),
        ({"protocol": "udp"}, "protocol is one of http, tcp, not 'udp'"),
        ({"connectTimeout": "soon"}, "connectTimeout must be a time"),
        ({"connectTimeout": ""}, "connectTimeout must be a time"),
        ({"protocol": "tcp", "stickyCookie": "LB"}, "stickyCookie means nothing"),
        ({"checkRise": "2"}, "checkRise means nothing without check"),
        ({"check": "tcp", "checkPath": "/"}, "nothing without check: http"),
        ({"algorithm": "random", "slowStart": "9s"}, "slowStart means nothing"),
        ({"sessionAffinity": "ClientIP", "algorithm": "random"}, "needs algorithm"),
        ({"sessionAffinityTimeoutSeconds": "9"}, "without sessionAffinity: ClientIP"),
        (
            {"sessionAffinity": "ClientIP", "sessionAffinityTimeoutSeconds": "3h"},
            "must be a number of seconds, not '3h'",
        ),
        ({"externalTrafficPolicy": "Local"}, "'externalTrafficPolicy' is unknown"),
        ({"loadBalancerSourceRanges": "10.0.0.1/8"}, "has host bits set"),
        ({"protocol": "tcp", "upstreamIdleTimeout": "9s"}, "means nothing without"),
        ({"retries": "10"}, "retries must be a number from 0 to 9"),
        ({"ipFamilies": "IPv7"}, "ipFamilies is one of IPv4, IPv6, or both"),
        ({"ipFamilies": "IPv4,"}, "ipFamilies is one of IPv4, IPv6, or both"),
        ({"address": "edge.example.com"}, "address must be an IP address"),
        ({"address": "::"}, "address must be an IP address"),
    ],
)
def test_attributes_that_are_refused(attributes: dict[str, str], said: str) -> None:
    """Each with what is taken in its place."""
    with pytest.raises(InvalidInput, match=said):
        parse_attributes(attributes)


async def test_a_member_keeps_its_address(stage: Stage) -> None:
    """A record that comes with another address is refused while the first is in."""
    driver = await stage.driver()
    await stage.envoy()
    await driver.create_load_balancer(stage.create())
    await driver.ensure_backend(stage.ensure("one", "198.18.0.1:80"))

    with pytest.raises(Fail, match="a member keeps its address"):
        await driver.ensure_backend(stage.ensure("one", "198.18.0.2:80"))


async def test_nothing_is_succ_without_an_envoy(stage: Stage) -> None:
    """Not even the load balancer itself; once one comes, all is."""
    driver = await stage.driver(patience=BRIEF)

    with pytest.raises(RetryAfter, match="no Envoy of fleet 'edge'"):
        await driver.create_load_balancer(stage.create())
    await stage.envoy()
    await settled(lambda: driver.create_load_balancer(stage.create()))
