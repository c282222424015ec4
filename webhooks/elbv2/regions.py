"""The regions of AWS that are called: settings, clients, and their connections.

`balancer` asks for a region, `client` has the calls to it.
"""

from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession
from botocore import exceptions as aws

from lbcf.sdk import Clock, SystemClock
from webhooks.elbv2.client import Region, one_line
from webhooks.elbv2.credentials import make_session
from webhooks.elbv2.errors import Elbv2Error, Unreachable


if TYPE_CHECKING:
    from types_aiobotocore_elbv2 import ElasticLoadBalancingv2Client as ElbClient


@attrs.frozen
class Settings:
    """How AWS is reached.

    Attributes:
        endpoint_url: in place of AWS' own; empty: AWS.
        region: of target groups that are named without one; empty: as AWS' own
            configuration says.
        credentials: folder with the credentials; None: AWS' chain.
        attempts: of one call that only reads, all in all. What changes something is sent
            once: the last of several answers would say nothing of those that were lost.
        connecting: for a connection to be there.
        answering: for an answer to come.
    """

    endpoint_url: str = ""
    region: str = ""
    credentials: Path | None = None
    attempts: int = 2
    connecting: timedelta = timedelta(seconds=2)
    answering: timedelta = timedelta(seconds=5)

    def config(self, attempts: int) -> AioConfig:
        """Return it as aiobotocore wants it, for calls with so many attempts."""
        return AioConfig(
            connect_timeout=self.connecting.total_seconds(),
            read_timeout=self.answering.total_seconds(),
            retries={"mode": "standard", "total_max_attempts": attempts},
            max_pool_connections=32,
            user_agent_extra="lbcf",
        )


@attrs.define(eq=False)
class Aws:
    """The regions that are called; two connection pools each, for readings and changes.

    Attributes:
        settings: how they are reached.
        clock: for waits.
    """

    settings: Settings = attrs.field(factory=Settings)
    clock: Clock = attrs.field(factory=SystemClock)
    _regions: dict[str, Region] = attrs.field(factory=dict, init=False)
    _open: AsyncExitStack = attrs.field(factory=AsyncExitStack, init=False)

    async def region(self, name: str = "") -> Region:
        """Return the calls to a region; empty: the one that is configured.

        Raises:
            Unreachable: no region is known, or there can be no client for it.
        """
        wanted = name or self.settings.region
        if wanted not in self._regions:
            reading, changing = await self._clients(wanted)
            # Somebody else may have been quicker while these were being made.
            self._regions.setdefault(wanted, Region(reading, changing, self.clock))
        return self._regions[wanted]

    async def close(self) -> None:
        """Close all connections."""
        self._regions.clear()
        await self._open.aclose()

    async def _clients(self, region: str) -> "tuple[ElbClient, ElbClient]":
        """Make the clients of a region, for readings and for changes."""
        try:
            session = make_session(self.settings.credentials)
            reading = await self._client(session, region, self.settings.attempts)
            return reading, await self._client(session, region, attempts=1)
        except aws.NoRegionError as error:
            raise Unreachable(
                "no region: name target groups by ARN, or say `region` or --region"
            ) from error
        except Elbv2Error:
            raise
        except (aws.BotoCoreError, ValueError) as error:
            raise Unreachable(f"no client for {region!r:.60}: {one_line(error)}") from (
                error
            )

    async def _client(
        self, session: AioSession, region: str, attempts: int
    ) -> "ElbClient":
        """Make a client; it is closed at the end."""
        return await self._open.enter_async_context(
            session.create_client(
                "elbv2",
                region_name=region or None,
                endpoint_url=self.settings.endpoint_url or None,
                config=self.settings.config(attempts),
            )
        )
