"""`remove-orphans`: what it asks, what it writes, and when it is over."""

import asyncio

from typing import Any

import pytest

from lbcf.core.model.names import ANNOTATION_REMOVE_ORPHANS, SYSTEM_NAMESPACE
from lbcf.core.model.values import ObjectKey
from lbcf.ctl import command
from lbcf.ctl.errors import CtlError
from lbcf.ctl.orphans import Orphan, OrphansReport
from lbcf.ctl.tables import draw, make_console
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import DRIVERS, LOAD_BALANCERS
from tests.ctl.servers import Guarded, put, run_command
from tests.e2e import objects
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import TinyApi


PATH = "/apis/lbcf.tkestack.io/v1beta1/namespaces/shop/loadbalancers/front"
REMOVE = ("remove-orphans", "lb/front")
A, B = ("10.0.0.1:80", "uid-a"), ("10.0.0.2:80", "uid-b")


def a_status(*orphans: tuple[str, str], told: bool | None = None) -> dict[str, Any]:
    """Make what the controller writes of these."""
    said = bool(orphans) if told is None else told
    return {
        "lbInfo": {"name": "front"},
        "orphans": [{"backendAddr": a, "recordID": r} for a, r in orphans],
        "conditions": [
            {
                "type": "Orphaned",
                "status": str(said),
                "reason": "MembersOrphaned" if said else "NoOrphans",
            }
        ],
    }


def an_api(
    *orphans: tuple[str, str], member_key: str = "Record", **more: Any
) -> TinyApi:
    """Make an API server with a load balancer that has these orphans, and its driver."""
    api, body = TinyApi(), objects.a_load_balancer()
    body["metadata"] |= more.pop("metadata", {})
    put(api, LOAD_BALANCERS, {**body, "status": a_status(*orphans, **more)})
    driver = objects.a_driver("http://driver", memberKey=member_key)
    put(api, DRIVERS, driver)
    return api


def order(api: TinyApi) -> str | None:
    """What the annotation says."""
    metadata: Any = api.objects[PATH]["metadata"]
    said: str | None = (metadata.get("annotations") or {}).get(
        ANNOTATION_REMOVE_ORPHANS
    )
    return said


async def run(api: TinyApi | Guarded, *words: str) -> list[OrphansReport]:
    """Run the command, which is to succeed; return its reports."""
    status, reports = await run_command(KubeClient(api), *REMOVE, *words)
    assert 0 == status
    return reports


async def test_exactly_the_ids_that_are_named_are_written() -> None:
    """By whom it is asked to; the report names them."""
    api = an_api(A, B)
    [report] = await run(api, "--yes")

    assert "uid-a,uid-b" == order(api)
    assert (Orphan(*A), Orphan(*B)) == report.left
    assert ("shop", "lb/front", 0) == (report.namespace, report.subject, report.others)


