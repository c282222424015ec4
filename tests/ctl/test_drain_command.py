"""`drain` and `undrain`: what they write, and whom they name as left."""

import asyncio
import itertools

from typing import Any

import pytest

from lbcf.core.model.names import ANNOTATION_DRAIN
from lbcf.core.selection.plan import plan_group
from lbcf.ctl.errors import CtlError
from lbcf.ctl.hand_drain import HandDrainReport
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import DRIVERS, GROUPS, LOAD_BALANCERS, PODS, RECORDS
from lbcf.wire.records import render_new_record
from tests.builders import a_pod, a_snapshot
from tests.ctl.servers import Guarded, put, run_command
from tests.e2e import objects
from tests.kube.tiny_api import TinyApi


POD = "/api/v1/namespaces/shop/pods/web-1"
NODE = "/api/v1/nodes/n1"
WHY = ("--reason", "new disk")


async def a_cluster(*, registered: bool = True) -> TinyApi:
    """Make an API server with a pod on a node, its group, and its record if it has one."""
    api = TinyApi()
    put(api, DRIVERS, objects.a_driver("http://driver"))
    balancer = objects.a_load_balancer()
    put(api, LOAD_BALANCERS, {**balancer, "status": {"lbInfo": {"name": "front"}}})
    put(api, GROUPS, objects.a_group())
    pod = objects.a_pod("web-1")
    pod["spec"]["nodeName"] = "n1"
    put(api, PODS, {**pod, **objects.pod_status("10.0.0.1")})
    api.put(NODE, {"metadata": {}, "status": {}})
    if registered:
        create = plan_group(a_snapshot(a_pod())).creates[0]
        body = render_new_record(create.desired, create.name)
        await KubeClient(api).create(RECORDS, "shop", body)
    return api


def annotation(api: TinyApi, path: str) -> object:
    """Return what an object says of its drain."""
    metadata: Any = api.objects[path]["metadata"]
    return metadata.get("annotations", {}).get(ANNOTATION_DRAIN)


async def run(api: TinyApi | Guarded, *words: str) -> HandDrainReport:
    """Run a command that is to succeed; return its last report."""
    status, reports = await run_command(KubeClient(api), *words)
    assert 0 == status
    report = reports[-1]
    assert isinstance(report, HandDrainReport)
    return report


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("pod/web-1", POD),
        ("node/n1", NODE),
        ("bg/web", "/apis/lbcf.tkestack.io/v1beta1/namespaces/shop/backendgroups/web"),
    ],
)
async def test_drain_writes_the_reason_and_names_who_is_left(
    target: str, path: str
) -> None:
    """By pod, by node, by group."""
    api = await a_cluster()
    report = await run(api, "drain", target, *WHY)

    assert "new disk" == annotation(api, path)
    assert ["front"] == [row.load_balancer for row in report.left]
    assert (target, "new disk") == (report.subject, report.reason)


@pytest.mark.parametrize("target", ["pod/web-1", "node/n1", "bg/web"])
async def test_undrain_takes_it_off_and_names_who_is_to_come(target: str) -> None:
    """The record that the controller has yet to write."""
    api = await a_cluster(registered=False)
    await run(api, "drain", target, *WHY)
    report = await run(api, "undrain", target)

    assert annotation(api, POD) is None
    assert annotation(api, NODE) is None
    assert ["is to be registered"] == [row.stage for row in report.left]


async def test_waiting_ends_when_nobody_is_left() -> None:
    """Looked at each second."""
    api = await a_cluster()
    waiting = asyncio.create_task(run(api, "drain", "pod/web-1", *WHY, "--wait"))
    await asyncio.sleep(0.3)
    assert not waiting.done()

    (record,) = [path for path in api.objects if "backendrecords" in path]
    api.remove(record)

    assert () == (await waiting).left


