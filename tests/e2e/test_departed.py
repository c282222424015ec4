"""Who asks too late: how a pod that is gone left its load balancer."""

from typing import Any

import pytest

from tests.e2e import objects
from tests.e2e.asking import ask
from tests.e2e.stage import Stage


pytestmark = pytest.mark.cluster


async def _add(stage: Stage, name: str, address: str, seconds: int) -> None:
    """Register a pod with three sessions, whose drain may take so long."""
    await stage.patch(
        objects.GROUPS, "web", {"spec": {"drain": {"timeoutSeconds": seconds}}}
    )
    await stage.add_pod(name, address)
    await stage.until_registered(f"{address}:80")

    async def has_drain() -> bool:
        record = (await stage.records())[f"{address}:80"]
        return bool(record.body["spec"].get("drain") == {"timeoutSeconds": seconds})

    # The pod may have been heard of before the group's new drain.
    await stage.until("the record has the drain", has_drain)
    await stage.control("sessions", backendAddr=f"{address}:80", sessions=3)


async def _departed(stage: Stage, number: int) -> list[dict[str, Any]]:
    """Return what the group remembers, once it is so many."""

    async def told() -> list[dict[str, Any]] | None:
        group = await stage.get(objects.GROUPS, "web")
        found = group.status.get("departed", []) if group else []
        return found if len(found) == number else None

    remembered = await stage.until("the group remembers", told)
    assert remembered is not None
    return remembered


async def test_drained_and_cut_are_told_when_all_is_gone(stage: Stage) -> None:
    """By pod, and by record; the group says so in its status."""
    await _add(stage, "kept", "10.0.0.1", 300)
    await stage.terminate_pod("kept")
    await stage.until_reason("Drained", "Draining")
    await stage.control("sessions", backendAddr="10.0.0.1:80", sessions=0)
    await stage.until_registered()
    await stage.let_pod_go("kept")
    await _departed(stage, 1)
    await _add(stage, "cut", "10.0.0.2", 2)
    await stage.terminate_pod("cut")
    await stage.until_registered()
    await stage.let_pod_go("cut")
    cut, kept = await _departed(stage, 2)

    assert ("cut:80", "front", "Cut", "PodTerminating", 3) == (
        *(cut["backend"], cut["loadBalancer"], cut["outcome"]),
        *(cut["reason"], cut["connections"]),
    )
    assert ("kept:80", "Drained", "PodTerminating", None) == (
        *(kept["backend"], kept["outcome"], kept["reason"]),
        kept.get("connections"),
    )
    of_cut = await ask(stage, "why", "pod/cut")
    of_kept = (await ask(stage, "why", "pod/kept", "-o", "json")).report
    of_record = (await ask(stage, "why", f"br/{kept['record']}", "-o", "json")).report
    assert "with 3 connections by the last count; PodTerminating: " in of_cut.out
    for report in (of_kept, of_record):
        [line] = report["sections"][0]["lines"]
        assert ("Drained", kept["time"]) == (line["reason"], line["since"])
    nobody = await ask(stage, "why", "pod/nobody")
    where = f"in namespace {stage.namespace}, and no BackendRecord of one"
    assert f"lbcf ctl: there is no pod/nobody {where}\n" == nobody.err


async def test_bind_remembers_beside_a_group(stage: Stage) -> None:
    """In its own status, and under its own name."""
    bind = objects.a_bind("both", objects.an_entry("back"))
    await stage.create(objects.BINDS, bind)
    await stage.add_pod("a", "10.0.0.1")
    await stage.until("it is in both", lambda: _members(stage, 2))
    await stage.terminate_pod("a")
    await stage.until("it is in none", lambda: _members(stage, 0))
    await stage.let_pod_go("a")

    async def told() -> list[tuple[str, str]] | None:
        found = await ask(stage, "why", "pod/a", "-o", "json")
        sections = found.report["sections"] if found.status == 0 else []
        lines = [(s["title"], line["reason"]) for s in sections for line in s["lines"]]
        of_gone = [line for line in lines if "remembers" in line[0]]
        return of_gone if len(of_gone) == len(lines) == 2 else None

    assert [
        ("bg/web remembers for a day", "Drained"),
        ("bind/both remembers for a day", "Drained"),
    ] == sorted(await stage.until("both remember", told) or ())


async def _members(stage: Stage, number: int) -> bool:
    """Whether the load balancers have so many members, and the API as many records."""
    members, records = (
        await stage.control("members"),
        await stage.listed(objects.RECORDS),
    )
    return number == len(members["members"]) == len(records)
