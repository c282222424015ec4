"""Services of type LoadBalancer at load balancers that have addresses: Envoy with a pool, ELBv2."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from aiohttp import ClientSession

from lbcf.core.model.values import ObjectKey
from tests.e2e import objects
from tests.e2e.asking import ask as ask_plugin
from tests.e2e.stage import Process, Stage
from tests.e2e.test_services import (
    a_class,
    a_service,
    nothing_is_left,
    ours,
    reached,
    service,
    until_told,
)
from tests.elbv2.clients import write_credentials
from tests.elbv2.clocks import FastClock
from tests.elbv2.emulator import OURS, Emulator
from tests.elbv2.state import REGION, EmulatedBalancer, EmulatedGroup
from tests.envoy.proxy import Envoy
from tests.haproxy.web import WebServer, ask
from tests.lab.cluster.ports import free_ports


pytestmark = pytest.mark.cluster

MEMBER = "198.18.0.7"
POOL = "127.9.0.0/31"
FIRST, SECOND = "127.9.0.0", "127.9.0.1"
PODS = {"first": "127.0.4.1", "second": "127.0.4.2", "third": "127.0.4.3"}


@asynccontextmanager
async def driven(
    stage: Stage, module: str, port: int, *flags: str, **declared: object
) -> AsyncIterator[None]:
    """Run a driver, declared so, with the controller and a deregistrar that call it."""
    address = ("--bind-address", f"127.0.0.1:{port}")
    argv = [*stage.recorded(module), *address, *flags]
    driver = Process("driver", argv, stage.folder / "driver-0.log")
    stage.processes["driver"] = driver
    await driver.start()
    await stage.start("controller")
    await stage.start("deregistrar")
    await stage.create(
        objects.DRIVERS, objects.a_driver(f"http://127.0.0.1:{port}", **declared)
    )
    yield
    await stage.client.delete(objects.CLASSES, ObjectKey("", stage.namespace))


async def until_all_is_gone(stage: Stage, *services: str) -> None:
    """Delete Services; wait until nothing that was derived from them is left."""
    for name in services:
        await stage.delete(objects.SERVICES, name)
    await stage.until("nothing is left", lambda: nothing_is_left(stage))


async def add_app(stage: Stage, name: str, port: int) -> None:
    """Have a pod of an app, and a Service of the app alone at a port of its address."""
    pod = objects.a_pod(name)
    pod["metadata"]["labels"] = {"app": name}
    await stage.create(objects.PODS, pod)
    await stage.set_pod(name, PODS[name], ready=True)
    await stage.create(
        objects.SERVICES,
        a_service(
            ours(stage),
            name,
            selector={"app": name},
            ports=[{"port": port, "targetPort": 80}],
        ),
    )


@pytest.mark.envoy
async def test_services_of_one_port_have_addresses_of_their_own(bare: Stage) -> None:
    """Each is served at its own by a real Envoy; who comes third waits until one is free."""
    port, serving, xds = free_ports(3)
    flags = [
        *("--xds-address", f"127.0.0.1:{xds}"),
        *("--state-directory", str(bare.folder / "envoy")),
        *("--allow-listeners", f"edge/127.9.0.*:{port}"),
        *("--allow-addresses", "127.0.0.0/8"),
    ]
    async with (
        Envoy.running(xds) as envoy,
        driven(bare, "webhooks.envoy", serving, *flags),
        ClientSession() as client,
        WebServer.running("first", PODS["first"], 80),
        WebServer.running("second", PODS["second"], 80),
        WebServer.running("third", PODS["third"], 80),
    ):
        own = a_class(
            bare.namespace,
            lbSpec={"fleet": "edge", "listen": "0.0.0.0:{port}/{protocol}"},
            attributes={"address": "{address}"},
            ignoredOptions=["externalTrafficPolicy"],
            addresses=[POOL],
        )
        await bare.client.create(objects.CLASSES, "", own)

        async def is_served(name: str, address: str) -> bool:
            return await ask(client, f"http://{address}:{port}/") == name

        for name, address in (("first", FIRST), ("second", SECOND)):
            await add_app(bare, name, port)
            await until_told(bare, "True", "Ready", name)
            assert [address] == [at["ip"] for at in reached(await service(bare, name))]
            await bare.until(f"{name} is served", partial(is_served, name, address))
        why = await ask_plugin(bare, "why", "svc/first", "-o", "json")
        assert 0 == why.status
        assert "nothing is wrong with it; 1 registered" in why.report["headline"]

        await add_app(bare, "third", port)
        await until_told(bare, "False", "AddressesExhausted", "third")
        why = await ask_plugin(bare, "why", "svc/third", "-o", "json")
        assert "has no IPv4 address left" in why.report["headline"]
        await bare.delete(objects.SERVICES, "first")
        await until_told(bare, "True", "Ready", "third")
        await bare.until("the third is served", partial(is_served, "third", FIRST))
        assert await is_served("second", SECOND)

        await until_all_is_gone(bare, "second", "third")
        assert [] == await envoy.listeners()


async def test_a_service_has_the_name_of_its_load_balancer_of_aws(bare: Stage) -> None:
    """ELBv2 says the host name; the Service's pod is a target, and none at the end."""
    (serving,) = free_ports(1)
    clock = FastClock()
    async with Emulator.running(clock) as emulator:
        group = emulator.add(EmulatedGroup(clock))
        front = EmulatedBalancer("front", "front-42.elb.eu-test-1.amazonaws.com")
        emulator.attach(front, group)
        folder = bare.folder / "credentials"
        folder.mkdir()
        write_credentials(folder, OURS, emulator.keys[OURS].secret)
        flags = ["--endpoint-url", emulator.url, "--credentials-dir", str(folder)]
        async with driven(bare, "webhooks.elbv2", serving, *flags, memberKey="Address"):
            own = a_class(
                bare.namespace,
                lbSpec={"region": REGION, "targetGroups": group.name},
                ignoredOptions=["externalTrafficPolicy"],
            )
            await bare.client.create(objects.CLASSES, "", own)
            await bare.create(objects.SERVICES, a_service(ours(bare)))
            await bare.add_pod("a", MEMBER)
            await until_told(bare, "True", "Ready")
            found = reached(await service(bare))
            assert [front.dns_name] == [at["hostname"] for at in found]

            async def are(*addresses: str) -> bool:
                return list(addresses) == [ip for ip, _ in group.owners]

            await bare.until("the pod is a target", lambda: are(MEMBER))
            await until_all_is_gone(bare, "web")
            assert await are()
