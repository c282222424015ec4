"""Who may connect to the driver as an Envoy: certificates on both sides."""

import asyncio
import contextlib
import ssl

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Self

import attrs
import pytest
import trustme

from lbcf.runtime.clock import Clock, SystemClock
from lbcf.runtime.flags import BindAddress
from lbcf.runtime.tasks import end_tasks
from lbcf.sdk import RetryAfter
from tests.envoy.process import process
from tests.envoy.proxy import Envoy
from tests.envoy.rig import HERE, PatientKeeper
from tests.envoy.stage import Stage, are_connected
from tests.haproxy.waiting import until
from tests.webhooks.processes import Running
from tests.webhooks.troubled import settled
from webhooks.envoy.driver import EnvoyDriver
from webhooks.envoy.fleets import Fleets
from webhooks.envoy.management import Files, Management
from webhooks.envoy.store import Store


pytestmark = pytest.mark.envoy


@attrs.frozen
class Authority:
    """Signs certificates.

    Attributes:
        folder: of all files.
        signing: what does it.
    """

    folder: Path
    signing: trustme.CA

    @classmethod
    def writing(cls, folder: Path) -> Self:
        """Make one, and write its certificate."""
        made = cls(folder, trustme.CA())
        made.signing.cert_pem.write_to_path(made.ca)
        return made

    @property
    def ca(self) -> Path:
        """The file that says whom to trust."""
        return self.folder / "ca.pem"

    def issued(self, name: str, until: datetime | None = None) -> tuple[Path, Path]:
        """Write a certificate, which may end at a moment, and its key."""
        made = self.signing.issue_cert(name, not_after=until)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        made.cert_chain_pems[0].write_to_path(certificate)
        made.private_key_pem.write_to_path(key)
        return certificate, key

    def files(self, name: str) -> Files:
        """Write a certificate for a driver that trusts who has one of this authority."""
        return Files(*self.issued(name), self.ca)


def transport(pair: tuple[Path, Path] | None, ca: Path) -> Mapping[str, object]:
    """Return how an Envoy speaks TLS to the driver."""
    own = [
        {"certificate_chain": {"filename": str(c)}, "private_key": {"filename": str(k)}}
        for c, k in ([pair] if pair else [])
    ]
    said = {
        "tls_certificates": own,
        "validation_context": {"trusted_ca": {"filename": str(ca)}},
        "alpn_protocols": ["h2"],
    }
    kind = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"type.googleapis.com/{kind}",
            "common_tls_context": said,
        },
    }


async def serve(stage: Stage, files: Files) -> EnvoyDriver:
    """Start a driver that serves Envoys over TLS."""
    keeper = PatientKeeper(
        Store(stage.folder),
        BindAddress("127.0.0.1", stage.port),
        files,
        timedelta(seconds=1),
    )
    driver = EnvoyDriver(keeper, ("*",), HERE, timedelta(seconds=1.5))
    stage.drivers.append(driver)
    await driver.start()
    return driver


@contextlib.asynccontextmanager
async def connecting(
    stage: Stage, tls: Mapping[str, object], node: str = "envoy-1"
) -> AsyncIterator[Envoy]:
    """Run an Envoy for a block; after it, the driver knows that it is there no more.

    As long as it does not know, what that one has acknowledged counts.
    """
    async with Envoy.running(stage.relay.port, node, tls) as envoy:
        yield envoy
    await until(partial(are_connected, stage.drivers[-1], ""))


async def test_only_envoys_with_a_certificate_are_served(
    stage: Stage, tmp_path: Path
) -> None:
    """One without, one of another authority, and one that has expired learn nothing."""
    ours = Authority.writing(tmp_path)
    theirs, ca = Authority(tmp_path, trustme.CA()), ours.ca
    driver = await serve(stage, ours.files("driver.example"))

    past = datetime.now(UTC) - timedelta(days=1)
    strangers = (
        None,
        theirs.issued("stranger"),
        ours.issued("expired", past),
    )
    for pair in strangers:
        async with Envoy.running(stage.relay.port, tls=transport(pair, ca)) as envoy:
            with pytest.raises(RetryAfter, match="no Envoy of fleet"):
                await driver.create_load_balancer(stage.create())
            assert [] == await envoy.listeners()
    good = transport(ours.issued("envoy-1"), ca)
    async with Envoy.running(stage.relay.port, tls=good) as envoy:
        await settled(lambda: driver.create_load_balancer(stage.create()))
        assert [f"lbcf/{stage.listen}"] == await envoy.listeners()


