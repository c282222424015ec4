"""`kubectl lbcf` beside the real processes: what it says is what they do."""

import asyncio
import json
import os
import signal
import sys

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lbcf.core.model.names import ANNOTATION_ABANDON
from tests.docs import pictures
from tests.e2e import objects
from tests.e2e.asking import END_OF_INPUT, a_tenant, answered, ask
from tests.e2e.stage import Stage
from tests.patience import PATIENCE


pytestmark = pytest.mark.cluster


async def test_page_shows_what_is_printed(stage: Stage) -> None:
    """The scene of the page, played again, looks the same; kubectl finds the plugin."""
    page = pictures.PAGE.read_text("utf-8")

    shown = await pictures.play(stage)

    for name, text in shown.items():
        expected = pictures.shape(pictures.on_page(name, page))
        assert expected == pictures.shape(text), f"run `make pictures` ({name})"


async def test_status_tells_what_is_wrong_and_who_leads(stage: Stage) -> None:
    """For programs as well, and by its exit status."""
    await stage.until_working(stage.processes["deregistrar"])
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    fine, why = await asyncio.gather(
        ask(stage, "status", "-o", "json"), ask(stage, "why", "pod/a", "-o", "json")
    )
    await stage.behave("ensureBackend", "fail", times=1000, msg="the pool is full")
    await stage.add_pod("c", "10.0.0.3")
    await stage.until_reason("Registered", "DriverRefused")

    wrong = await ask(stage, "status", "-o", "json")

    assert "registered at front" == why.report["headline"]
    assert (0, [], 1) == (fine.status, fine.report["problems"], wrong.status)
    assert ["DriverRefused"] == [one["reason"] for one in wrong.report["problems"]]
    assert {"lbcf-controller", "lbcf-deregistrar"} == {
        leader["name"]
        for leader in wrong.report["leaders"]
        if leader["isAlive"] and leader["namespace"] == stage.namespace
    }


async def test_answer_that_nobody_takes_is_no_fault_of_ours(bare: Stage) -> None:
    """Who reads may have seen enough; a full disk is told in a line."""
    argv = [
        *(sys.executable, "-m", "lbcf", "ctl", "drains", "-n", bare.namespace),
        *("--kubeconfig", str(bare.cluster.kubeconfig)),
    ]
    ended, pipe = os.pipe()
    os.close(ended)
    # As shells have it: what is written waits in a buffer for the end.
    settings = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    answers = []
    for place in (pipe, os.open("/dev/full", os.O_WRONLY)):
        running = await asyncio.create_subprocess_exec(
            *argv, stdout=place, stderr=asyncio.subprocess.PIPE, env=settings
        )
        os.close(place)
        _, err = await asyncio.wait_for(running.communicate(), PATIENCE)
        answers.append((running.returncode, err.decode()))

    told = "lbcf ctl: the answer cannot be written: [Errno 28] No space left on device"
    assert [(0, ""), (2, f"{told}\n")] == answers


@asynccontextmanager
async def watching(stage: Stage) -> AsyncIterator[asyncio.StreamReader]:
    """Give the lines of `drains -w`, which ends with Ctrl-C."""
    argv = [
        # Whoever runs the tests in the background has them inherit an ignored SIGINT.
        *("env", "--default-signal=INT"),
        *(sys.executable, "-m", "lbcf", "ctl", "drains", "-w", "-o", "json"),
        *("-n", stage.namespace, "--kubeconfig", str(stage.cluster.kubeconfig)),
    ]
    running = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE
    )
    assert running.stdout is not None
    try:
        yield running.stdout
    finally:
        running.send_signal(signal.SIGINT)
        assert 130 == await asyncio.wait_for(running.wait(), PATIENCE)


async def _drains(lines: asyncio.StreamReader) -> list[dict[str, Any]]:
    """Read what is shown next."""
    line = await asyncio.wait_for(lines.readline(), PATIENCE)
    drains: list[dict[str, Any]] = json.loads(line)["drains"]
    return drains


