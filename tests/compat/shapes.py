"""The types of backends, each as one case of the same life.

A case says what its group's spec is, what it needs in the cluster, and which questions a
driver is asked about each of its backends. Another type of backends is another case.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from tests.e2e import objects
from tests.e2e.stage import Stage


GENERATE, ENSURE, LEAVE = "generateBackendAddr", "ensureBackend", "deregisterBackend"

Work = Callable[[Stage], Awaitable[None]]


@attrs.frozen
class Shape:
    """One type of backends.

    Attributes:
        name: of the group, too.
        spec: what says which backends are meant.
        addresses: where they are.
        is_found: the driver finds the addresses.
        begin: makes what the backends are.
        end: takes away what they are, or takes them out of the group.
    """

    name: str
    spec: dict[str, Any]
    addresses: tuple[str, ...]
    is_found: bool
    begin: Work
    end: Work

    @property
    def asked(self) -> list[str]:
        """What a driver is asked about a backend that lives, changes once and ends."""
        return [*([GENERATE] if self.is_found else []), ENSURE, ENSURE, LEAVE]

    def group(self, balancer: str) -> dict[str, Any]:
        """Write the group, as LBCF's first documents do."""
        return {
            "metadata": {"name": f"{self.name}-{balancer}"},
            "spec": {"lbName": balancer, "parameters": {"weight": "1"}, **self.spec},
        }


async def _labelled(stage: Stage) -> None:
    """Add the pods that are meant by label."""
    await stage.add_pod("web-0", "10.1.0.1")
    await stage.add_pod("web-1", "10.1.0.2")


async def _labelled_gone(stage: Stage) -> None:
    """Delete them."""
    await stage.delete(objects.PODS, "web-0")
    await stage.delete(objects.PODS, "web-1")


async def _named(stage: Stage) -> None:
    """Add the pod that is meant by name."""
    await stage.add_pod("db-0", "10.1.0.9", app="db")


async def _named_gone(stage: Stage) -> None:
    """Delete it."""
    await stage.delete(objects.PODS, "db-0")


async def _nothing(_stage: Stage) -> None:
    """Static addresses need nothing."""


async def _static_gone(stage: Stage) -> None:
    """Delete the groups: that is how static addresses end."""
    for group in await stage.listed(objects.GROUPS):
        if group.meta.key.name.startswith("fixed-"):
            await stage.delete(objects.GROUPS, group.meta.key.name)


SHAPES = (
    Shape(
        "labelled",
        {
            "pods": {
                "port": {"portNumber": 80},
                "byLabel": {"selector": {"app": "web"}},
            }
        },
        ("10.1.0.1:80", "10.1.0.2:80"),
        is_found=True,
        begin=_labelled,
        end=_labelled_gone,
    ),
    Shape(
        "named",
        {
            "pods": {
                "ports": [{"portNumber": 5432, "protocol": "TCP"}],
                "byName": ["db-0"],
            }
        },
        ("10.1.0.9:5432",),
        is_found=True,
        begin=_named,
        end=_named_gone,
    ),
    Shape(
        "fixed",
        {"static": ["198.51.100.1:443"]},
        ("198.51.100.1:443",),
        is_found=False,
        begin=_nothing,
        end=_static_gone,
    ),
)