class Hasty(SystemClock):
    """A clock on which no pause lasts.

    Attributes:
        slept: how many there were.
    """

    def __init__(self) -> None:
        super().__init__()
        self.slept = 0

    async def sleep(self, _duration: timedelta) -> None:
        """Let others go on."""
        self.slept += 1
        await asyncio.sleep(0)

    async def has_slept(self, times: int) -> bool:
        """Tell whether there were so many pauses."""
        return self.slept >= times


def _management(stage: Stage, files: Files, clock: Clock) -> Management:
    """Return what serves Envoys, without load balancers."""
    where = BindAddress("127.0.0.1", stage.port)
    fleets = Fleets(clock.monotonic, timedelta(seconds=1))
    return Management(where, fleets, "e", files, lambda _: None, clock)


def _taken_away(files: Files) -> str:
    """Take the key away; return how it is told."""
    files.key.unlink()
    return f"No such file or directory: '{files.key}'"


def _changed_alone(files: Files) -> str:
    """Have another key; return how it is told."""
    made = trustme.CA().issue_cert("driver.example")
    made.private_key_pem.write_to_path(files.key)
    return f"{files.certificate} and {files.key} are no pair that gRPC takes"


@pytest.mark.parametrize("spoil", [_taken_away, _changed_alone])
async def test_certificates_in_the_making_change_nothing(
    stage: Stage,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Files], str],
) -> None:
    """Whoever is connected stays so, and others connect as before."""
    authority = Authority.writing(tmp_path)
    files = authority.files("driver.example")
    driver = await serve(stage, files)
    pair = transport(authority.issued("envoy-1"), authority.ca)

    async with connecting(stage, pair) as envoy:
        await settled(lambda: driver.create_load_balancer(stage.create()))
        why = spoil(files)

        async def has_told() -> bool:
            return why in capsys.readouterr().out

        await until(has_told)
        assert [f"lbcf/{stage.listen}"] == await envoy.listeners()
        assert await are_connected(driver, ["envoy-1"])
    async with connecting(stage, pair) as envoy:
        await settled(lambda: driver.ensure_load_balancer(stage.remake()))
        assert [f"lbcf/{stage.listen}"] == await envoy.listeners()


@pytest.mark.parametrize("spoil", [_taken_away, _changed_alone])
async def test_what_is_wrong_with_certificates_is_told_once(
    stage: Stage,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Files], str],
) -> None:
    """Each look would find it anew; also once more, if it was mended in between."""
    files = Authority.writing(tmp_path).files("driver.example")
    good = files.key.read_bytes()
    clock = Hasty()
    management = _management(stage, files, clock)
    await management.open()
    following = asyncio.create_task(management.follow())

    async def told() -> str:
        clock.slept = 0
        await until(lambda: clock.has_slept(3))
        return capsys.readouterr().out

    why = spoil(files)
    first = await told()
    files.key.write_bytes(good)
    between = await told()
    spoil(files)
    last = await told()

    await end_tasks([following])
    await management.close()
    assert [1, 0, 1] == [text.count(why) for text in (first, between, last)]
    assert "envoy.certificates_renewed" not in first + between + last


async def test_renewed_certificates_count_for_all(stage: Stage, tmp_path: Path) -> None:
    """An authority is replaced while the driver runs: who has only the old one is out."""
    before = Authority.writing(tmp_path)
    driver = await serve(stage, before.files("driver.example"))
    old = transport(before.issued("old"), before.ca)
    async with connecting(stage, old) as envoy:
        await settled(lambda: driver.create_load_balancer(stage.create()))
        assert [f"lbcf/{stage.listen}"] == await envoy.listeners()

        after = Authority.writing(tmp_path)
        after.issued("driver.example")
        await until(partial(are_connected, driver, ""))
    new = transport(after.issued("new"), after.ca)
    async with connecting(stage, new, "envoy-2") as envoy:
        await settled(lambda: driver.ensure_load_balancer(stage.remake()))
        assert [f"lbcf/{stage.listen}"] == await envoy.listeners()
    late = transport(before.issued("late"), after.ca)
    async with connecting(stage, late, "envoy-3") as envoy:
        with pytest.raises(RetryAfter):
            await driver.ensure_load_balancer(stage.remake())
        assert [] == await envoy.listeners()


