"""Captures what the page on `kubectl lbcf` shows: real commands on a real API server.

`make pictures`, or `python -m tests.docs.pictures`, plays the scene and writes what was
printed into docs/kubectl.md, between its marks. A test plays the same scene and compares
shapes: names, ages and moments differ from run to run, all else does not.
"""

import asyncio
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

from pathlib import Path
from typing import Final

from tests.e2e import objects
from tests.e2e.stage import Stage, staged
from tests.lab.cluster.fixtures import running
from tests.manifests.documents import CRDS


PAGE: Final = Path(__file__).parents[2] / "docs" / "kubectl.md"
NAMESPACE: Final = "shop"
ADDRESSES: Final = {
    "web-6f7d8c-2xkqp": "10.0.0.11",
    "web-6f7d8c-9hr4t": "10.0.0.12",
    "web-6f7d8c-pz7mv": "10.0.0.13",
}
"""Pods that are registered in the beginning; the first one is drained then."""
GONE: Final = "web-5b9d7c-qv8zl"
UNREADY: Final = "web-6f7d8c-m4x2s"
REFUSED: Final = "web-7b9c5d-x8w6j"
TIMED: Final = (
    *("status", f"why pod/{REFUSED}", "why bg/web", "why driver/memory"),
    *("drains", "plan bg/web"),
)
"""Commands whose answers are timed for the page; no test asserts a time."""

_INSIDE: Final = 2
_MARK: Final = "<!-- captured: {} -->\n```console\n"
_END: Final = "```\n<!-- end -->"
_BLOCK: Final = f"{_MARK}.*?{_END}"
_FIGURES: Final = r"(<!-- measured: begin -->\n).*?(\n<!-- measured: end -->)"
_RUNS: Final = 9
_HIDDEN: Final = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
    (r"\d\d:\d\d:\d\d UTC", "TIME"),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
    (r"-[0-9a-f]{12}\b", "-HASH"),
    (r"127\.0\.0\.1:\d+", "HERE"),
    (r"Resource Version: +\d+", "VERSION"),
    (r"\b(\d+[dhms])+\b", "AGE"),
    (r"in AGE|with pauses of up to AGE", "SOON"),
    (r"(?s)\nEvents: .*", ""),  # they are told seconds later
    (
        r"(?s)\n(NAMESPACE +)?LEASE .*",
        "",
    ),  # other stages on the control plane have some
    (r" +", " "),
)


async def play(stage: Stage) -> dict[str, str]:
    """Play the scene; returns what each command printed.

    The stage's processes run. One pod has left, and was cut; one is drained, one is
    refused by its driver, one is not ready; in the end nobody decides any more, and there
    is something to decide.
    """
    # What is on its way in when the first epoch is read may be ensured twice.
    await stage.until_epoch()
    await _have_one_cut(stage)
    await _set_drain(stage, 300)
    for name, address in ADDRESSES.items():
        await stage.add_pod(name, address)
    await stage.add_pod(UNREADY, "10.0.0.14", ready=False)
    await stage.until_registered(*(f"{a}:80" for a in ADDRESSES.values()))
    await stage.behave("ensureBackend", "fail", times=1000, msg="the pool is full")
    await stage.add_pod(REFUSED, "10.0.0.15")
    leaving, address = next(iter(ADDRESSES.items()))
    await stage.control("sessions", backendAddr=f"{address}:80", sessions=4)
    await stage.terminate_pod(leaving)
    refused = await stage.until_reason("Registered", "DriverRefused")
    await stage.until_reason("Drained", "Draining")
    await stage.until("the group counts them", lambda: _is_counted(stage))
    record = f"br/{refused.meta.key.name}"
    shown = {
        "get": await _run(stage, "kubectl get bg,lb,br"),
        "describe": await _run(stage, f"kubectl describe {record}"),
        "status": await _run(stage, "kubectl lbcf status"),
        "why": await _run(stage, f"kubectl lbcf why pod/{REFUSED}"),
        "gone": await _run(stage, f"kubectl lbcf why pod/{GONE}"),
        "unready": await _run(stage, f"kubectl lbcf why pod/{UNREADY}"),
        "driver": await _run(stage, "kubectl lbcf why driver/memory"),
        "drains": await _run(stage, "kubectl lbcf drains"),
    }
    await stage.processes["controller"].end()
    await stage.set_pod(UNREADY, "10.0.0.14", ready=True)
    await stage.delete(objects.PODS, "web-6f7d8c-9hr4t")
    return {**shown, "plan": await _run(stage, "kubectl lbcf plan bg/web")}


