"""Lets what the example of the quickstart may suffer come about, and asks `status`.

Each symptom is to be named by the first command that whoever is on call gives. What was
stopped runs again afterwards.
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


@attrs.define
class OnCall:
    """Somebody who asks `kubectl lbcf status` in the namespace of the example.

    Attributes:
        status: asks it; returns its answer as JSON.
        seconds: from the beginning of each symptom, by its name, to the end of the answer.
    """

    cluster: Cluster
    status: Callable[[], str]
    seconds: dict[str, float] = attrs.Factory(dict)

    def look(self) -> None:
        """Let everything come about, one thing after the other.

        Raises:
            KubectlError: a symptom is not named.
        """
        self._groups()
        self._members()
        self._stop("haproxy", "app=haproxy")
        self._is_told("lb", "DriverRefused", "cannot be reached", "kubectl lbcf why")
        self._start("haproxy", 1)
        self._is_told("lb", "MembersPutBack", "are registered again", "often?")
        self._stop(_DRIVER, f"app.kubernetes.io/name={_DRIVER}")
        self.cluster.kubectl(*SHOP, "delete", "bg/shy", "--wait=false")
        self._is_told("br", "DriverUnreachable", "is it running?", "abandon br/")
        self._stop(_DEREGISTRAR, "app.kubernetes.io/component=deregistrar")
        self._is_told("lease", "NoLeader", _DEREGISTRAR, "describe pods")
        self._mend()
        missing = {one.name for one in SYMPTOMS} - set(self.seconds)
        if missing:
            raise KubectlError(f"nobody has let come about: {missing}")

    def _groups(self) -> None:
        """Make each object, and see that those that nobody can serve are named."""
        for trouble in yaml.safe_load_all(TROUBLES):
            text, name = json.dumps(trouble), trouble["metadata"]["name"]
            self.cluster.kubectl("apply", "--server-side", "-f", "-", stdin=text)
            if name in _GROUPS:
                self._is_told(*_GROUPS[name])
                self.cluster.kubectl(*SHOP, "delete", f"bg/{name}", WAIT)

    def _members(self) -> None:
        """Take a member out, have one called DOWN, and have removals held."""
        shy = ("wait", "bg/shy", "--for=jsonpath={.status.registeredBackends}=2", WAIT)
        self.cluster.kubectl(*SHOP, *shy)
        first, second, *_ = self._records("web")
        name = f"web/lbcf-{first['metadata']['uid']}"
        self._haproxy(f"disable health {name}; set server {name} health down")
        self._is_told("br", "MemberDown", "it says DOWN", "health checks")
        name = f"web/lbcf-{second['metadata']['uid']}"
        self._haproxy(f"set server {name} state maint; del server {name}")
        self._is_told("lb", "MembersMissing", second["metadata"]["name"], "taken out")
        pods = self.cluster.kubectl(*SHOP, "get", "pods", "-l", "app=shy", "-o", "name")
        for pod in pods.split():
            program = "import os; os.remove('/tmp/ready')"
            python = ("--", "/usr/local/bin/python3", "-c", program)
            self.cluster.kubectl(*SHOP, "exec", pod, *python)
        self._is_told("bg", "TooManyUnready", "kubectl patch bg shy")

    def _records(self, group: str) -> list[dict[str, Any]]:
        """Return the records of a group once they are old enough to be called down."""
        label = f"lbcf.tkestack.io/backend-group={group}"
        listed = self.cluster.kubectl(*SHOP, "get", "br", "-l", label, "-o", "json")
        found: list[dict[str, Any]] = json.loads(listed)["items"]
        since = [
            datetime.fromisoformat(condition["lastTransitionTime"])
            for record in found
            for condition in record["status"]["conditions"]
            if condition["type"] == "Registered"
        ]
        rest = GRACE - (datetime.now(UTC) - max(since))
        time.sleep(max(rest, timedelta(0)).total_seconds())
        return found

    def _haproxy(self, line: str) -> None:
        """Tell HAProxy something, from where it may be reached."""
        python = ("--", "/usr/local/bin/python3", "-c", _RUNTIME.format(line))
        self.cluster.kubectl(*SYSTEM, "exec", f"deployment/{_DRIVER}", *python)

    def _stop(self, deployment: str, pods: str) -> None:
        """Take all pods of a Deployment away, and wait until none runs."""
        scale = ("scale", f"deployment/{deployment}", "--replicas=0")
        self.cluster.kubectl(*SYSTEM, *scale)
        gone = ("wait", "pods", "-l", pods, "--for=delete", WAIT)
        self.cluster.kubectl(*SYSTEM, *gone)

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

    def _is_told(self, subject: str, reason: str, *words: str) -> None:
        """Ask until a symptom is named, with its cause and what to do.

        Raises:
            KubectlError: it is not.
        """
        [symptom] = [s for s in SYMPTOMS if (s.subject, s.reason) == (subject, reason)]
        began = time.monotonic()
        answer: dict[str, list[Any]] = {"problems": [], "lately": []}
        while not is_named(answer["problems"] + answer["lately"], symptom, words):
            if time.monotonic() - began > PATIENCE:
                raise KubectlError(f"status does not name {reason}: {answer}")
            answer = json.loads(self.status())
        self.seconds[symptom.name] = time.monotonic() - began
        print(f"{self.seconds[symptom.name]:4.1f} s: {symptom.name}")