async def test_drain_is_followed_from_its_beginning_to_its_end(stage: Stage) -> None:
    """With its connections and its deadline; afterwards nothing is on its way out."""
    await stage.patch(
        objects.GROUPS, "web", {"spec": {"drain": {"timeoutSeconds": 300}}}
    )
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    await stage.control("sessions", backendAddr="10.0.0.1:80", sessions=3)
    async with watching(stage) as lines:
        assert [] == await _drains(lines)

        await stage.terminate_pod("a")
        while not (shown := await _drains(lines)) or shown[0]["stage"] != "Draining":
            pass
        once = await ask(stage, "drains")
        await stage.control("sessions", backendAddr="10.0.0.1:80", sessions=0)
        while await _drains(lines):
            pass

    [drain] = shown
    assert ("a:80", 3, "connections to end") == (
        drain["backend"],
        drain["connections"],
        drain["waitsFor"],
    )
    assert drain["deadline"]
    assert "a:80     front  10.0.0.1:80" in once.out
    assert "nothing is on its way out\n" == (await ask(stage, "drains")).out


async def test_plan_is_what_the_controller_then_writes(stage: Stage) -> None:
    """Names of new records and reasons of deletions, told while nobody decides."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    quiet = await ask(stage, "plan", "bg/web")
    await stage.processes["controller"].end()
    await stage.set_pod("a", "10.0.0.1", ready=False)
    await stage.add_pod("b", "10.0.0.2")

    report = (await ask(stage, "plan", "bg/web", "-o", "json")).report
    await stage.start("controller")
    await stage.until_registered("10.0.0.2:80")

    assert "nothing would change" in quiet.out
    delete, create = report["changes"]
    assert ("delete", "a:80", "PodNotReady") == (
        delete["what"],
        delete["backend"],
        delete["reason"],
    )
    records = {r.meta.key.name for r in await stage.listed(objects.RECORDS)}
    assert ("create", {create["record"]}) == (create["what"], records)


async def test_abandoned_objects_go_without_their_driver(stage: Stage) -> None:
    """Only what is deleted, only with a reason, and only if somebody says yes."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    [record] = await stage.listed(objects.RECORDS)
    words = ("abandon", f"br/{record.meta.key.name}", "--reason", "it is gone")
    living = await ask(stage, *words, "--yes")
    await stage.processes["driver"].end()
    await stage.delete(objects.LOAD_BALANCERS, "front")
    await stage.until_reason("Drained", "DriverUnreachable")

    unasked, done, balancer, missing = (
        await ask(stage, *words),
        await ask(stage, *words, "--yes"),
        await ask(stage, "abandon", "lb/front", *words[2:], "--yes", "-o", "json"),
        await ask(stage, "abandon", "lb/none", *words[2:], "--yes"),
    )

    async def gone() -> bool:
        """Whether record and load balancer have gone."""
        left = await stage.listed(objects.RECORDS)
        return not left and await stage.get(objects.LOAD_BALANCERS, "front") is None

    await stage.until("the record and the load balancer are gone", gone)
    assert (2, 2, 0, 2) == (
        *(living.status, unasked.status, done.status),
        missing.status,
    ), done
    assert "is not being deleted" in living.err
    assert "lbcf ctl: nobody is here to confirm it: pass --yes\n" == unasked.err
    assert "10.0.0.1:80 may stay a member of load balancer front" in done.out
    assert ("lb/front", "it is gone") == (
        balancer.report["subject"],
        balancer.report["reason"],
    )
    where = f"in namespace {stage.namespace}"
    assert f"lbcf ctl: there is no lb/none {where}\n" == missing.err


async def test_abandoning_is_asked_about_at_a_terminal(stage: Stage) -> None:
    """Only a yes lets go; a no, the end of input and anything else change nothing."""
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    [record] = await stage.listed(objects.RECORDS)
    name = record.meta.key.name
    words = ("abandon", f"br/{name}", "--reason", "it is gone")
    await stage.processes["driver"].end()
    await stage.delete(objects.PODS, "a")
    await stage.until_reason("Drained", "DriverUnreachable")

    for typed in ("n\n", "\n", "yellow\n", END_OF_INPUT):
        refused = await answered(stage, *words, typed=typed)
        assert (2, "") == (refused.status, refused.out)
        assert refused.err.startswith(f"br/{name} in namespace {stage.namespace}: goes")
        assert refused.err.endswith("it? [y/N] lbcf ctl: nothing was changed\n")
    kept = await stage.get(objects.RECORDS, name)
    assert kept is not None
    assert ANNOTATION_ABANDON not in kept.meta.annotations
    done = await answered(stage, *words, typed="Y\n")

    async def gone() -> bool:
        """Whether the record has gone."""
        return await stage.get(objects.RECORDS, name) is None

    await stage.until("the record is gone", gone)
    assert 0 == done.status
    assert "10.0.0.1:80 may stay a member of load balancer front" in done.out


