"""Lets what the example of the quickstart may suffer come about, and asks `status`.

Each symptom is to be named by the first command that whoever is on call gives, 10 s after it
began. The clock starts with the command that brings it about, or where the cluster says since
when it is so. What was stopped runs again afterwards.
"""

import json
import time

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import yaml

from lbcf.core.lifecycle.in_service import GRACE
from tests.lab.cluster import Cluster
from tests.lab.cluster.errors import KubectlError
from tests.lab.installed.install import SYSTEM, WAIT
from tests.monitoring.symptoms import SYMPTOMS, is_named


TROUBLES = Path(__file__).with_suffix(".yaml").read_text()
SHOP = ("-n", "lbcf-example")
PATIENCE = 120.0
PROMISED = 10.0
"""Seconds from the beginning of a trouble until `status` names it, says docs/troubleshoot.md."""
STEPS = 5
"""Requests one after the other from a trouble to its name: the list of members, its answer,
the condition's write, the watch, the list of whoever asks."""
UNANSWERED = 10.0
"""Seconds, the time-out of a call: one on a kept connection to a pod that has gone is
answered by nobody, and until it is given up its record says DriverTimedOut or nothing."""
SECOND = 1.0
"""The API server cuts moments to whole seconds."""
_DRIVER = "lbcf-haproxy"
_DEREGISTRAR = "lbcf-deregistrar"
_GROUPS = {
    "idle": ("bg", "NothingSelected", "selector"),
    "stray": ("bg", "LoadBalancerNotFound", "missing", "create it"),
    "refused": ("br", "DriverRefused", "--allow-addresses", "mend"),
}
"""Groups that nobody can serve, and how that is named."""
_RUNTIME = (
    "import socket; s = socket.create_connection(('haproxy', 9999)); "
    "s.sendall(b'{}\\n'); print(s.makefile().read())"
)


@attrs.frozen
class Beginning:
    """When a trouble began, by the monotonic clock, in seconds.

    Attributes:
        earliest: not before.
        latest: not after.
    """

    earliest: float
    latest: float

    def is_overdue(self, asked: float, plain: float) -> bool:
        """Return whether an answer has to name the trouble.

        Args:
            asked: when it was asked for.
            plain: seconds that a plain `kubectl get` takes on this machine, now: each
                of the steps to an answer may have to wait for as long.
        """
        return asked > self.latest + PROMISED + STEPS * plain


