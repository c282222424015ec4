"""Keeps the TLS settings of the server current, without a restart.

Either files that somebody else renews (cert-manager, say), or a certificate of our own
in a Secret that all replicas share: whoever finds it due makes a new one, and
compare-and-swap lets one of them win. What the API server is to trust is published
first, then used: see `lbcf.admission.authority`.
"""

import operator
import ssl

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import attrs
import structlog
import tenacity

from lbcf.admission.authority import (
    Bundle,
    Renewal,
    end_of,
    read_bundle,
    renew_bundle,
    renewal_of,
)
from lbcf.admission.objects import (
    SECRETS,
    WEBHOOK_CONFIGURATIONS,
    KeptBundle,
    render_secret,
    render_trust,
    to_base64,
)
from lbcf.core.errors import LbcfError
from lbcf.core.model.values import ObjectKey
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import AlreadyExists, Conflict, Forbidden, KubeError, NotFound
from lbcf.runtime.certificates import load_pair
from lbcf.runtime.clock import Clock
from lbcf.runtime.tasks import CutError, cut_is_error


_log = structlog.get_logger(__name__)

PERIOD = timedelta(seconds=30)
"""Between two looks; a new authority is published that long before it signs."""
_RETRY = timedelta(seconds=2)
_ATTEMPTS = 5
"""To write what another replica, or a person, writes at the same moment."""


class UnusableError(LbcfError):
    """A certificate that cannot be served; says which, and why."""


@attrs.frozen
class Serving:
    """A certificate with its key, in PEM."""

    certificate: bytes
    key: bytes


class Source(Protocol):
    """Where the certificate comes from."""

    async def current(self) -> Serving:
        """Read what is to be served now.

        Raises:
            LbcfError: there is nothing, or it cannot be read.
        """


class Files:
    """A certificate that somebody else puts into two files, and renews there."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key

    async def current(self) -> Serving:
        """Read both files.

        Raises:
            UnusableError: one of them cannot be read.
        """
        try:
            return Serving(self._certificate.read_bytes(), self._key.read_bytes())
        except OSError as error:
            raise UnusableError(f"{error.filename}: {error.strerror}") from error


class SharedSecret:
    """A certificate of our own.

    Args:
        client: reads and writes the Secret and the webhook configuration.
        secret: where the replicas keep it.
        configuration: name of the ValidatingWebhookConfiguration that is to trust it.
        names: names and addresses by which the API server calls us.
        clock: says when a new one is due.
    """

    def __init__(
        self,
        client: KubeClient,
        secret: ObjectKey,
        configuration: str,
        names: Sequence[str],
        *,
        clock: Clock,
    ) -> None:
        self._client = client
        self._secret = secret
        self._configuration = ObjectKey("", configuration)
        self._names = names
        self._clock = clock

    async def current(self) -> Serving:
        """Renew what is due, let the API server trust it, and give it out.

        Raises:
            KubeError: the Secret or the configuration cannot be read or written.
            UnusableError: there is no Secret, and we may not create it.
        """
        bundle = await self._renewed()
        await self._publish(bundle)
        return Serving(bundle.leaf, bundle.leaf_key)

    # A replica that was faster has written what this one then reads.
    @tenacity.retry(
        retry=tenacity.retry_if_exception_type((Conflict, AlreadyExists, NotFound)),
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        reraise=True,
    )
    async def _renewed(self) -> Bundle:
        """Read the Secret, and bring it up to date; the faster replica wins."""
        kept = await self._read()
        old = kept.bundle if kept is not None else Bundle()
        now = self._clock.now()
        renewal = renewal_of(read_bundle(old), self._names, now)
        if renewal is Renewal.NOTHING:
            return old
        new = renew_bundle(old, renewal, self._names, now)
        await self._write(kept, new)
        _log.info("certificate.renewed", secret=str(self._secret), what=renewal.name)
        return new

    async def _read(self) -> KeptBundle | None:
        try:
            return await self._client.get(SECRETS, self._secret)
        except NotFound:
            return None

    async def _write(self, kept: KeptBundle | None, new: Bundle) -> None:
        """Write the Secret over exactly the version that was read."""
        body = render_secret(self._secret.name, new)
        if kept is not None:
            change = {"data": body["data"]}
            await self._client.patch(SECRETS, self._secret, change, cas=kept.meta)
            return
        try:
            await self._client.create(SECRETS, self._secret.namespace, body)
        except Forbidden as error:
            raise UnusableError(
                f"the Secret {self._secret}, which keeps the certificate, does not exist, "
                "and we may create none: apply manifests/webhook/service.yaml again, or "
                "helm upgrade"
            ) from error

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(Conflict),
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        reraise=True,
    )
    async def _publish(self, bundle: Bundle) -> None:
        """Write our authorities into the webhook configuration's caBundle."""
        found = await self._client.get(WEBHOOK_CONFIGURATIONS, self._configuration)
        change = render_trust(found, to_base64(bundle.authorities))
        if change:
            await self._client.patch(
                WEBHOOK_CONFIGURATIONS, self._configuration, change, cas=found.meta
            )
            _log.info("authority.published", configuration=self._configuration.name)