async def test_kubectl_completes_what_may_come_next(
    bare: Stage, tmp_path: Path
) -> None:
    """It looks for an executable beside the plugin, and reads what that prints."""
    for name, module in (("kubectl-", "command"), ("kubectl_complete-", "completion")):
        script = tmp_path / f"{name}lbcf"
        run = f"import sys\nfrom lbcf.ctl.{module} import main\nsys.exit(main())\n"
        script.write_text(f"#!{sys.executable}\n{run}")
        script.chmod(0o755)
    await bare.create(objects.PODS, objects.a_pod("web-1"))
    environment = bare.cluster.environment()
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"

    async def completed(*words: str) -> list[str]:
        """Ask kubectl as a shell does."""
        running = await asyncio.create_subprocess_exec(
            *("kubectl", "__complete", "lbcf", *words),
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        out, _ = await asyncio.wait_for(running.communicate(), PATIENCE)
        return out.decode().splitlines()

    pods: list[str] = []
    places: list[str] = []

    async def found() -> bool:
        """Ask for names. Nobody waits for them for long: a machine may be too slow once."""
        pods[:] = await completed("why", "-n", bare.namespace, "pod/")
        places[:] = await completed("status", "-n", bare.namespace[:-1])
        return bool(pods[:-1]) and bool(places[:-1])

    await bare.until("names are completed", found)
    commands = await completed("dr")

    assert ["pod/web-1", ":4"] == pods
    assert bare.namespace in places
    assert ["drains", "drain", ":4"] == [line.partition("\t")[0] for line in commands]


async def test_somebody_else_s_rights_can_be_tried(bare: Stage) -> None:
    """By whoever may impersonate; the groups count, too."""
    name, words = f"readers-{bare.namespace}", ("status", "-o", "json", "--as", "x")
    grant = ("create", "rolebinding", name, "-n", bare.namespace, f"--group={name}")
    await a_tenant(bare)
    await asyncio.to_thread(bare.cluster.kubectl, *grant, "--clusterrole=view")

    alone, member = await asyncio.gather(
        ask(bare, *words), ask(bare, *words, "--as-group", "y", "--as-group", name)
    )

    where = f"lbcf.tkestack.io in namespace {bare.namespace}\n"
    assert (2, f"lbcf ctl: may not list backendgroups.{where}") == (
        alone.status,
        alone.err,
    )
    right = "may not list leases.coordination.k8s.io in all namespaces"
    assert [right] == member.report["unread"]


async def test_tenant_gets_as_far_as_the_viewer_s_role_goes(stage: Stage) -> None:
    """What may not be read is said; what may not be done is refused in a line."""
    login = await a_tenant(stage)
    stranger = stage.cluster.kubeconfig_for(f"stranger-{stage.namespace}", groups=())
    drain = {"spec": {"drain": {"timeoutSeconds": 300}}}
    await stage.patch(objects.GROUPS, "web", drain)
    await stage.add_pod("a", "10.0.0.1")
    await stage.until_registered("10.0.0.1:80")
    await stage.control("sessions", backendAddr="10.0.0.1:80", sessions=1)
    await stage.set_pod("a", "10.0.0.1", ready=False)
    record = (await stage.until_reason("Drained", "Draining")).meta.key.name
    words = ("--reason", "I want it", "--yes")
    status, why, node, plan, refused, nothing = await asyncio.gather(
        ask(stage, "status", "-o", "json", login=login),
        ask(stage, "why", "pod/a", login=login),
        ask(stage, "why", "node/n1", login=login),
        ask(stage, "plan", "bg/web", login=login),
        ask(stage, "abandon", f"br/{record}", *words, login=login),
        ask(stage, "status", login=stranger),
    )

    assert ["may not list leases.coordination.k8s.io in all namespaces"] == (
        status.report["unread"]
    )
    assert ["bg/web"] == [group["name"] for group in status.report["groups"]]
    assert why.out.splitlines()[1].startswith("on its way out of front")
    assert "lbcf ctl: may not list nodes\n" == node.err
    assert "nothing would change" in plan.out
    where = f"lbcf.tkestack.io in namespace {stage.namespace}\n"
    assert f"lbcf ctl: may not patch backendrecords.{where}" == refused.err
    assert (2, f"lbcf ctl: may not list backendgroups.{where}") == (
        nothing.status,
        nothing.err,
    )
