"""Finds the API server and the credentials, by kubeconfig or from inside a pod.

A pod's service account is read here. For a kubeconfig kubernetes-asyncio does it, which
runs exec plugins and refreshes tokens, too. It is imported for that alone: it brings a
class for every kind of Kubernetes, 36 MiB that no process needs in a pod.
"""

import asyncio
import contextlib
import os
import ssl

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import structlog

from lbcf.core.errors import LbcfError


SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts a pod's token, CA and namespace."""
_POD: Final = "the pod's service account"
_TOKEN_SECONDS: Final = 60.0
"""For so long a token is taken from memory: as client-go has it."""
_log = structlog.get_logger(__name__)


class ConfigurationError(LbcfError):
    """The kubeconfig, or what a pod is given in its place, cannot be used."""


async def _anonymous() -> str | None:
    # Client certificates, or no credentials at all.
    return None


async def _keep_credentials() -> None:
    pass  # There is no source of newer ones.


def _without_tls() -> None:
    pass  # Plain http, or whom the system trusts.


@attrs.frozen
class Connection:
    """Where the API server is and how we show who we are.

    Attributes:
        host: base URL without a trailing slash.
        tls: for https, with the CA and the client certificate, of now; None for http.
        authorization: the value of the header, fresh for each request.
        renew: reads the credentials and the CA anew; called after a 401, and where the
            CA does not vouch for the server.
        server_name: what the server's certificate is issued to, if not to the host.
        proxy: URL of an HTTP proxy on the way.
        namespace: that is meant where none is named, as kubectl has it.
        headers: sent with each request; a name may stand there several times.
    """

    host: str
    tls: Callable[[], ssl.SSLContext | None] = _without_tls
    authorization: Callable[[], Awaitable[str | None]] = _anonymous
    renew: Callable[[], Awaitable[None]] = _keep_credentials
    server_name: str | None = None
    proxy: str | None = None
    namespace: str = "default"
    headers: tuple[tuple[str, str], ...] = ()


