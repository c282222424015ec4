"""Draws the dashboard's picture, with what a real Prometheus saw of real processes.

`make pictures`, or `python -m tests.monitoring.picture`, plays `scene` on a control
plane, asks what Grafana would ask, and writes docs/pictures/dashboard.svg. It fails if
a query is refused, or if a panel has nothing to show.
"""

import asyncio
import shutil
import sys
import tempfile
import time

from pathlib import Path
from typing import Final

from tests.lab.cluster.fixtures import running
from tests.manifests.documents import CRDS
from tests.monitoring.answers import Answered, answered
from tests.monitoring.drawing import Picture
from tests.monitoring.scene import Event, a_scene
from tests.monitoring.server import Span, scraping


PICTURE: Final = Path("docs/pictures/dashboard.svg")
NAMESPACE: Final = "shop"
INTERVAL: Final = 4.0
"""Seconds between two scrapes."""
RATE: Final = 4 * INTERVAL
"""Seconds that a rate looks back, as Grafana chooses it: four scrapes."""


async def capture(folder: Path) -> tuple[list[Answered], Span, list[Event]]:
    """Play the scene; returns all panels, the time they cover, and what happened."""
    with running(0) as cluster:
        cluster.kubectl("apply", "-f", CRDS)
        cluster.kubectl("wait", "--for=condition=Established", "-f", CRDS)
        cluster.kubectl("create", "namespace", NAMESPACE)
        async with (
            a_scene(cluster, NAMESPACE, folder) as scene,
            scraping(folder, scene.targets, INTERVAL) as prometheus,
        ):
            await prometheus.until_scraped()
            begin = time.time()
            await scene.play()
            span = Span(begin, time.time(), INTERVAL, RATE)
            return await answered(prometheus, span), span, scene.events


def main() -> int:
    """Write the picture; returns the exit status."""
    folder = Path(tempfile.mkdtemp(prefix="lbcf-picture-"))
    shown, span, events = asyncio.run(capture(folder))
    if empty := [one.title for one in shown if one.is_empty]:
        print(f"nothing to draw in {', '.join(empty)}; logs: {folder}", file=sys.stderr)
        return 1
    Picture(shown, span, events).save(PICTURE)
    shutil.rmtree(folder)
    print(f"{PICTURE}: {PICTURE.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
