"""Writes down all that happens, so that a failed request can be explained afterwards.

Pods, records and nodes are watched, the machine's load is read, and the output of each of
our pods is kept, also of those that are killed. `told_about` finds what a failure needs.
"""

import contextlib
import os
import subprocess
import threading
import time

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from tests.lab.cluster import Cluster


PODS = (
    "{{.type}} pod {{.object.metadata.name}} node={{.object.spec.nodeName}} "
    "ip={{.object.status.podIP}} {{.object.status.phase}} "
    "deleted={{.object.metadata.deletionTimestamp}}"
    '{{range .object.status.conditions}}{{if eq .type "Ready"}} ready={{.status}}'
    '{{end}}{{end}}{{"\\n"}}'
)
RECORDS = (
    "{{.type}} record lbcf-{{.object.metadata.uid}} "
    "pod={{.object.spec.podBackend.name}} deleted={{.object.metadata.deletionTimestamp}}"
    "{{range .object.status.conditions}} {{.type}}={{.status}}/{{.reason}}{{end}}"
    '{{"\\n"}}'
)
NODES = (
    "{{.type}} node {{.object.metadata.name}}"
    '{{range .object.status.conditions}}{{if eq .type "Ready"}} ready={{.status}}'
    '{{end}}{{end}}{{"\\n"}}'
)
WATCHED = {
    "pods -n shop": PODS,
    "pods -n lbcf-system": PODS,
    "backendrecords -n shop": RECORDS,
    "nodes": NODES,
}
LOAD_PERIOD = 5.0
AROUND = 5.0
"""Seconds before a request was sent, and after it had failed, that are told."""
SHOWN = 40


class Witness:
    """Watches a cluster until told to end.

    Attributes:
        ended: pods of ours that were seen to have ended, and when.

    Args:
        cluster: which one.
        folder: for what is seen.
        watched: what to list and watch, and the template of a line.
    """

    def __init__(
        self, cluster: Cluster, folder: Path, watched: Mapping[str, str] = WATCHED
    ) -> None:
        self._watched = watched
        self._cluster = cluster
        self._folder = folder
        self._story = (folder / "story.txt").open("w", buffering=1)
        self._lock = threading.Lock()
        self._children: list[subprocess.Popen[str]] = []
        self._readers: list[threading.Thread] = []
        self._endings: list[threading.Thread] = []
        self._followed: set[str] = set()
        self.ended: dict[str, datetime] = {}
        self._ended = threading.Event()

    def note(self, text: str) -> None:
        """Write down what happened just now."""
        with self._lock:
            if self._story.closed:
                return
            self._story.write(f"{time.monotonic():.3f} {text.strip()}\n")

    def start(self) -> None:
        """Begin to watch.

        Templates of Go: kubectl's jsonpath fails at the second event of a watch where
        it has a range (measured on 1.36).
        """
        for words, shown in self._watched.items():
            argv = ("get", *words.split(), "-w", "--output-watch-events", "-o")
            self._follow(*argv, f"go-template={shown}")
        self._readers.append(threading.Thread(target=self._read_load))
        self._readers[-1].start()

    def end(self) -> None:
        """Stop watching."""
        self._ended.set()
        self._kill()
        for reader in self._readers:
            reader.join()
        self._kill()  # what a reader has started last
        for ending in self._endings:
            ending.join()
        with self._lock:
            self._story.close()

    def _kill(self) -> None:
        """End all that kubectl is doing for us."""
        for child in self._children:
            child.kill()
            child.wait()

    def _follow(self, *argv: str) -> None:
        """Start a watch, and write down each of its lines."""
        child = self._start(*argv, stdout=subprocess.PIPE)
        self._readers.append(threading.Thread(target=self._read, args=(child,)))
        self._readers[-1].start()

    def _start(self, *argv: str, stdout: int) -> "subprocess.Popen[str]":
        """Start kubectl."""
        child = subprocess.Popen(
            self._cluster.command("kubectl", *argv),
            env=self._cluster.environment(),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._children.append(child)
        return child

    def _read(self, child: "subprocess.Popen[str]") -> None:
        """Write down what a watch says; keep the output of each pod of ours."""
        assert child.stdout is not None
        with child.stdout as lines:
            for line in lines:
                self.note(line)
                words = line.split()
                if words[1:2] == ["pod"] and words[2].startswith("lbcf-"):
                    self._keep_output(words[2], running="Running" in words)

    def _keep_output(self, pod: str, *, running: bool) -> None:
        """Copy what a pod writes, from its start to its end."""
        if not running or pod in self._followed or self._ended.is_set():
            return
        self._followed.add(pod)
        with (self._folder / f"{pod}.log").open("w") as kept:
            where = ("-n", "lbcf-system", "-f", pod)
            child = self._start("logs", *where, stdout=kept.fileno())
        ending = threading.Thread(target=self._await_end, args=(pod, child))
        self._endings.append(ending)
        ending.start()

    def _await_end(self, pod: str, child: "subprocess.Popen[str]") -> None:
        """Note when a pod has ended: what it writes comes to its end."""
        child.wait()
        if not self._ended.is_set():
            self.ended[pod] = datetime.now(UTC)

    def _read_load(self) -> None:
        """Write down how busy the machine is."""
        while not self._ended.wait(LOAD_PERIOD):
            self.note(f"machine load {os.getloadavg()[0]:.1f}")


@contextlib.contextmanager
def watching(cluster: Cluster, folder: Path) -> Iterator[Witness]:
    """Watch a cluster for the length of a block."""
    witness = Witness(cluster, folder)
    witness.start()
    try:
        yield witness
    finally:
        witness.end()


def told_about(story: str, member: str, sent: float, failed: float) -> list[str]:
    """Return the lines that tell what became of a member, and what was done meanwhile.

    Args:
        story: all lines.
        member: HAProxy's name of it, empty where nobody knows.
        sent: moment at which a request was sent.
        failed: moment at which it had failed.
    """
    lines = [(float(moment), text) for moment, _, text in _split(story)]
    pods = {
        word.removeprefix("pod=")
        for _, text in lines
        if member and member in text
        for word in text.split()
        if word.startswith("pod=")
    }
    names = {member, *pods} - {""}
    found = []
    for moment, text in lines:
        near = sent - AROUND <= moment <= failed + AROUND
        of_all = text.startswith(("act", "machine", "MODIFIED node"))
        if any(name in text for name in names) or (near and of_all):
            found.append(f"{moment - sent:+8.2f} s  {text}")
    return found[-SHOWN:]


def _split(story: str) -> list[tuple[str, str, str]]:
    """Split each line into its moment and its text."""
    return [line.partition(" ") for line in story.splitlines() if line]