async def _have_one_cut(stage: Stage) -> None:
    """Let a pod come and go whose connections outlast its drain."""
    await _set_drain(stage, 2)
    await stage.add_pod(GONE, "10.0.0.10")
    await stage.until_registered("10.0.0.10:80")
    await stage.control("sessions", backendAddr="10.0.0.10:80", sessions=3)
    await stage.terminate_pod(GONE)
    await stage.until_registered()
    await stage.let_pod_go(GONE)

    async def remembered() -> bool:
        group = await stage.get(objects.GROUPS, "web")
        return group is not None and "departed" in group.status

    await stage.until("the group remembers it", remembered)


async def _set_drain(stage: Stage, seconds: int) -> None:
    """Change for how long the group drains; records are written with it from then on.

    Who writes them may hear of a pod before it hears of the group, and would register the
    pod once more.
    """
    drain = {"timeoutSeconds": seconds}
    await stage.patch(objects.GROUPS, "web", {"spec": {"drain": drain}})

    async def is_read() -> bool:
        group = await stage.get(objects.GROUPS, "web")
        assert group is not None
        return bool(group.status.get("observedGeneration") == group.meta.generation)

    await stage.until("the controller has read the group", is_read)


async def _is_counted(stage: Stage) -> bool:
    """Whether the group and its load balancer tell of all that the scene has."""
    found = await stage.get(objects.GROUPS, "web")
    balancer = await stage.get(objects.LOAD_BALANCERS, "front")
    assert found is not None
    assert balancer is not None
    if balancer.status.get("backends") != _INSIDE:
        return False
    status = found.status
    counts = (
        "backends",
        "registeredBackends",
        "inService",
        "draining",
        "observedGeneration",
    )
    seen = tuple(status.get(name) for name in counts)
    return seen == (4, _INSIDE, _INSIDE, 1, found.meta.generation)


async def _run(stage: Stage, line: str) -> str:
    """Run a command line as a person does; returns it with its output."""
    words = [*line.split(), "-n", stage.namespace]
    environment = stage.cluster.environment()
    own = Path(sys.executable).parent
    done = await asyncio.to_thread(
        subprocess.run,
        words,
        env={**environment, "PATH": f"{own}:{environment['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    told = done.stdout.replace(stage.namespace, NAMESPACE)
    shown = "\n".join(part.rstrip() for part in told.splitlines())
    return f"$ {line}\n{shown.replace(f'{platform.node()}_', 'host_')}\n"


def shape(text: str) -> list[str]:
    """Return the lines of an output without what differs from run to run."""
    for pattern, instead in _HIDDEN:
        text = re.sub(pattern, instead, text)
    return [line.strip() for line in text.splitlines()]


def on_page(name: str, page: str) -> str:
    """Return what the page shows under a name."""
    found = re.search(_BLOCK.format(name), page, re.DOTALL)
    assert found is not None, f"no block `captured: {name}` in {PAGE}"
    return found[0].removeprefix(_MARK.format(name)).removesuffix(_END)


async def _measured(stage: Stage) -> str:
    """Say how long answers take, from the shell and back, in the middle of many."""
    told = []
    for line in TIMED:
        spans = []
        for _ in range(_RUNS):
            began = time.monotonic()
            await _run(stage, f"kubectl lbcf {line}")
            spans.append(time.monotonic() - began)
        told.append(f"`{line}` {statistics.median(spans):.2f} s")
    return f"{', '.join(told)}."


async def _capture() -> None:
    """Bring everything up, play, and write the page."""
    folder = Path(tempfile.mkdtemp(prefix="lbcf-pictures-"))
    with running(0) as cluster:
        cluster.kubectl("apply", "-f", CRDS)
        cluster.kubectl("wait", "--for=condition=Established", "-f", CRDS)
        cluster.kubectl("create", "namespace", NAMESPACE)
        async with staged(cluster, NAMESPACE, folder) as stage:
            await stage.start_driver()
            await stage.start("controller")
            await stage.start("deregistrar")
            await stage.setting()
            shown = await play(stage)
            measured = await _measured(stage)
    page = PAGE.read_text("utf-8")
    page = re.sub(_FIGURES, f"\\g<1>{measured}\\g<2>", page, flags=re.DOTALL)
    for name, text in shown.items():
        before, after = re.split(_BLOCK.format(name), page, maxsplit=1, flags=re.DOTALL)
        page = f"{before}{_MARK.format(name)}{text}{_END}{after}"
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    asyncio.run(_capture())