class Keeper:
    """Keeps the server's TLS context at what a source gives out.

    Args:
        source: gives out the certificate.
        clock: the time.
        clients: a file with authorities: nobody may call without a certificate of these.

    Raises:
        UnusableError: that file holds none.

    Attributes:
        context: for the server; what is loaded later serves new connections.
    """

    def __init__(
        self, source: Source, clock: Clock, clients: Path | None = None
    ) -> None:
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        if clients is not None:
            _ask_for(self.context, clients)
        self._source = source
        self._clock = clock
        self._serving: Serving | None = None
        self._end: datetime | None = None
        self._trouble = "no certificate has been loaded yet"

    async def load(self) -> None:
        """Come back once there is a certificate to serve."""
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_result(operator.not_),
            wait=tenacity.wait_fixed(_RETRY),
            sleep=lambda seconds: self._clock.sleep(timedelta(seconds=seconds)),
        )
        await retrying(self._refreshed)

    async def keep(self) -> None:
        """Refresh the certificate periodically, until cancelled."""
        while True:
            await self._clock.sleep(PERIOD * (0.75 + self._clock.jitter() / 2))
            await self._refreshed()

    def end(self) -> datetime | None:
        """Return the end of the certificate that is served, None without one."""
        return self._end

    def check(self) -> str | None:
        """Return what is wrong with the certificate that is served; None: nothing."""
        if self._end is None:
            return self._trouble
        if self._clock.now() < self._end:
            return None
        return f"the certificate is over since {self._end}: {self._trouble}"

    async def _refreshed(self) -> bool:
        """Read what is to be served, and serve it; False if that went wrong."""
        try:
            # Whoever keeps the certificate would end with it, and nobody would tell.
            with cut_is_error("a look at the certificate"):
                serving = await self._source.current()
            if serving != self._serving:
                self._serve(serving)
        except (KubeError, UnusableError, CutError) as error:
            self._trouble = str(error)
            _log.warning("certificate.unusable", error=str(error))
            return False
        return True

    def _serve(self, serving: Serving) -> None:
        """Use a certificate from the next connection on.

        Raises:
            UnusableError: it is none, or the key is another one's.
        """
        try:
            end = end_of(serving.certificate)
            load_pair(self.context, serving.certificate, serving.key)
        except ValueError as error:
            raise UnusableError(f"the certificate cannot be used: {error}") from error
        self._serving, self._end, self._trouble = serving, end, "not renewed"
        _log.info("certificate.loaded", good_until=end.isoformat())


def _ask_for(context: ssl.SSLContext, clients: Path) -> None:
    """Demand certificates of these authorities from whoever calls.

    Raises:
        UnusableError: there are none in the file.
    """
    try:
        context.load_verify_locations(clients)
    except (OSError, ssl.SSLError) as error:
        raise UnusableError(f"--client-ca-file {clients}: {error}") from error
    context.verify_mode = ssl.CERT_REQUIRED
