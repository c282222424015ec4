"""`python -m tests.lab.demo`: from the command line to an exit code.

0: no request failed and enough happened. 1: a request failed, too little happened or
the demo could not run. 2: wrong arguments. 130: interrupted. Whatever happens, the
cluster is stopped and every program ended; the folder with the logs stays only where
something failed, and its path is printed.
"""

import asyncio
import json
import shutil
import signal
import sys
import tempfile

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tests.lab.cluster import ClusterError
from tests.lab.demo.errors import DemoError
from tests.lab.demo.ground import (
    Ground,
    foreign_ground,
    guarded,
    own_ground,
    start_cluster,
)
from tests.lab.demo.journal import Journal
from tests.lab.demo.options import Options, parse
from tests.lab.demo.run import run
from tests.lab.demo.screen import Screen, summary
from tests.lab.demo.verdict import Verdict, render


INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; the exit code."""
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    folder = Path(tempfile.mkdtemp(prefix="lbcf-demo-"))
    console = Console(soft_wrap=True)
    verdict: Verdict | None = None
    code = 1
    try:
        verdict = perform(options, folder, Screen(console))
        code = 0 if verdict.succeeded else 1
    except* (DemoError, ClusterError) as group:
        for error in leaves(group):
            print(f"demo: {error}", file=sys.stderr)
    except* KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        put_away(folder, keep=options.keep or code == 1)
    if options.json and verdict is not None:
        print(json.dumps(render(verdict)), flush=True)
    return code


def perform(options: Options, folder: Path, screen: Screen) -> Verdict:
    """Start a cluster unless there is one, run the demo, and stop the cluster.

    Raises:
        DemoError: the demo cannot go on.
        ClusterError: the cluster cannot be started.
    """
    if options.foreign:
        return show(foreign_ground(folder, options), options, screen)
    screen.say(f"starting a cluster with {options.nodes} nodes")
    with guarded(folder):
        cluster = start_cluster(options, folder, screen.say)
        try:
            return show(own_ground(cluster, folder, options), options, screen)
        finally:
            # A second Ctrl-C must not leave a cluster behind.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            cluster.down()


def show(ground: Ground, options: Options, screen: Screen) -> Verdict:
    """Run the demo on this ground and say how it went.

    Raises:
        DemoError: the demo cannot go on.
    """
    with screen:
        verdict = asyncio.run(run(ground, options, screen, Journal()))
    for line in summary(verdict):
        screen.say(line)
    return verdict


def leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The exceptions themselves, out of groups in groups."""
    found: list[BaseException] = []
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            found += leaves(error)
        else:
            found.append(error)
    return found


def put_away(folder: Path, *, keep: bool) -> None:
    """Remove the run's folder, or tell where it is if there is anything in it."""
    if keep and any(folder.iterdir()):
        print(f"logs of all programs: {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