async def test_an_envoy_connects_anew_when_certificates_are_renewed(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has what it had, and is told of what changes from then on."""
    authority = Authority.writing(tmp_path)
    driver = await serve(stage, authority.files("driver.example"))
    pair = transport(authority.issued("envoy-1"), authority.ca)

    async def is_renewed() -> bool:
        return "envoy.certificates_renewed" in capsys.readouterr().out

    async with connecting(stage, pair) as envoy:
        await settled(lambda: driver.create_load_balancer(stage.create()))
        authority.issued("driver.example")
        await until(is_renewed)
        assert [f"lbcf/{stage.listen}"] == await envoy.listeners()
        await settled(
            lambda: driver.ensure_backend(stage.ensure("one", "127.0.0.9:80"))
        )
        assert {"127.0.0.9:80"} == {*await envoy.members(stage.listen)}


async def test_an_address_that_is_taken_meanwhile_is_waited_for(
    stage: Stage, tmp_path: Path
) -> None:
    """Else Envoys would be served no more, with certificates that are good."""
    files = Authority.writing(tmp_path).files("driver.example")
    management = _management(stage, files, SystemClock())
    where = management.address
    await management.open()
    await management.close()
    stranger = await asyncio.start_server(lambda _r, _w: None, where.host, where.port)
    with pytest.raises(OSError, match=f"cannot be served on 127.0.0.1:{stage.port}"):
        await management.look()
    stranger.close()
    await stranger.wait_closed()

    await management.look()
    tls = ssl.create_default_context(cafile=files.clients)
    _, writer = await asyncio.open_connection(
        where.host, where.port, ssl=tls, server_hostname="driver.example"
    )
    writer.close()
    await management.close()


async def test_many_that_connect_at_once_do_not_end_the_driver(
    stage: Stage, tmp_path: Path
) -> None:
    """Not strangers without a certificate either, and not where it gets a new one just then."""
    authority = Authority.writing(tmp_path)
    files = authority.files("driver.example")
    flags = ("--xds-cert-file", "--xds-key-file", "--xds-client-ca-file")
    said = zip(flags, attrs.astuple(files), strict=True)
    async with process(
        stage, flags=[f"{flag}={path}" for flag, path in said]
    ) as driver:
        authority.issued("driver.example")
        tls = ssl.create_default_context(cafile=authority.ca)
        storm = _Storm(driver, stage.port, tls)
        storm.tls.check_hostname = False

        async def is_over() -> bool:
            is_dead = driver.child.returncode is not None
            return is_dead or (storm.is_renewed and storm.connections > MANY)

        async with asyncio.TaskGroup() as tasks:
            raging = [storm.rage() for _ in range(20)]
            begun = [tasks.create_task(one) for one in (storm.read(), *raging)]
            await until(is_over)
            for task in begun:
                task.cancel()
        assert driver.child.returncode is None


MANY = 5000
"""Connections; a driver whose certificates were changed as gRPC does died of 655 to 2,772."""


@attrs.define
class _Storm:
    """Strangers that connect again and again.

    Attributes:
        driver: to what, and who is to go on logging.
        port: where it serves Envoys.
        tls: how they connect.
        connections: how many it has been.
        is_renewed: whether the driver has had a new certificate meanwhile.
    """

    driver: Running
    port: int
    tls: ssl.SSLContext
    connections: int = 0
    is_renewed: bool = False

    async def rage(self) -> None:
        """Connect until cancelled."""
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", self.port, ssl=self.tls
                )
                writer.close()
                self.connections += 1

    async def read(self) -> None:
        """Read what the driver logs, until cancelled or it has ended."""
        assert self.driver.child.stderr is not None
        async for line in self.driver.child.stderr:
            self.is_renewed |= b"envoy.certificates_renewed" in line
