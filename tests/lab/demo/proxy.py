"""What the demo has to know of a load balancer: its members, its restart, its driver."""

import abc

from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs


@attrs.frozen
class Member:
    """A member of the load balancer.

    Attributes:
        name: its name.
        address: its address and port.
        status: as HAProxy calls it: `UP`, `DOWN`, `DRAIN`, `MAINT`, `no check`, ...
        sessions: requests on it now, the queued ones included.
    """

    name: str
    address: str
    status: str
    sessions: int

    @property
    def serving(self) -> bool:
        """New requests are sent to it."""
        return self.status.startswith(("UP", "no check"))


@attrs.frozen
class Snapshot:
    """What one look at the load balancer shows.

    Attributes:
        worker: tells the process that answered from one after a reload or a restart.
        members: of it.
    """

    worker: str
    members: tuple[Member, ...]

    @property
    def serving(self) -> int:
        """How many members get new requests."""
        return sum(member.serving for member in self.members)


class Proxy(abc.ABC):
    """A running load balancer.

    Attributes:
        cuts_requests: whether `restart` ends the requests that are under way.
        http2: whether clients may speak HTTP/2 and gRPC.
    """

    cuts_requests: ClassVar[bool]
    http2: ClassVar[bool]

    @property
    @abc.abstractmethod
    def lb_spec(self) -> Mapping[str, str]:
        """What its LoadBalancer has as `lbSpec`."""

    @property
    @abc.abstractmethod
    def attributes(self) -> Mapping[str, str]:
        """What its LoadBalancer has as `attributes`."""

    @property
    @abc.abstractmethod
    def driver(self) -> Sequence[str]:
        """The module of its driver, and flags but for the address it is called at."""

    @abc.abstractmethod
    async def look(self) -> Snapshot:
        """Ask for its members.

        Raises:
            tests.lab.demo.errors.DemoError: it does not answer, or not with that.
        """

    @abc.abstractmethod
    async def restart(self) -> None:
        """Have another process serve in place of the one that does.

        Raises:
            tests.lab.demo.errors.DemoError: it cannot be started.
        """
