"""One record's whole life as the API server and its driver would have seen it.

For tests of the tape and its judge alone: a real one is made by `tests.lab.faults`.
"""

import copy

from datetime import timedelta
from typing import Any

from lbcf.core.model.names import API_VERSION, FINALIZER_RECORD
from lbcf.core.model.operations import Operation
from lbcf.core.reasons import Reason
from tests.e2e.objects import a_driver
from tests.fakes.clock import EPOCH
from tests.lab.model.tape import Json
from tests.lab.traced.audit import Body, Request
from tests.lab.traced.calls import Call
from tests.lab.traced.sendings import SPARE
from tests.lab.traced.tape import Run, a_tape


ADDRESS = "10.0.0.1:80"
UID = "u-1"
CONTROLLER = Run("A1", "controller", 0.0, None)
DEREGISTRAR = Run("B1", "deregistrar", 0.0, None)
WINDOW = 12.0
"""Seconds: the driver's time-out of 10 s, and 2 s for us."""
LATENCY = 0.01


def _time(at: float) -> str:
    """Write a whole second as the API server does."""
    return (EPOCH + timedelta(seconds=int(at))).strftime("%Y-%m-%dT%H:%M:%SZ")


class Story:
    """Collects requests and calls; `at` is the present.

    Args:
        member_key: of the driver.
        drain: seconds of the record's drain; 0: none.
    """

    def __init__(self, member_key: str = "Record", drain: int = 0) -> None:
        self.at = 100.0
        self.asked: list[Request] = []
        self.calls: list[Call] = []
        self.body: dict[str, Any] = {
            "apiVersion": API_VERSION,
            "kind": "BackendRecord",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": UID,
                         "resourceVersion": "10", "generation": 1,
                         "finalizers": [FINALIZER_RECORD]},
            "spec": {"lbName": "front", "lbDriver": "memory", "staticAddr": ADDRESS,
                     "lbInfo": {"name": "front"}, "backendAddr": ADDRESS},
        }  # fmt: skip
        if drain:
            self.body["spec"]["drain"] = {"timeout": f"{drain}s"}
        driver = a_driver("http://x", memberKey=member_key)
        meta = {"namespace": "shop", "uid": "u-d", "resourceVersion": "9"}
        driver["metadata"] |= meta
        self._ask("faults", "create", "loadbalancerdrivers", {}, driver)

    @property
    def _version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])

    def _ask(
        self,
        user: str,
        verb: str,
        resource: str,
        sent: Body,
        shown: Body,
        *,
        name: str = "web-1",
        code: int = 200,
    ) -> None:
        """Note a request; time goes on."""
        began = self.at
        self.at += LATENCY
        line = f"{verb}-{len(self.asked)}"
        self.asked.append(
            Request(line, user, f"lbcf ({user})", verb, resource, name, code, began,
                    self.at, sent, copy.deepcopy(shown))
        )  # fmt: skip
        self.at += LATENCY

    def _changed(self, user: str, verb: str, resource: str, sent: Body) -> None:
        """Note a write that made a new version."""
        meta = {"uid": UID, "resourceVersion": self._version}
        given = sent.get("metadata", {})
        named = {"metadata": {**(given if isinstance(given, dict) else {}), **meta}}
        self.body["metadata"]["resourceVersion"] = str(int(self._version) + 1)
        self._ask(user, verb, resource, {**sent, **named}, self.body)

    def create(self) -> None:
        """Let the controller create it."""
        self._ask("A1", "create", "backendrecords", {}, self.body)

    def read(self, user: str) -> None:
        """Let it be read."""
        self._ask(user, "get", "backendrecords", {}, self.body)

    def read_lock(self, user: str) -> None:
        """Let the lock on its address be read."""
        spec = {"holderIdentity": f"shop/web-1/{UID}", "leaseDurationSeconds": 20}
        shown = {"metadata": {"resourceVersion": "8"}, "spec": spec}
        self._ask(user, "get", "leases", {}, shown, name="addr-1")

    def call(
        self,
        op: str,
        agent: str,
        outcome: str = "succeeded",
        *,
        drained: bool = False,
        after: float = 0.0,
    ) -> None:
        """Let the driver be called, by what has just been read or written."""
        permitted = after or self.asked[-1].began
        began = self.at
        until = min(permitted + WINDOW, began + WINDOW - SPARE)
        self.at += LATENCY
        self.calls.append(
            Call(op, UID, agent, ADDRESS, until, drained, began, self.at,
                 outcome, heard=True)
        )  # fmt: skip
        self.at += LATENCY

    def register(
        self, status: str = "True", mark: str = "", why: tuple[str, str] = ("", "")
    ) -> None:
        """Write whether it is registered, or why not, and who may have an ensure out."""
        reason, message = why
        told = {"type": "Registered", "status": status, "reason": reason or "Registered",
                "message": message, "observedGeneration": 1,
                "lastTransitionTime": _time(self.at)}  # fmt: skip
        written = {"conditions": [told], **({"ensuring": mark} if mark else {})}
        self.body["status"] = written
        sent = {"status": written}
        self._changed("A1", "patch", "backendrecords/status", sent)

    def delete(self) -> None:
        """Let the controller delete it."""
        self.body["metadata"]["deletionTimestamp"] = _time(self.at)
        self.body["metadata"]["deletionGracePeriodSeconds"] = 0
        self.body["metadata"]["generation"] += 1  # as the API server does
        self._changed("A1", "delete", "backendrecords", {})

    def conflict(self, version: str) -> None:
        """Refuse a mark that the controller writes over an older version."""
        meta = {"uid": UID, "resourceVersion": version}
        sent = {"metadata": meta, "status": {"ensuring": "*"}}
        self._ask("A1", "patch", "backendrecords/status", sent, {}, code=409)

    def write_drain(self, ends: float, began: float) -> None:
        """Write the clock of a drain down."""
        clock = {"startedAt": _time(began), "deadline": _time(ends)}
        self.body["status"]["drain"] = clock
        sent = {"status": {"drain": clock}}
        self._changed("B1", "patch", "backendrecords/status", sent)

    def release(self) -> None:
        """Take the finalizer off."""
        version = self._version
        shown = copy.deepcopy(self.body)
        shown["metadata"]["finalizers"] = []
        meta = {"uid": UID, "resourceVersion": version, "finalizers": []}
        self._ask("B1", "patch", "backendrecords", {"metadata": meta}, shown)

    def tape(self) -> Json:
        """Return the tape."""
        runs = (CONTROLLER, DEREGISTRAR)
        return a_tape(self.asked, self.calls, runs, self.at)


