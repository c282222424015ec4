"""`uninstall` by the real kubectl, before an API server that has little, and others at work."""

import json

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest

from lbcf.ctl.uninstall.kubectl import LOGIN
from lbcf.ctl.uninstall.removal import ADMISSION, MUTATING, OURS, remove_gates
from lbcf.ctl.uninstall.services import FINALIZER, MARK


VERSION = f"{ADMISSION}/v1beta1"
POLICIES = f"/apis/{VERSION}/{MUTATING[1]}"
SERVICE = "/api/v1/namespaces/shop/services/exposed"
THEIRS = "example.com/theirs"


class Server(ThreadingHTTPServer):
    """An API server.

    Attributes:
        objects: by path.
        deleted: paths.
        meanwhile: what somebody else does after the Services were listed, once.
    """

    objects: dict[str, Any]
    deleted: list[str]
    meanwhile: str = ""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Carry a request out."""
        path = path.partition("?")[0].removesuffix("/status")
        if path.startswith("/apis/metrics.k8s.io"):
            return 503, _failure("ServiceUnavailable")
        if path == "/api/v1/services" or path == SERVICE.rpartition("/")[0]:
            listed = [self.objects[SERVICE]] if SERVICE in self.objects else []
            answer = json.loads(json.dumps({"kind": "ServiceList", "items": listed}))
            self._change()
            return 200, {"apiVersion": "v1", **answer}
        found = self.objects.get(path)
        if found is None:
            return 404, _failure("NotFound")
        if method == "DELETE":
            self.deleted.append(path)
            del self.objects[path]
        if method == "PATCH":
            meta, told = found["metadata"], body.get("metadata", {})
            if told.get("resourceVersion", "") not in ("", meta["resourceVersion"]):
                return 409, _failure("Conflict")
            meta["finalizers"] = told.get("finalizers", meta["finalizers"])
            if "annotations" in told:
                meta["annotations"] = {}
            self._touch()
        return 200, found

    def _change(self) -> None:
        """Have somebody else change the Service, or delete it."""
        if self.meanwhile == "delete":
            del self.objects[SERVICE]
        elif self.meanwhile:
            self.objects[SERVICE]["metadata"]["finalizers"].append(self.meanwhile)
            self._touch()
        self.meanwhile = ""

    def _touch(self) -> None:
        meta = self.objects[SERVICE]["metadata"]
        meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)


class Handler(BaseHTTPRequestHandler):
    """Answers in JSON."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size) or b"{}")
        server = cast("Server", self.server)
        status, whole = server.answer(self.command, self.path, body)
        content = json.dumps(whole).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PATCH = do_DELETE = _answer  # noqa: N815 - so http.server finds them


def _failure(reason: str) -> dict[str, Any]:
    code = {"NotFound": 404, "Conflict": 409, "ServiceUnavailable": 503}[reason]
    told = {"status": "Failure", "reason": reason, "code": code, "message": reason}
    return {"kind": "Status", "apiVersion": "v1", **told}


def _group(name: str, version: str) -> dict[str, Any]:
    one = {"groupVersion": f"{name}/{version}", "version": version}
    return {
        "kind": "APIGroup",
        "name": name,
        "versions": [one],
        "preferredVersion": one,
    }


def _kinds(version: str, kind: str, *names: str, namespaced: bool) -> dict[str, Any]:
    verbs = ["get", "list", "patch", "delete"]
    about = {"kind": kind, "singularName": "", "namespaced": namespaced, "verbs": verbs}
    listed = [{"name": name, **about} for name in names]
    return {"kind": "APIResourceList", "groupVersion": version, "resources": listed}


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Iterator[Server]:
    """One whose metrics server is down."""
    groups = [_group(ADMISSION, "v1beta1"), _group("metrics.k8s.io", "v1beta1")]
    policy = {
        "apiVersion": VERSION,
        "kind": "MutatingAdmissionPolicy",
        "metadata": {
            "name": "lbcf-gate",
            "uid": "u",
            "labels": dict([OURS.split("=")]),
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "exposed",
            "namespace": "shop",
            "uid": "s",
            "resourceVersion": "7",
            "finalizers": [FINALIZER],
            "annotations": {MARK: "edge"},
        },
    }
    kind, policies = (
        "MutatingAdmissionPolicy",
        {"apiVersion": VERSION, "items": [policy]},
    )
    server = Server(("127.0.0.1", 0), Handler)
    server.deleted = []
    server.objects = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/api/v1": _kinds("v1", "Service", "services", namespaced=True),
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
        f"/apis/{ADMISSION}": groups[0],
        f"/apis/{VERSION}": _kinds(VERSION, kind, MUTATING[1], namespaced=False),
        POLICIES: {"kind": f"{kind}List", **policies},
        f"{POLICIES}/lbcf-gate": policy,
        SERVICE: service,
    }
    Thread(target=server.serve_forever, daemon=True).start()
    where = f"--server=http://127.0.0.1:{server.server_port}"
    token = LOGIN.set((where, f"--cache-dir={tmp_path}"))
    yield server
    LOGIN.reset(token)
    server.shutdown()
    server.server_close()


def test_gates_go_while_another_api_is_down(server: Server) -> None:
    """`kubectl api-resources` fails where any group does not answer."""
    remove_gates()

    assert f"{POLICIES}/lbcf-gate" in server.deleted
