"""What installed processes did is held against the model, step by step.

The API server's audit log has what they asked for and wrote. What reached the driver it
notes itself, in what it writes to its standard output: its pod runs it by a program that a
ConfigMap has, since no image of ours has tests in it.
"""

import json

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.lab.cluster import Cluster
from tests.lab.cluster.errors import ClusterError
from tests.lab.installed import install
from tests.lab.installed.witness import Witness
from tests.lab.traced.audit import requests
from tests.lab.traced.calls import Call
from tests.lab.traced.judge import Verdict, judge
from tests.lab.traced.moments import second
from tests.lab.traced.recording import STDOUT, noted
from tests.lab.traced.runs import events, named
from tests.lab.traced.tape import Run, a_tape, strangers


TAPE = "tape.json"
"""All that was judged, in the run's folder: `python -m tests.lab.traced` judges it again."""
PROGRAM: Final = (
    "tests/fakes/clock.py",
    "tests/lab/__init__.py",
    "tests/lab/traced/__init__.py",
    "tests/lab/traced/calls.py",
    "tests/lab/traced/moments.py",
    "tests/lab/traced/recording.py",
)
"""What notes calls needs, beside what the driver's image has."""
_RECORDS = ("shop", "kube-system", "lbcf-system")
"""Where the records are, their driver, and the Leases."""
_DRIVER = "lbcf-haproxy"
_NAME = "noting"
_PLACE = "/noting"
_ROLES = ("controller", "deregistrar")


def write_overlay(folder: Path, tag: str = "") -> Path:
    """Write an operator's overlay whose driver notes its calls.

    Args:
        folder: where it goes.
        tag: of the images; where unsaid, that of the manifests.
    """
    return install.write_overlay(
        folder, tag, patches=[_noting()], beside=[_config_map()]
    )


def _config_map() -> dict[str, Any]:
    """Make what the driver's pod is to run."""
    read = {_key(name): (install.ROOT / name).read_text() for name in PROGRAM}
    meta = {"name": _NAME, "namespace": "lbcf-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": read}


def _key(name: str) -> str:
    return name.replace("/", ".")


def _noting() -> dict[str, Any]:
    """Make the patch by which the driver is run so; its flags stay."""
    words = ["-m", "tests.lab.traced.recording", STDOUT, "webhooks.haproxy"]
    container = {
        "name": "driver",
        "command": ["/usr/local/bin/python3", *words],
        "env": [{"name": "PYTHONPATH", "value": _PLACE}],
        "volumeMounts": [{"name": _NAME, "mountPath": _PLACE, "readOnly": True}],
    }
    items = [{"key": _key(name), "path": name} for name in PROGRAM]
    volume = {"name": _NAME, "configMap": {"name": _NAME, "items": items}}
    patch = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": _DRIVER, "namespace": "lbcf-system"},
        "spec": {
            "template": {"spec": {"containers": [container], "volumes": [volume]}}
        },
    }
    return {"patch": json.dumps(patch)}


def follow(cluster: Cluster, folder: Path, witness: Witness) -> Verdict:
    """Judge all that was done to records; keep the tape in the run's folder.

    Args:
        cluster: whose audit log has bodies.
        folder: has the output of each of our pods.
        witness: knows when they ended.

    Raises:
        ClusterError: a process asked for something whose output was not kept.
    """
    until = second(datetime.now(UTC))
    asked = list(requests(cluster.audit_log, 0, _RECORDS))
    runs, calls = list(_runs(folder, witness.ended)), list(_calls(folder))
    if unknown := strangers(asked, calls, runs):
        raise ClusterError(f"nothing that these processes wrote was kept: {unknown}")
    tape = a_tape(asked, calls, runs, until)
    (folder / TAPE).write_text(json.dumps(tape))
    return judge(tape)


def _runs(folder: Path, ended: Mapping[str, datetime]) -> Iterator[Run]:
    """Tell of all runs of our processes, by what their pods have written."""
    for role in _ROLES:
        for log in sorted(folder.glob(f"lbcf-{role}-*.log")):
            end = ended.get(log.stem)
            told = list(events(log.read_text()))
            yield from named(role, told, None if end is None else second(end))


def _calls(folder: Path) -> Iterator[Call]:
    """Tell of all calls, by what the driver's pods have written."""
    for log in sorted(folder.glob(f"{_DRIVER}-*.log")):
        yield from noted(log.read_text().splitlines())
