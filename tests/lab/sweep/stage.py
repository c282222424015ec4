"""Where plays are entered into the list of scenarios, and how most of them begin.

`run.play` starts both processes and a group `web` of pods with label app=web, drained
for 30 s at most where the driver can drain, before a play begins; afterwards it waits
until all is as the play left it, and stays so.
"""

import asyncio

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tests.lab.sweep.objects import SETTINGS, Setting
from tests.lab.sweep.run import Scenario, Script
from tests.lab.sweep.world import World


ONE = "10.0.0.1"
TWO = "10.0.0.2"

SCENARIOS: dict[str, Scenario] = {}
"""By name."""


def scenario(
    settings: Mapping[str, Setting] = SETTINGS,
    *,
    short: bool = False,
    settle: float = 900.0,
    quiet: float = 600.0,
    **changes: Any,
) -> Callable[[Script], Script]:
    """Enter a play into the list; its name is the function's, with dashes."""

    def enter(script: Script) -> Script:
        name = script.__name__.replace("_", "-")
        chosen = {
            key: attrs.evolve(setting, **changes) for key, setting in settings.items()
        }
        if name in SCENARIOS:
            raise ValueError(f"two scenarios are called {name}")
        SCENARIOS[name] = Scenario(name, script, chosen, short, settle, quiet)
        return script

    return enter


async def begin(world: World, *addresses: str, waits: bool = False) -> None:
    """Let both processes have read everything, and pods be registered."""
    await asyncio.sleep(1)
    for number, address in enumerate(addresses, 1):
        world.put_pod(f"web-{number}", address, waits=waits)
    if addresses:
        await asyncio.sleep(0.5)
        await world.calm()