@pytest.mark.parametrize(
    ("words", "plural"),
    [
        (("drain", "node/n1", *WHY), "backendrecords"),
        (("drain", "pod/web-1", *WHY), "backendrecords"),
        (("drain", "bg/web", *WHY), "backendrecords"),
        (("drain", "node/n1", *WHY), "pods"),
        (("undrain", "node/n1"), "backendrecords"),
        (("undrain", "bg/web"), "backendrecords"),
        (("undrain", "pod/web-1"), "backendgroups"),
        (("undrain", "pod/web-1"), "binds"),
        (("undrain", "node/n1"), "pods"),
        (("undrain", "bg/web"), "loadbalancers"),
    ],
)
@pytest.mark.parametrize("wait", [(), ("--wait",)])
async def test_what_may_not_be_listed_is_not_taken_for_empty(
    words: tuple[str, ...], plural: str, wait: tuple[str, ...]
) -> None:
    """Whoever switches a node off then goes by the exit status; the order stands."""
    api = await a_cluster(registered=words[0] == "drain")

    def rule(verb: str, path: str) -> tuple[int, str] | None:
        """Refuse to list that kind."""
        is_list = verb == "GET" and path.endswith(f"/{plural}")
        return (403, f'User "x" cannot list resource "{plural}"') if is_list else None

    with pytest.raises(CtlError, match=f"cannot be told: .*may not list {plural}"):
        await run_command(KubeClient(Guarded(api, rule)), *words, *wait)

    patched = [one for one in api.requests if one.startswith("PATCH")]
    assert 1 == len(patched)


@pytest.mark.parametrize("target", ["pod/web-1", "node/n1", "bg/web"])
@pytest.mark.parametrize("order", [("drain", *WHY), ("undrain",)])
async def test_record_that_cannot_be_understood_counts_as_left(
    target: str, order: tuple[str, ...]
) -> None:
    """It is named: it may be of what was named, or keep what is to come from coming."""
    api = await a_cluster()
    record = _spoil_the_record(api)

    (row,) = (await run(api, order[0], target, *order[1:])).left

    assert f"br/{record.rpartition('/')[2]}" == row.backend
    assert "Unreadable" == row.stage


@pytest.mark.parametrize("target", ["pod/web-1", "node/n1", "bg/web"])
async def test_waiting_goes_on_while_a_record_cannot_be_understood(target: str) -> None:
    """Until it is gone, or has been mended."""
    api = await a_cluster()
    record = _spoil_the_record(api)

    lists, looked_again = itertools.count(1), asyncio.Event()

    def note(_verb: str, path: str) -> None:
        """Refuse nothing; note the second look."""
        if path.endswith("/backendrecords") and next(lists) > 1:
            looked_again.set()

    guarded = Guarded(api, note)
    waiting = asyncio.create_task(run(guarded, "drain", target, *WHY, "--wait"))
    looking = asyncio.create_task(looked_again.wait())
    await asyncio.wait([waiting, looking], return_when=asyncio.FIRST_COMPLETED)
    assert not waiting.done()
    api.remove(record)

    assert () == (await waiting).left


def _spoil_the_record(api: TinyApi) -> str:
    """Have the only record be one that nobody can understand; return its path."""
    (record,) = [path for path in api.objects if "backendrecords" in path]
    told: Any = api.objects[record]
    api.put(record, {**told, "spec": {**told["spec"], "podBackend": 5}})
    return record


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("drain", "pod/web-9", *WHY), "there is no pod/web-9 in namespace shop"),
        (("drain", "node/n9", *WHY), "there is no node/n9"),
        (("drain", "pod/web-1", "--reason", " "), "--reason is empty"),
    ],
)
async def test_what_cannot_be_drained_is_told(
    words: tuple[str, ...], told: str
) -> None:
    """In a sentence."""
    api = await a_cluster()

    with pytest.raises(CtlError, match=told):
        await run_command(KubeClient(api), *words)


async def test_missing_right_is_named() -> None:
    """Most who may look at a node may not change it."""
    words = 'nodes "n1" is forbidden: User "x" cannot patch resource "nodes"'
    guarded = Guarded(
        await a_cluster(), lambda verb, _: (403, words) if verb == "PATCH" else None
    )

    with pytest.raises(CtlError, match="may not patch nodes"):
        await run_command(KubeClient(guarded), "drain", "node/n1", *WHY)
