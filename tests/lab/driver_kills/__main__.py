"""Kills the driver again and again, and prints what that cost."""

import argparse
import asyncio
import sys
import tempfile

from contextlib import AsyncExitStack
from pathlib import Path

from tests.envoy.kills import Losses, killed
from tests.envoy.stage import Stage
from tests.haproxy.web import WebServer


async def measured(kills: int, members: int, folder: Path) -> Losses:
    """Kill, and return what it cost."""
    async with Stage.running(folder / "state") as stage, AsyncExitStack() as stack:
        envoy = await stage.envoy()
        servers = [
            await stack.enter_async_context(WebServer.running(f"s{n}", "127.0.1.1"))
            for n in range(members + 1)
        ]
        losses = await killed(stage, envoy, servers, kills)
        left = await envoy.members(stage.listen)
        losses.lost += members - len(left)
        return losses


def main() -> int:
    """Read the command line, run and report."""
    parser = argparse.ArgumentParser(prog="tests.lab.driver_kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--members", type=int, default=8)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lbcf-kills-") as folder:
        losses = asyncio.run(measured(flags.kills, flags.members, Path(folder)))
    traffic = losses.traffic
    print(
        f"{losses.kills} kills: {sum(traffic.answers.values())} requests, "
        f"{traffic.failed} failed; {losses.looks} looks at the members, "
        f"{losses.lost} with one missing"
    )
    print(dict(traffic.answers))
    return 1 if traffic.failed or losses.lost else 0


if __name__ == "__main__":
    sys.exit(main())