async def test_person_is_shown_whom_and_what_may_go_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before anything is written; a no is kept."""
    asked: list[str] = []

    def refuse(question: str, ask: str) -> None:
        asked.append(f"{question}\n{ask}")
        raise CtlError("nothing was changed")

    monkeypatch.setattr(command, "confirm_at_terminal", refuse)
    api = an_api(A, B)
    with pytest.raises(CtlError, match="nothing was changed"):
        await run(api)

    [question] = asked
    assert (
        "lb/front in namespace shop: 2 members were registered for records" in question
    )
    assert "  10.0.0.1:80 of uid-a\n  10.0.0.2:80 of uid-b\n" in question
    assert "undrained. Another cluster, or a test installation, that uses" in question
    assert order(api) is None


async def test_without_a_terminal_it_takes_yes() -> None:
    """As `abandon` does."""
    api = an_api(A)
    with pytest.raises(CtlError, match="nobody is here to confirm it: pass --yes"):
        await run(api)
    assert order(api) is None


async def test_nothing_is_written_where_there_are_none() -> None:
    """What an earlier order left behind is taken off."""
    api = an_api()
    [report] = await run(api, "--yes")
    assert () == report.left
    assert not [one for one in api.requests if one.startswith("PATCH")]

    left = {"annotations": {ANNOTATION_REMOVE_ORPHANS: "uid-a"}}
    api = an_api(metadata=left)
    await run(api)
    assert order(api) is None


def test_waiting_ends_when_those_that_were_confirmed_are_out() -> None:
    """One that came later is none of them; then the annotation is taken off."""
    api, later = an_api(A, B), ("10.0.0.3:80", "uid-c")

    async def controller_tells(*orphans: tuple[str, str]) -> None:
        body = {"status": a_status(*orphans)}
        key = ObjectKey("shop", "front")
        await KubeClient(api).patch(LOAD_BALANCERS, key, body, subresource="status")
        await asyncio.sleep(5)

    async def play() -> OrphansReport:
        running = asyncio.create_task(run(api, "--yes", "--wait"))
        await asyncio.sleep(5)
        await controller_tells(later, B)
        assert not running.done()
        assert "uid-a,uid-b" == order(api)
        await controller_tells(later)
        return (await running)[-1]

    report = run_virtual(play())

    assert ((), 1) == (report.left, report.others)
    assert order(api) is None


def test_another_one_s_order_stays_when_waiting_ends() -> None:
    """Somebody has confirmed others meanwhile."""
    api = an_api(A)

    async def play() -> None:
        running = asyncio.create_task(run(api, "--yes", "--wait"))
        await asyncio.sleep(5)
        client, key = KubeClient(api), ObjectKey("shop", "front")
        theirs = {"annotations": {ANNOTATION_REMOVE_ORPHANS: "uid-c"}}
        await client.patch(LOAD_BALANCERS, key, {"metadata": theirs})
        body = {"status": a_status()}
        await client.patch(LOAD_BALANCERS, key, body, subresource="status")
        await running

    run_virtual(play())
    assert "uid-c" == order(api)


@pytest.mark.parametrize(
    ("api", "told"),
    [
        (an_api(A, member_key="Address"), r"lb/front stay: .*\(memberKey: Address\)"),
        (an_api(told=True), "its status.orphans names none: are manifests/crds"),
        (
            an_api(A, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            "lb/front is being deleted, and its members with it",
        ),
    ],
    ids=["by address", "named by nobody", "deleted"],
)
async def test_what_would_not_be_heeded_is_refused(api: TinyApi, told: str) -> None:
    """Before anybody is asked, and nothing is written."""
    with pytest.raises(CtlError, match=told):
        await run(api)
    assert order(api) is None


async def test_load_balancer_of_a_bind_is_refused() -> None:
    """Its Bind has no such annotation."""
    api = an_api(A)
    with pytest.raises(CtlError, match="lb/bind/both/front is a Bind's"):
        await run_command(KubeClient(api), REMOVE[0], "lb/bind/both/front", "--yes")
    assert [] == api.requests


async def test_driver_that_may_not_be_read_is_left_to_the_deregistrar() -> None:
    """It may be shared, and in kube-system."""
    words = 'is forbidden: User "t" cannot get resource "loadbalancerdrivers"'
    api = an_api(A, member_key="Address")
    guarded = Guarded(
        api,
        lambda verb, path: (
            (403, words) if "drivers" in path and verb == "GET" else None
        ),
    )
    [report] = await run(guarded, "--yes")

    assert (Orphan(*A),) == report.left
    assert SYSTEM_NAMESPACE not in "".join(api.requests)


async def test_right_that_is_missing_is_named() -> None:
    """To write as well."""
    words = 'is forbidden: User "t" cannot patch resource "loadbalancers"'
    guarded = Guarded(
        an_api(A), lambda verb, _path: (403, words) if verb == "PATCH" else None
    )
    with pytest.raises(CtlError, match="may not patch loadbalancers"):
        await run(guarded, "--yes")


def test_report_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    """Whom is waited for, and whether there are others."""
    console = make_console(80)
    console.print(draw(OrphansReport("shop", "lb/front", (Orphan(*A),), 2)))
    console.print(draw(OrphansReport("shop", "lb/front", ())))

    out = capsys.readouterr().out
    assert "lb/front: to be taken out; 2 more: run it again" in out
    assert "10.0.0.1:80  uid-a" in out
    assert "lb/front: nothing is left to be taken out" in out