@attrs.define
class OnCall:
    """Somebody who asks `kubectl lbcf status` in the namespace of the example.

    Attributes:
        status: asks it; returns its answer as JSON.
        seconds: from the beginning of each symptom, by its name, to the end of the answer.
        plain: the longest that a plain `kubectl get` took so far, in seconds.
        late: symptoms that an answer did not name which was asked for in time.
    """

    cluster: Cluster
    status: Callable[[], str]
    seconds: dict[str, float] = attrs.Factory(dict)
    plain: float = 0.0
    late: set[str] = attrs.Factory(set)

    def look(self) -> None:
        """Let everything come about, one thing after the other.

        Raises:
            KubectlError: a symptom is not named, or not in time.
        """
        self._groups()
        self._members()
        began = self._stop("haproxy", "app=haproxy")
        told = ("cannot be reached", "kubectl lbcf why")
        self._is_told(began, "lb", "DriverRefused", *told)
        self._start("haproxy", 1)
        began = self._runs_since("app=haproxy")
        self._is_told(began, "lb", "MembersPutBack", "are registered again", "often?")
        pods = f"app.kubernetes.io/name={_DRIVER}"
        self._stop(_DRIVER, pods)
        began = self._do(*SHOP, "delete", "bg/shy", "--wait=false")
        heard = attrs.evolve(began, latest=began.latest + UNANSWERED)
        told = ("is it running?", "abandon br/")
        self._is_told(heard, "br", "DriverUnreachable", *told)
        pods = "app.kubernetes.io/component=deregistrar"
        began = self._stop(_DEREGISTRAR, pods)
        self._is_told(began, "lease", "NoLeader", _DEREGISTRAR, "describe pods")
        self._mend()
        if self.late:
            raise KubectlError(
                f"not named {PROMISED:g} s and {STEPS} times the {self.plain:.1f} s of a plain "
                f"command after the beginning: {self.late}; all took {self.seconds}"
            )
        missing = {one.name for one in SYMPTOMS} - set(self.seconds)
        if missing:
            raise KubectlError(f"nobody has let come about: {missing}")

    def _groups(self) -> None:
        """Make each object, and see that those that nobody can serve are named."""
        for trouble in yaml.safe_load_all(TROUBLES):
            text, name = json.dumps(trouble), trouble["metadata"]["name"]
            began = self._do("apply", "--server-side", "-f", "-", stdin=text)
            if name in _GROUPS:
                self._is_told(began, *_GROUPS[name])
                self.cluster.kubectl(*SHOP, "delete", f"bg/{name}", WAIT)

    def _members(self) -> None:
        """Take a member out, have one called DOWN, and have removals held."""
        shy = ("wait", "bg/shy", "--for=jsonpath={.status.registeredBackends}=2", WAIT)
        self.cluster.kubectl(*SHOP, *shy)
        first, second, *_ = self._records("web")
        name = f"web/lbcf-{first['metadata']['uid']}"
        began = self._haproxy(f"disable health {name}; set server {name} health down")
        self._is_told(began, "br", "MemberDown", "it says DOWN", "health checks")
        name = f"web/lbcf-{second['metadata']['uid']}"
        began = self._haproxy(f"set server {name} state maint; del server {name}")
        told = (second["metadata"]["name"], "taken out")
        self._is_told(began, "lb", "MembersMissing", *told)
        pods = self.cluster.kubectl(*SHOP, "get", "pods", "-l", "app=shy", "-o", "name")
        for pod in pods.split():
            program = "import os; os.remove('/tmp/ready')"
            python = ("--", "/usr/local/bin/python3", "-c", program)
            self.cluster.kubectl(*SHOP, "exec", pod, *python)
        unready = ("wait", "pods", "-l", "app=shy", "--for=condition=Ready=false", WAIT)
        self.cluster.kubectl(*SHOP, *unready)
        began = self._unready_since("app=shy")
        self._is_told(began, "bg", "TooManyUnready", "kubectl patch bg shy")

    def _records(self, group: str) -> list[dict[str, Any]]:
        """Return the records of a group once they are old enough to be called down."""
        label = f"lbcf.tkestack.io/backend-group={group}"
        found = self._list(*SHOP, "get", "br", "-l", label)
        since = [
            datetime.fromisoformat(condition["lastTransitionTime"])
            for record in found
            for condition in record["status"]["conditions"]
            if condition["type"] == "Registered"
        ]
        rest = GRACE - (datetime.now(UTC) - max(since))
        time.sleep(max(rest, timedelta(0)).total_seconds())
        return found

    def _do(self, *words: str, stdin: str | None = None) -> Beginning:
        """Give a command by which a trouble begins."""
        earliest = time.monotonic()
        self.cluster.kubectl(*words, stdin=stdin)
        return Beginning(earliest, time.monotonic())

    def _haproxy(self, line: str) -> Beginning:
        """Tell HAProxy something, from where it may be reached."""
        python = ("--", "/usr/local/bin/python3", "-c", _RUNTIME.format(line))
        return self._do(*SYSTEM, "exec", f"deployment/{_DRIVER}", *python)

    def _stop(self, deployment: str, pods: str) -> Beginning:
        """Take all pods of a Deployment away, and wait until none runs.

        They are given a second for that, and HAProxy's pod took its whole grace period all
        the same: how long it answers meanwhile, nobody knows before it is gone.
        """
        scale = ("scale", f"deployment/{deployment}", "--replicas=0")
        # Pods may have gone meanwhile.
        flags = ("--now", "--wait=false", "--ignore-not-found")
        now = ("delete", "pods", "-l", pods, *flags)
        first = self._do(*SYSTEM, *scale)
        self.cluster.kubectl(*SYSTEM, *now)
        gone = self._do(*SYSTEM, "wait", "pods", "-l", pods, "--for=delete", WAIT)
        return Beginning(first.earliest, gone.latest)

    def _runs_since(self, pods: str) -> Beginning:
        """Return since when the one pod that is there to stay runs."""
        [one] = [
            pod
            for pod in self._list(*SYSTEM, "get", "pods", "-l", pods)
            if "deletionTimestamp" not in pod["metadata"]
        ]
        [container] = one["status"]["containerStatuses"]
        return _since(container["state"]["running"]["startedAt"])

    def _unready_since(self, pods: str) -> Beginning:
        """Return since when no pod is ready."""
        moments = [
            condition["lastTransitionTime"]
            for pod in self._list(*SHOP, "get", "pods", "-l", pods)
            for condition in pod["status"]["conditions"]
            if condition["type"] == "Ready"
        ]
        return _since(max(moments))

    def _list(self, *words: str) -> list[dict[str, Any]]:
        """Return the objects that kubectl lists."""
        found: dict[str, Any] = json.loads(self.cluster.kubectl(*words, "-o", "json"))
        return list(found["items"])

    def _start(self, deployment: str, replicas: int) -> None:
        """Have pods of a Deployment again, and wait until they are ready."""
        scale = ("scale", f"deployment/{deployment}", f"--replicas={replicas}")
        self.cluster.kubectl(*SYSTEM, *scale)
        status = ("rollout", "status", f"deployment/{deployment}", WAIT)
        self.cluster.kubectl(*SYSTEM, *status)

    def _mend(self) -> None:
        """Start what was stopped, and wait until all is well."""
        self._start(_DRIVER, 1)
        self._start(_DEREGISTRAR, 2)
        self.cluster.kubectl(*SHOP, "delete", "deployment/shy", WAIT)
        self.cluster.kubectl(*SHOP, "wait", "bg/shy", "--for=delete", WAIT)

    def _is_told(
        self, began: Beginning, subject: str, reason: str, *words: str
    ) -> None:
        """Ask until a symptom is named, with its cause and what to do.

        Raises:
            KubectlError: it is not.
        """
        [symptom] = [s for s in SYMPTOMS if (s.subject, s.reason) == (subject, reason)]
        asked = [time.monotonic()]
        answer: dict[str, list[Any]] = json.loads(self.status())
        while not is_named(answer["problems"] + answer["lately"], symptom, words):
            if asked[-1] - began.earliest > PATIENCE:
                raise KubectlError(f"status does not name {reason}: {answer}")
            asked.append(time.monotonic())
            answer = json.loads(self.status())
        self.seconds[symptom.name] = time.monotonic() - began.earliest
        self._time_a_plain_command()
        if any(began.is_overdue(moment, self.plain) for moment in asked[:-1]):
            self.late.add(symptom.name)
        print(
            f"{self.seconds[symptom.name]:4.1f} s ({began.latest - began.earliest:.1f} s "
            f"of these until it had begun for sure): {symptom.name}"
        )

    def _time_a_plain_command(self) -> None:
        """Measure how long this machine takes for next to nothing."""
        command = self._do("get", "namespace", "default")
        self.plain = max(self.plain, command.latest - command.earliest)


def _since(moment: str) -> Beginning:
    """Return a moment of the API server by the monotonic clock."""
    age = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    earliest = time.monotonic() - age
    return Beginning(earliest, earliest + SECOND)