def _registered(drain: int) -> Story:
    """Tell of a record that is registered, and deleted."""
    story = Story(drain=drain)
    story.create()
    story.call("ensure", "A1")
    story.register()
    story.at += 5.0
    story.delete()
    return story


def a_life() -> Story:
    """Tell of a record that is not to be drained."""
    story = _registered(0)
    story.call("deregister", "B1")
    story.release()
    return story


def a_drained_life() -> Story:
    """Tell of one whose last session ends while it is drained."""
    story = _registered(30)
    deleted = story.asked[-1].began
    story.call("drain", "B1", "running")
    story.at += 1.0
    story.call("drain", "B1", after=story.at - LATENCY)
    story.call("deregister", "B1", drained=True, after=max(deleted, story.at - LATENCY))
    story.release()
    return story


def a_life_beside_another() -> Story:
    """Tell of one whose lock is read for another record while its own ensure is out."""
    story = Story()
    story.create()
    story.call("ensure", "A1")
    story.at = story.calls[-1].began + LATENCY / 2
    story.read_lock("A1")
    story.register()
    story.delete()
    story.call("deregister", "B1")
    story.release()
    return story


def a_long_drain(short: float = 0.0) -> Story:
    """Tell of one whose sessions outlast the drain, or its end that comes too early."""
    story = _registered(30)
    story.call("drain", "B1", "running")
    began = story.at
    story.write_drain(int(began) + 31, began)
    story.at = began + 30.05 - short
    story.read("B1")
    story.call("deregister", "B1")
    story.release()
    return story


def a_call_overtaken() -> Story:
    """Tell of an ensure that is given up, and comes in when its sender knows better."""
    story = Story()
    story.create()
    created = story.asked[-1].began
    story.at += 5.0
    version = story.body["metadata"]["resourceVersion"]
    story.delete()
    story.at += 5.0
    story.conflict(version)
    story.call("ensure", "A1", after=created)
    story.calls[-1].heard = False
    return story


def a_poll_unheard() -> Story:
    """Tell of an ensure whose `Running` is lost within its sender, which leaves its mark."""
    story = Story()
    story.create()
    story.call("ensure", "A1", "running")
    story.register("False", "A1")
    story.at += 1.0
    story.read("A1")
    story.call("ensure", "A1")
    story.register(mark="A1")
    story.at += 5.0
    story.delete()
    story.at += 3 * WINDOW
    story.read("B1")
    story.call("deregister", "B1")
    story.release()
    return story


def a_call_cut_off(reason: Reason) -> Story:
    """Tell of an ensure that reaches a driver which is killed before it notes that."""
    story = Story()
    story.create()
    message = f"driver shop/memory at {Operation.ENSURE_BACKEND}: no answer"
    story.register("False", "A1", (reason, message))
    story.at += 1.0
    story.read("A1")
    story.call("ensure", "A1")
    story.register(mark="A1")
    return story
