"""Configuration and credentials, from files as kubectl has them and as pods have them."""

import asyncio
import base64
import ssl
import stat
import subprocess
import sys
import tempfile

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import structlog
import trustme
import yaml

from aiohttp import web

from lbcf.kube.client import connected
from lbcf.kube.connection import ConfigurationError, Connection, connect
from lbcf.kube.errors import Unauthorized, Unavailable
from lbcf.kube.requests import ApiRequest
from lbcf.kube.transport import Transport
from tests.kube.builders import THINGS, PromptClock, a_thing, key, thing_json
from tests.patience import PATIENCE


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

BROKEN = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"


def kubeconfig(folder: Path, user: dict[str, object], **cluster: object) -> str:
    """Write a kubeconfig."""
    whole = {
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {
                "name": "there",
                "context": {"cluster": "d", "user": "u", "namespace": "shop"},
            },
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": "http://127.0.0.1:1/", **cluster}},
            {"name": "d", "cluster": {"server": "http://127.0.0.2:1"}},
        ],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(whole))
    return str(path)


def encoded(path: Path) -> str:
    """Read a file as a kubeconfig holds what it does not name."""
    return base64.b64encode(path.read_bytes()).decode()


def plugin(folder: Path, expiry: str | None) -> dict[str, object]:
    """Write an exec plugin that gives another token each time it runs."""
    program = folder / "plugin"
    status = {"token": "'$(wc -l < " + str(folder / "runs") + ")'"}
    if expiry:
        status["expirationTimestamp"] = expiry
    fields = ",".join(f'"{name}":"{value}"' for name, value in status.items())
    version = "client.authentication.k8s.io/v1"
    credential = f'"apiVersion":"{version}","kind":"ExecCredential"'
    program.write_text(
        f"#!/bin/sh\necho run >> {folder / 'runs'}\n"
        f"echo '{{{credential},\"status\":{{{fields}}}}}'\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": version, "command": str(program)}}


