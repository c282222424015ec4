"""Finds the API server and the credentials, by kubeconfig or from inside a pod.

kubernetes-asyncio reads the configuration, runs exec plugins and refreshes tokens;
`Transport` sends the requests.
"""

import asyncio
import os
import ssl

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from lbcf.core.errors import LbcfError
from lbcf.kube.library import library


class ConfigurationError(LbcfError):
    """The kubeconfig, or what a pod is given in its place, cannot be used."""


_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


async def _anonymous() -> str | None:
    """Send no credentials in a header: client certificates, or none at all."""
    return None


async def _nothing_newer() -> None:
    """Keep the credentials: there is no source of newer ones."""


@attrs.frozen
class Connection:
    """Where the API server is and how we show who we are.

    Attributes:
        host: base URL without a trailing slash.
        tls: for https, with the CA and the client certificate; None for http.
        authorization: the value of the header, fresh for each request.
        renew: reads the credentials anew; called after a 401.
        server_name: what the server's certificate is issued to, if not to the host.
        proxy: URL of an HTTP proxy on the way.
        namespace: that is meant where none is named, as kubectl has it.
    """

    host: str
    tls: ssl.SSLContext | None = None
    authorization: Callable[[], Awaitable[str | None]] = _anonymous
    renew: Callable[[], Awaitable[None]] = _nothing_newer
    server_name: str | None = None
    proxy: str | None = None
    namespace: str = "default"


async def connect(
    kubeconfig: str | None = None, context: str | None = None
) -> Connection:
    """Read the configuration; no request is sent to the API server.

    Args:
        kubeconfig: path of the file. None: inside a pod the pod's service account, else
            KUBECONFIG, else `~/.kube/config`.
        context: of the kubeconfig, None for its current one.

    Raises:
        ConfigurationError: missing, unreadable, or a credential plugin failed.
    """
    inside = kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ
    if inside and context is None:
        return await _from_pod()
    return await _from_file(kubeconfig or _default_kubeconfig(), context)


def _default_kubeconfig() -> str:
    """Return the path, or paths, where kubectl would look."""
    return os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")


async def _from_pod() -> Connection:
    """Use the service account that the kubelet mounts."""
    parts = library()
    configuration, config = parts.configuration(), parts.config
    load_incluster_config: Callable[..., None] = config.load_incluster_config

    async def load() -> None:
        # Its hook reads the token once a minute; loading again resets that minute.
        load_incluster_config(client_configuration=configuration)

    found = await _connection(configuration, load, "the pod's service account")
    return attrs.evolve(found, namespace=_namespace_of_pod())


def _namespace_of_pod() -> str:
    """Say where the pod is; the kubelet writes it beside the token."""
    try:
        return _POD_NAMESPACE.read_text("utf-8").strip() or "default"
    except OSError:
        return "default"


async def _from_file(kubeconfig: str, context: str | None) -> Connection:
    """Use a kubeconfig file, or several as in KUBECONFIG."""
    parts = library()
    paths = _existing(kubeconfig)
    configuration, config = parts.configuration(), parts.config
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
    with library().brief_files():
        await _told(load(), source)
        tls = _tls_context(configuration, source)

    async def authorization() -> str | None:
        token = await _told(
            configuration.get_api_key_with_prefix("BearerToken"), source
        )
        return token.strip() if isinstance(token, str) else None

    async def renew() -> None:
        with library().brief_files():
            await _told(load(), source)
            if tls is not None:
                _load_client_certificate(tls, configuration, source)

    return Connection(
        host=configuration.host.rstrip("/"),
        tls=tls,
        authorization=authorization,
        renew=renew,
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
    )


async def _told(loading: Awaitable[object], source: str) -> object:
    """Await the library, and tell of any failure in one line that names the source."""
    try:
        return await loading
    except Exception as error:
        # Broken files make the library raise whatever its code runs into.
        text = str(error) or type(error).__name__
        raise ConfigurationError(f"{source} cannot be used: {text}") from error


def _tls_context(configuration: Any, source: str) -> ssl.SSLContext | None:
    """Make the TLS settings of a https host; None for http."""
    if not configuration.host.startswith("https:"):
        return None
    try:
        # With a CA of its own, no public CA may vouch for the API server.
        tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    except OSError as error:
        raise ConfigurationError(f"{source}: the CA is unusable: {error}") from error
    if not configuration.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    _load_client_certificate(tls, configuration, source)
    return tls


def _load_client_certificate(
    tls: ssl.SSLContext, configuration: Any, source: str
) -> None:
    """Put the client certificate in, or a newer one: new connections use it."""
    if not configuration.cert_file:
        return
    try:
        tls.load_cert_chain(configuration.cert_file, configuration.key_file)
    except OSError as error:
        raise ConfigurationError(
            f"{source}: the client certificate is unusable: {error}"
        ) from error