def acting_as(user: str, groups: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the headers of whoever acts for another user, as kubectl's `--as` sends them."""
    of_groups = (("Impersonate-Group", group) for group in groups)
    return (("Impersonate-User", user), *of_groups)


async def connect(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """Read the configuration; no request is sent to the API server.

    Args:
        kubeconfig: path of the file. None: inside a pod the pod's service account, else
            KUBECONFIG, else `~/.kube/config`.
        context: of the kubeconfig, None for its current one.
        service_account: folder of a pod's token, CA and namespace.

    Raises:
        ConfigurationError: missing, unreadable, or a credential plugin failed.
    """
    inside = kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ
    if inside and context is None:
        return _from_pod(service_account)
    return await _from_file(kubeconfig or _default_kubeconfig(), context)


def _default_kubeconfig() -> str:
    # KUBECONFIG may name several files.
    return os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")


def _from_pod(folder: Path) -> Connection:
    """Use the service account that the kubelet mounts."""
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigurationError(
            f"{_POD} cannot be used: KUBERNETES_SERVICE_HOST and "
            "KUBERNETES_SERVICE_PORT must both be set"
        )
    account = _MountedAccount(folder)
    return Connection(
        host=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        tls=account.tls,
        authorization=account.authorization,
        renew=account.renew,
        namespace=_namespace_in(folder),
    )


class _MountedAccount:
    """A token and a CA in files, which the kubelet replaces before they expire."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = ""
        self._trouble = ""
        self._read()

    def tls(self) -> ssl.SSLContext:
        return self._tls

    async def authorization(self) -> str:
        if asyncio.get_running_loop().time() >= self._read_again:
            self._read_anew()
        return self._header

    async def renew(self) -> None:
        self._read_anew()

    def _read_anew(self) -> None:
        """Take what has changed; a file that cannot be used changes nothing, and is told once."""
        trouble = ""
        try:
            self._read()
        except ConfigurationError as error:
            # Somebody may be writing it; what was read before may be good for long.
            trouble = str(error)
        if trouble and trouble != self._trouble:
            _log.error("credentials.not_reloaded", error=trouble)
        self._trouble = trouble

    def _read(self) -> None:
        # First: what cannot be used is not read at each request, either.
        self._read_again = asyncio.get_running_loop().time() + _TOKEN_SECONDS
        self._header = f"Bearer {_read_mounted(self._folder / 'token')}"
        path = self._folder / "ca.crt"
        authority = _read_mounted(path)
        if authority != self._authority:
            # Another context: the old one would go on to trust who was taken away.
            self._tls = _verifying(str(path), _POD)
            self._authority = authority


def _read_mounted(path: Path) -> str:
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{_POD} cannot be used: {path}: {reason}") from error
    if not text:
        raise ConfigurationError(f"{_POD} cannot be used: {path} is empty")
    return text


def _namespace_in(folder: Path) -> str:
    try:
        return (folder / "namespace").read_text("utf-8").strip() or "default"
    except OSError:
        return "default"


async def _from_file(kubeconfig: str, context: str | None) -> Connection:
    """Use a kubeconfig file, or several as in KUBECONFIG."""
    paths = _existing(kubeconfig)
    from kubernetes_asyncio import client, config  # noqa: PLC0415 - see the module

    configuration: Any = client.Configuration()
    exclusive = asyncio.Lock()
    current: list[Mapping[str, Any]] = []

    async def load() -> None:
        loader = await config.load_kube_config(
            config_file=os.pathsep.join(map(str, paths)),
            context=context,
            client_configuration=configuration,
            persist_config=False,
        )
        configuration.refresh_api_key_hook = lambda _: refresh(loader)
        current[:] = [(loader.current_context or {}).get("context") or {}]

    async def refresh(loader: Any) -> None:
        # The library keeps an exec plugin's token until shortly before it expires; of
        # a plugin that names no expiry only a 401 tells, and so of all other tokens.
        if hasattr(loader, "exec_plugin_expiry"):
            async with exclusive:
                await loader.load_from_exec_plugin()
            configuration.api_key["BearerToken"] = loader.token

    found = await _connection(configuration, load, f"kubeconfig {kubeconfig}")
    return attrs.evolve(found, namespace=current[0].get("namespace") or "default")


@contextlib.contextmanager
def _brief_files() -> Iterator[None]:
    """Remove the files that the library writes certificates and keys of kubeconfigs to.

    By itself it does so when Python ends, and never when that is killed.
    """
    from kubernetes_asyncio.config import kube_config  # noqa: PLC0415

    try:
        yield
    finally:
        # No public name for it; without the name the files stay until the end.
        getattr(kube_config, "_cleanup_temp_files", lambda: None)()


def _existing(kubeconfig: str) -> list[Path]:
    """Return those of the paths that are files, as kubectl ignores the others."""
    paths = [Path(part).expanduser() for part in kubeconfig.split(os.pathsep) if part]
    files = [path for path in paths if path.is_file()]
    if not files:
        raise ConfigurationError(
            f"kubeconfig {kubeconfig}: no such file; pass --kubeconfig or set KUBECONFIG"
        )
    return files


async def _connection(
    configuration: Any, load: Callable[[], Awaitable[None]], source: str
) -> Connection:
    """Load the configuration, and tie later refreshes of it to the same values."""
    tls: ssl.SSLContext | None = None
    made_of: tuple[object, ...] = ()

    async def authorization() -> str | None:
        token = await _checked(
            configuration.get_api_key_with_prefix("BearerToken"), source
        )
        return token.strip() if isinstance(token, str) else None

    async def renew() -> None:
        nonlocal tls, made_of
        with _brief_files():
            await _checked(load(), source)
            found = _tls_parts(configuration)
            # With another context each connection is made anew, and these credentials
            # look newer than those that were refused.
            if found != made_of:
                tls = _tls_context(configuration, source)
                made_of = found

    await renew()
    return Connection(
        host=configuration.host.rstrip("/"),
        tls=lambda: tls,
        authorization=authorization,
        renew=renew,
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
    )


async def _checked(loading: Awaitable[object], source: str) -> object:
    """Await the library; any failure becomes one line that names the source."""
    try:
        return await loading
    except Exception as error:
        # Broken files make the library raise whatever its code runs into.
        text = str(error) or type(error).__name__
        raise ConfigurationError(f"{source} cannot be used: {text}") from error


def _tls_parts(configuration: Any) -> tuple[object, ...]:
    """Return all that decides on a context; without a CA, the system's file of them."""
    authority = configuration.ssl_ca_cert or ssl.get_default_verify_paths().cafile
    files = authority, configuration.cert_file, configuration.key_file
    return configuration.host, configuration.verify_ssl, *map(_content_of, files)


def _content_of(path: str | None) -> bytes | None:
    # A file that cannot be read is told where a context is to be made of it.
    try:
        return Path(path).read_bytes() if path else None
    except OSError:
        return None


def _tls_context(configuration: Any, source: str) -> ssl.SSLContext | None:
    # None for http.
    if not configuration.host.startswith("https:"):
        return None
    tls = _verifying(configuration.ssl_ca_cert, source)
    if not configuration.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    _load_client_certificate(tls, configuration, source)
    return tls


def _verifying(ca: str | None, source: str) -> ssl.SSLContext:
    try:
        # With a CA of its own, no public CA may vouch for the API server.
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ConfigurationError(f"{source}: the CA is unusable: {error}") from error


def _load_client_certificate(
    tls: ssl.SSLContext, configuration: Any, source: str
) -> None:
    if not configuration.cert_file:
        return
    try:
        tls.load_cert_chain(configuration.cert_file, configuration.key_file)
    except OSError as error:
        raise ConfigurationError(
            f"{source}: the client certificate is unusable: {error}"
        ) from error