class TestKubeconfig:
    """Files."""

    async def test_token(self, tmp_path: Path) -> None:
        """Host and token are what the file says."""
        connection = await connect(kubeconfig(tmp_path, {"token": "secret"}))

        assert "http://127.0.0.1:1" == connection.host
        assert "Bearer secret" == await connection.authorization()
        assert connection.tls() is None

    async def test_context(self, tmp_path: Path) -> None:
        """Another context is another server."""
        connection = await connect(kubeconfig(tmp_path, {}), "there")

        assert "http://127.0.0.2:1" == connection.host
        assert await connection.authorization() is None

    async def test_namespace_is_the_context_s(self, tmp_path: Path) -> None:
        """Where it names none, it is the one that kubectl takes then."""
        path = kubeconfig(tmp_path, {})

        assert "default" == (await connect(path)).namespace
        assert "shop" == (await connect(path, "there")).namespace

    async def test_environment_names_the_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without a path it is KUBECONFIG, whose missing files count as absent."""
        path = kubeconfig(tmp_path, {"token": "secret"})
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setenv("KUBECONFIG", f"/no/such/file:{path}")
        connection = await connect()

        assert "Bearer secret" == await connection.authorization()

    async def test_token_file_is_read_again(self, tmp_path: Path) -> None:
        """A token that was rotated is found when the old one is refused."""
        token = tmp_path / "token"
        token.write_text("old\n")
        connection = await connect(kubeconfig(tmp_path, {"tokenFile": str(token)}))
        token.write_text("new\n")
        assert "Bearer old" == await connection.authorization()

        await connection.renew()
        assert "Bearer new" == await connection.authorization()

    async def test_plugin_without_an_expiry_runs_when_refused(
        self, tmp_path: Path
    ) -> None:
        """Its token is kept until a server does not take it any more."""
        connection = await connect(kubeconfig(tmp_path, plugin(tmp_path, None)))
        await connection.authorization()
        assert "Bearer 1" == await connection.authorization()

        await connection.renew()
        assert "Bearer 2" == await connection.authorization()

    async def test_plugin_runs_again_when_its_token_expires(
        self, tmp_path: Path
    ) -> None:
        """No request goes out with a token that is known to be over."""
        user = plugin(tmp_path, "2001-01-01T00:00:00Z")
        connection = await connect(kubeconfig(tmp_path, user))

        assert "Bearer 2" == await connection.authorization()
        assert "Bearer 3" == await connection.authorization()

    async def test_plugins_token_is_kept_until_then(self, tmp_path: Path) -> None:
        """A token that is good for long is asked for once."""
        user = plugin(tmp_path, "2999-01-01T00:00:00Z")
        connection = await connect(kubeconfig(tmp_path, user))

        assert "Bearer 1" == await connection.authorization()
        assert "Bearer 1" == await connection.authorization()

    @pytest.mark.parametrize(
        "text",
        ["", "][", "just words", "current-context: x", "current-context: x\nusers: 7"],
    )
    async def test_broken_file_is_one_clear_line(
        self, tmp_path: Path, text: str
    ) -> None:
        """The message names the file."""
        path = tmp_path / "broken"
        path.write_text(text)

        with pytest.raises(ConfigurationError, match="broken"):
            await connect(str(path))

    async def test_missing_file_is_one_clear_line(self) -> None:
        """The message says what to do."""
        with pytest.raises(ConfigurationError, match="--kubeconfig"):
            await connect("/no/such/file")

    async def test_unknown_context_is_one_clear_line(self, tmp_path: Path) -> None:
        """The message names it."""
        with pytest.raises(ConfigurationError, match="nowhere"):
            await connect(kubeconfig(tmp_path, {}), "nowhere")

    async def test_failing_plugin_is_one_clear_line(self, tmp_path: Path) -> None:
        """At the start; later it is an error of the request."""
        user = plugin(tmp_path, "2001-01-01T00:00:00Z")
        connection = await connect(kubeconfig(tmp_path, user))
        (tmp_path / "plugin").write_text("#!/bin/sh\necho no luck >&2\nexit 3\n")

        with pytest.raises(ConfigurationError, match="no luck"):
            await connect(kubeconfig(tmp_path, user))
        async with connected(connection, PromptClock()) as client:
            with pytest.raises(Unavailable, match="no luck") as caught:
                await client.create(THINGS, "shop", {})
        assert caught.value.sent is False


class TestPod:
    """What the kubelet mounts."""

    @pytest.fixture(name="account")
    @staticmethod
    def _account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A pod's service account."""
        (tmp_path / "token").write_text("first\n")
        (tmp_path / "namespace").write_text("shop")
        trustme.CA().cert_pem.write_to_path(tmp_path / "ca.crt")
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
        return tmp_path

    async def test_service_account(self, account: Path) -> None:
        """Address, CA, token and namespace are found without a word."""
        connection = await connect(service_account=account)

        assert "https://[fd00::1]:443" == connection.host
        tls = connection.tls()
        assert tls is not None
        assert ssl.CERT_REQUIRED == tls.verify_mode
        assert 1 == len(tls.get_ca_certs()), "no public CA vouches for it"
        assert "Bearer first" == await connection.authorization()
        assert "shop" == connection.namespace

    async def test_address_of_version_4(
        self, account: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It needs no brackets."""
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")

        found = await connect(service_account=account)
        assert "https://10.0.0.1:443" == found.host

    async def test_rotated_token(self, account: Path) -> None:
        """A refused token is read anew at once, not a minute later."""
        connection = await connect(service_account=account)
        (account / "token").write_text("second\n")
        assert "Bearer first" == await connection.authorization()
        await connection.renew()

        assert "Bearer second" == await connection.authorization()

    async def test_token_is_read_again_after_a_minute(
        self, account: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A token is replaced before it expires: no request has to fail for that."""
        loop = asyncio.get_running_loop()
        connection = await connect(service_account=account)
        (account / "token").write_text("second\n")
        later = loop.time() + 61
        monkeypatch.setattr(loop, "time", lambda: later)

        assert "Bearer second" == await connection.authorization()

    async def test_authority_is_read_again_with_the_token(
        self, account: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that was taken away is not believed for long, while none is asked for it.

        One that stays keeps its connections.
        """
        loop = asyncio.get_running_loop()
        connection = await connect(service_account=account)
        first = connection.tls()
        await connection.renew()
        assert first is connection.tls()

        trustme.CA().cert_pem.write_to_path(account / "ca.crt")
        later = loop.time() + 61
        monkeypatch.setattr(loop, "time", lambda: later)
        await connection.authorization()
        second = connection.tls()
        assert first is not None
        assert second is not None
        assert first.get_ca_certs() != second.get_ca_certs()

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            pytest.param("token", None, id="no token"),
            pytest.param("token", "", id="empty token"),
            pytest.param("ca.crt", None, id="no CA"),
            pytest.param("ca.crt", "", id="empty CA"),
            pytest.param("ca.crt", BROKEN, id="broken CA"),
        ],
    )
    async def test_unusable_file_changes_nothing(
        self,
        account: Path,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        content: str | None,
    ) -> None:
        """As while it is written: it is told once, and taken when it can be used."""
        loop = asyncio.get_running_loop()
        connection = await connect(service_account=account)
        tls, now = connection.tls(), loop.time()
        monkeypatch.setattr(loop, "time", lambda: now)
        (account / name).unlink()
        if content is not None:
            (account / name).write_text(content)
        with structlog.testing.capture_logs() as logged:
            for _ in range(2):
                now += 61
                assert "Bearer first" == await connection.authorization()
                await connection.renew()
        assert ["credentials.not_reloaded"] == [one["event"] for one in logged]
        assert tls is connection.tls()

        (account / "token").write_text("second")
        trustme.CA().cert_pem.write_to_path(account / "ca.crt")
        assert "Bearer first" == await connection.authorization()
        now += 61
        assert "Bearer second" == await connection.authorization()
        assert tls is not connection.tls()

    @pytest.mark.parametrize("name", ["token", "ca.crt"])
    async def test_missing_file_is_one_clear_line(
        self, account: Path, name: str
    ) -> None:
        """The message says what is missing."""
        (account / name).unlink()

        with pytest.raises(ConfigurationError, match=r"service account.*No such file"):
            await connect(service_account=account)

    async def test_empty_token_is_one_clear_line(self, account: Path) -> None:
        """Nothing is asked for without a name."""
        (account / "token").write_text("\n")

        with pytest.raises(ConfigurationError, match="token is empty"):
            await connect(service_account=account)

    async def test_missing_port_is_one_clear_line(
        self, account: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The message names the variable."""
        monkeypatch.delenv("KUBERNETES_SERVICE_PORT")

        with pytest.raises(ConfigurationError, match="KUBERNETES_SERVICE_PORT"):
            await connect(service_account=account)

    async def test_no_library_is_imported(self, account: Path) -> None:
        """It costs 36 MiB and half a second, and no process in a pod uses it."""
        program = (
            "import asyncio, pathlib, sys\n"
            "from lbcf.kube.connection import connect\n"
            f"asyncio.run(connect(service_account=pathlib.Path({str(account)!r})))\n"
            "assert 'kubernetes_asyncio' not in sys.modules"
        )
        finished = await asyncio.create_subprocess_exec(sys.executable, "-c", program)

        assert 0 == await finished.wait()


async def give(_request: web.Request) -> web.Response:
    """Answer with a thing, on a connection of its own for each request."""
    answer = web.json_response(thing_json("web", 1))
    answer.force_close()
    return answer


@asynccontextmanager
async def serving(tls: ssl.SSLContext, give: Handler = give) -> AsyncIterator[str]:
    """Serve each path in one way."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", give)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class TestTls:
    """A server that shows a certificate, and wants one."""

    @pytest.fixture(name="ca")
    @staticmethod
    def _ca() -> trustme.CA:
        """The cluster's CA."""
        return trustme.CA()

    @pytest.fixture(name="host")
    @staticmethod
    async def _host(ca: trustme.CA) -> AsyncIterator[str]:
        """A server that takes clients of that CA only."""
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        ca.issue_cert("127.0.0.1").configure_cert(tls)
        ca.configure_trust(tls)
        tls.verify_mode = ssl.CERT_REQUIRED
        async with serving(tls) as host:
            yield host

    @staticmethod
    def files(
        folder: Path, ca: trustme.CA, client: trustme.CA
    ) -> tuple[Path, dict[str, object]]:
        """Write the CA and a client's certificate."""
        ca.cert_pem.write_to_path(folder / "ca.pem")
        issued = client.issue_cert("someone")
        issued.cert_chain_pems[0].write_to_path(folder / "client.pem")
        issued.private_key_pem.write_to_path(folder / "client.key")
        user: dict[str, object] = {
            "client-certificate": str(folder / "client.pem"),
            "client-key": str(folder / "client.key"),
        }
        return folder / "ca.pem", user

    async def connection(
        self, folder: Path, host: str, ca: trustme.CA, client: trustme.CA
    ) -> Connection:
        """Read a kubeconfig with these certificates."""
        trusted, user = self.files(folder, ca, client)
        cluster = {"certificate-authority": str(trusted), "server": host}
        return await connect(kubeconfig(folder, user, **cluster))

    async def test_both_sides_are_checked(
        self, tmp_path: Path, host: str, ca: trustme.CA
    ) -> None:
        """Server and client have certificates of the cluster's CA."""
        connection = await self.connection(tmp_path, host, ca, ca)
        async with connected(connection, PromptClock()) as client:
            assert a_thing("web", 1) == await client.get(THINGS, key("web"))

    async def test_strange_server_is_not_talked_to(
        self, tmp_path: Path, host: str, ca: trustme.CA
    ) -> None:
        """Nothing is sent to a server that another CA vouches for."""
        connection = await self.connection(tmp_path, host, trustme.CA(), ca)
        async with connected(connection, PromptClock()) as client:
            with pytest.raises(
                Unavailable, match="certificate verify failed"
            ) as caught:
                await client.create(THINGS, "shop", {})

        assert caught.value.sent is False

    async def test_renewed_client_certificate_is_used(
        self, tmp_path: Path, host: str, ca: trustme.CA
    ) -> None:
        """A file that was replaced counts for new connections."""
        connection = await self.connection(tmp_path, host, ca, trustme.CA())
        async with connected(connection, PromptClock()) as client:
            with pytest.raises(Unavailable):
                await client.get(THINGS, key("web"))
            self.files(tmp_path, ca, ca)
            await connection.renew()

            assert a_thing("web", 1) == await client.get(THINGS, key("web"))

    async def test_context_stays_while_what_it_is_made_of_does(
        self, tmp_path: Path, ca: trustme.CA
    ) -> None:
        """Another one has no connections; and a refused request would go out once more."""
        connection = await self.connection(tmp_path, "https://127.0.0.1:1", ca, ca)
        tls = connection.tls()
        await connection.renew()
        assert tls is connection.tls()

        for name in ("ca.pem", "client.pem", "client.key"):
            with (tmp_path / name).open("a") as file:
                file.write("\n")
            await connection.renew()
            assert tls is not connection.tls()
            tls = connection.tls()

    @pytest.mark.parametrize("where", ["kubeconfig", "inline"])
    async def test_refused_request_is_sent_once(
        self, tmp_path: Path, where: str
    ) -> None:
        """There are no newer credentials to send it with."""
        ca, sent = trustme.CA(), list[object]()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        ca.issue_cert("127.0.0.1").configure_cert(tls)

        async def refuse(request: web.Request) -> web.Response:
            sent.append(request.transport)
            return web.json_response({}, status=401)

        async with serving(tls, refuse) as host:
            connection = await self.connect(tmp_path, ca, host, where)
            async with connected(connection, PromptClock()) as client:
                for _ in range(3):
                    with pytest.raises(Unauthorized):
                        await client.get(THINGS, key("web"))

        assert 3 == len(sent)
        assert 1 == len(set(sent)), "connections"

    @pytest.mark.parametrize("where", ["in a pod", "kubeconfig", "inline"])
    async def test_rotated_authority_is_read_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
    ) -> None:
        """A process that stays goes on with the server that the new one vouches for."""
        old, new = trustme.CA(), trustme.CA()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        old.issue_cert("127.0.0.1").configure_cert(tls)
        async with serving(tls) as host:
            monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            port = host.rpartition(":")[2]
            monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
            connection = await self.connect(tmp_path, old, host, where)
            async with connected(connection, PromptClock()) as client:
                await client.get(THINGS, key("web"))
                new.issue_cert("127.0.0.1").configure_cert(tls)
                with pytest.raises(Unavailable, match="certificate verify failed"):
                    await client.get(THINGS, key("web"))

                self.write(tmp_path, new, host, where)
                assert a_thing("web", 1) == await client.create(THINGS, "shop", {})

                old.issue_cert("127.0.0.1").configure_cert(tls)
                told = rf"cannot connect to 127.0.0.1:{port}: .*verify failed"
                with pytest.raises(Unavailable, match=told):
                    await client.get(THINGS, key("web"))

    @staticmethod
    def write(folder: Path, ca: trustme.CA, host: str, where: str) -> str | None:
        """Write what names the cluster's CA; return the kubeconfig, None in a pod."""
        path = folder / "ca.crt"
        ca.cert_pem.write_to_path(path)
        (folder / "token").write_text("secret")
        named = {"certificate-authority": str(path)}
        if where == "inline":
            named = {"certificate-authority-data": encoded(path)}
        found = kubeconfig(folder, {"token": "secret"}, server=host, **named)
        return None if where == "in a pod" else found

    async def connect(
        self, folder: Path, ca: trustme.CA, host: str, where: str
    ) -> Connection:
        """Connect to a server of that CA."""
        file = self.write(folder, ca, host, where)
        return await connect(file, service_account=folder)

    async def test_watch_has_the_authority_read_again_for_the_next_one(
        self, tmp_path: Path
    ) -> None:
        """The informer opens watches anew; the next one knows the server."""
        old, new = trustme.CA(), trustme.CA()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        new.issue_cert("127.0.0.1").configure_cert(tls)
        async with serving(tls) as host:
            connection = await self.connect(tmp_path, old, host, "kubeconfig")
            self.write(tmp_path, new, host, "kubeconfig")
            request = ApiRequest("GET", "/")
            silence = timedelta(seconds=PATIENCE)
            async with Transport(connection, PromptClock()) as transport:
                with pytest.raises(Unavailable, match="certificate verify failed"):
                    async with transport.stream(request, silence):
                        pass
                async with transport.stream(request, silence):
                    pass

    async def test_no_key_is_left_in_a_file(
        self, tmp_path: Path, ca: trustme.CA, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process that is killed later leaves none of its credentials behind."""
        (tmp_path / "temporary").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
        trusted, files = self.files(tmp_path, ca, ca)
        user: dict[str, object] = {
            f"{name}-data": encoded(Path(str(path))) for name, path in files.items()
        }
        data = encoded(trusted)
        cluster = {"certificate-authority-data": data, "server": "https://127.0.0.1"}
        connection = await connect(kubeconfig(tmp_path, user, **cluster))
        await connection.renew()

        assert [] == list((tmp_path / "temporary").iterdir())


def test_library_is_imported_only_to_connect() -> None:
    """It costs 40 MB and half a second: whoever only needs values does not pay."""
    program = (
        "import sys, lbcf.kube.client, lbcf.kube.informer, lbcf.kube.leader_election\n"
        "assert 'kubernetes_asyncio' not in sys.modules"
    )
    finished = subprocess.run([sys.executable, "-c", program], check=False)

    assert 0 == finished.returncode
