"""A process that loses its Lease again and again waits before it begins anew, and ends when asked.

Aspects: how long, that nothing is read meanwhile, signals that come while it ends.
"""

import asyncio
import signal
import subprocess
import sys

from datetime import timedelta
from pathlib import Path

import attrs
import pytest

from lbcf.kube.client import KubeClient
from lbcf.process import Losses
from lbcf.process.dependencies import build_dependencies
from lbcf.process.host import Host
from lbcf.process.losses import LONGEST, SOON
from lbcf.runtime.flags import BindAddress
from lbcf.settings import Settings
from tests.fakes.clock import VirtualClock
from tests.kube.tiny_api import TinyApi
from tests.monitoring.registries import NOWHERE
from tests.process.test_shard_names import Waiter


ROOT = Path(__file__).parents[2]

# A process whose work ends as if its Lease were lost, and that is asked to end just then.
CHILD = """
import asyncio, contextlib, os, sys
from pathlib import Path
from lbcf import cli
from lbcf.kube.leader_election import LeadershipLostError
from lbcf.runtime import spans
from lbcf.runtime.flags import BindAddress
from lbcf.settings import Settings

where, [number, kubeconfig] = sys.argv[1], sys.argv[2:]

def terminate():
    print("asked", flush=True)
    os.kill(os.getpid(), int(number))

class Program:
    informers, ready = (), {}

    def __init__(self):
        self.itself = self  # freed with the whole run alone

    def __del__(self):
        if where == "while the run is freed":
            terminate()

    @contextlib.asynccontextmanager
    async def beside(self):
        try:
            yield
        finally:
            if where == "in the end":
                terminate()
                await asyncio.sleep(0.1)  # the loop hears of it

    async def work(self, stop, predecessor=None, /):
        raise LeadershipLostError("lost")

runs = []

def build(parts):
    if runs:
        print("began anew", flush=True)
        os._exit(3)
    runs.append(parts)
    return Program()

nowhere = BindAddress("127.0.0.1", 0)
settings = Settings("controller", leader_elect=False, probes=nowhere, metrics=nowhere,
                    kubeconfig=Path(kubeconfig))
if where == "between two runs":
    class Losses(cli.Losses):
        def pause_after(self):
            terminate()
            return super().pause_after()
    cli.Losses = Losses
if where == "while the loop stands still":
    @contextlib.contextmanager
    def export_spans(*_):
        try:
            yield
        finally:
            terminate()  # a collector hangs: this is the last step, and waits for it
    spans.export_spans = export_spans
status = cli._run_again_and_again(settings, build, cli.idle)
print("ended", flush=True)
sys.exit(status)
"""
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
users: [{name: u, user: {}}]
"""


def test_pauses_grow_while_losses_follow_one_another() -> None:
    """None after the first loss; each is spread over the upper half of its bound."""
    clock = VirtualClock()
    clock.advance(SOON * 2)
    losses = Losses(clock)

    pauses = []
    for _ in range(8):
        pauses.append(losses.pause_after())
        clock.advance(pauses[-1] + timedelta(seconds=10))

    assert timedelta(0) == pauses[0]
    for number, pause in enumerate(pauses[1:], start=1):
        most = min(LONGEST, timedelta(seconds=2**number))
        assert most / 2 <= pause <= most

    clock.advance(SOON)
    assert timedelta(0) == losses.pause_after()


async def test_nothing_is_asked_for_in_the_pause() -> None:
    """Not even for the Lease; and who is to end ends then."""
    nowhere = BindAddress("127.0.0.1", 0)
    settings = Settings("deregistrar", shards=2, probes=nowhere, metrics=nowhere)
    api, asked = TinyApi(), asyncio.Event()
    async with build_dependencies(settings, NOWHERE) as parts:
        mine = attrs.evolve(parts, elections=KubeClient(api))
        host = Host(mine, lambda _parts: Waiter(), asked, timedelta(hours=1))
        running = asyncio.create_task(host.run())
        for _ in range(100):
            await asyncio.sleep(0)
        asked.set()
        assert 0 == await running

    assert [] == api.requests


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "where",
    [
        "in the end",
        "while the loop stands still",
        "between two runs",
        "while the run is freed",
    ],
)
def test_signal_is_heard_whenever_it_comes(
    where: str, number: signal.Signals, tmp_path: Path
) -> None:
    """The process does not begin anew."""
    config = tmp_path / "kubeconfig"
    config.write_text(KUBECONFIG)

    done = subprocess.run(
        [sys.executable, "-c", CHILD, where, str(number.value), str(config)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert (1, "asked\nended\n") == (done.returncode, done.stdout)
