"""The emulated unit answers as recorded ones: field by field, types included.

Recorded are members and pools of 11.5.4 and 11.6.0, nodes of 12.0 and 13.0, statistics
of 14.1; the texts of refusals are those that clients of other people branch on.
"""

import base64

from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from tests.f5.requests import MEMBER, NODE, WEB
from tests.f5.server import COORDINATED, GROUP, PASSWORD, USER, Bigip
from tests.f5.unit import EXPIRES
from tests.webhooks.requests import ADDRESS


POOL = "/mgmt/tm/ltm/pool/~Common~web"
ITS_MEMBER = f"{POOL}/members/~Common~{ADDRESS}"

HEAD = {
    "kind": str, "name": str, "partition": str, "fullPath": str, "generation": int,
    "selfLink": str,
}  # fmt: skip
"""What every object begins with."""

RECORDED_MEMBER = HEAD | {
    "address": str, "connectionLimit": int, "dynamicRatio": int, "ephemeral": str,
    "fqdn": dict, "inheritProfile": str, "logging": str, "monitor": str,
    "priorityGroup": int, "rateLimit": str, "ratio": int, "session": str, "state": str,
}  # fmt: skip

RECORDED_NODE = HEAD | {
    "address": str, "connectionLimit": int, "dynamicRatio": int, "ephemeral": str,
    "fqdn": dict, "logging": str, "monitor": str, "rateLimit": str, "ratio": int,
    "session": str, "state": str,
}  # fmt: skip

RECORDED_POOL = HEAD | {
    "allowNat": str, "allowSnat": str, "ignorePersistedWeight": str,
    "ipTosToClient": str, "ipTosToServer": str, "linkQosToClient": str,
    "linkQosToServer": str, "loadBalancingMode": str, "minActiveMembers": int,
    "minUpMembers": int, "minUpMembersAction": str, "minUpMembersChecking": str,
    "queueDepthLimit": int, "queueOnConnectionLimit": str, "queueTimeLimit": int,
    "reselectTries": int, "serviceDownAction": str, "slowRampTime": int,
    "membersReference": dict,
}  # fmt: skip

RECORDED_GROUP = HEAD | {
    "asmSync": str, "autoSync": str, "fullLoadOnSync": str,
    "incrementalConfigSyncSizeMax": int, "networkFailover": str, "saveOnAutoSync": str,
    "type": str, "devicesReference": dict,
}  # fmt: skip

RECORDED_NUMBERS = {
    *("connq.ageEdm", "connq.ageEma", "connq.ageHead", "connq.ageMax", "connq.depth"),
    *("connq.serviced", "curSessions", "port", "serverside.bitsIn"),
    *("serverside.bitsOut", "serverside.curConns", "serverside.maxConns"),
    *("serverside.pktsIn", "serverside.pktsOut", "serverside.totConns", "totRequests"),
}
RECORDED_TEXTS = {
    *("addr", "monitorRule", "monitorStatus", "nodeName", "poolName"),
    *("sessionStatus", "status.availabilityState", "status.enabledState"),
    "status.statusReason",
}
"""Leaves of a member's statistics: `{"value": 0}`, and `{"description": ""}`."""


async def ask(
    bigip: Bigip,
    method: str,
    path: str,
    body: object = None,
    *,
    password: str = PASSWORD,
    header: Mapping[str, str] | None = None,
) -> tuple[int, Any]:
    """Ask with name and password; return status and document, empty where none is."""
    both = base64.b64encode(f"{USER}:{password}".encode()).decode()
    shown = {"Authorization": f"Basic {both}"} | dict(header or {})
    async with (
        aiohttp.ClientSession(headers=shown) as session,
        session.request(method, f"{bigip.url}{path}", json=body) as answer,
    ):
        text = await answer.read()
        return answer.status, await answer.json() if text else None


def types_of(document: dict[str, object]) -> dict[str, type]:
    """Return the type of each field."""
    return {name: type(value) for name, value in document.items()}


@pytest.fixture(name="bigip")
async def _bigip(bigip: Bigip) -> Bigip:
    """Return a unit with a member, and the node that came with it."""
    bigip.unit.add_member(WEB, {"name": ADDRESS, "partition": "Common"})
    return bigip


async def test_objects_are_told_as_recorded(bigip: Bigip) -> None:
    """All fields, and no others; numbers are numbers; a description only if said."""
    _, member = await ask(bigip, "GET", ITS_MEMBER)
    _, node = await ask(bigip, "GET", "/mgmt/tm/ltm/node/~Common~198.18.0.1")
    _, pool = await ask(bigip, "GET", POOL)

    assert RECORDED_MEMBER == types_of(member)
    assert RECORDED_NODE == types_of(node)
    assert RECORDED_POOL == types_of(pool)
    assert (MEMBER, NODE) == (member["fullPath"], node["fullPath"])
    assert ("user-enabled", "unchecked") == (member["session"], member["state"])
    assert member["selfLink"].startswith("https://localhost/mgmt/tm/ltm/pool/~Common~")
    assert "false" == member["ephemeral"]


async def test_statistics_are_told_as_recorded(bigip: Bigip) -> None:
    """Each entry is under a URL and in another layer; leaves are numbers or texts."""
    bigip.unit.connections[WEB, MEMBER] = 3

    _, one = await ask(bigip, "GET", f"{ITS_MEMBER}/stats")
    _, all_of_it = await ask(bigip, "GET", f"{POOL}/members/stats")

    ((url, entry),) = one["entries"].items()
    leaves = entry["nestedStats"]["entries"]
    assert f"https://localhost{ITS_MEMBER}/stats" == url
    assert {"value": 3} == leaves["serverside.curConns"]
    assert RECORDED_NUMBERS == {
        name for name, leaf in leaves.items() if "value" in leaf
    }
    assert RECORDED_TEXTS == {
        name for name, leaf in leaves.items() if len(leaf) == 1
    } - (RECORDED_NUMBERS)
    assert {type(leaves[name]["value"]) for name in RECORDED_NUMBERS} == {int}
    assert {type(leaves[name]["description"]) for name in RECORDED_TEXTS} == {str}
    assert [entry] == list(all_of_it["entries"].values())


async def test_what_is_empty_is_not_there(bigip: Bigip) -> None:
    """A removal answers with nothing, a pool without members without `items`."""
    assert (200, None) == await ask(bigip, "DELETE", ITS_MEMBER)

    status, members = await ask(bigip, "GET", f"{POOL}/members")

    assert (200, {"kind", "selfLink"}) == (status, set(members))


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("POST", f"{POOL}/members", {"name": ADDRESS, "partition": "Common"}, 409,
         ("01020066:3: The requested Pool Member (/Common/web /Common/198.18.0.1 8080) "
         "already exists in partition Common.")),
        ("GET", f"{POOL}/members/~Common~198.18.0.9:80", None, 404,
         ("01020036:3: The requested Pool Member (/Common/web /Common/198.18.0.9 80) "
         "was not found.")),
        ("DELETE", "/mgmt/tm/ltm/node/~Common~198.18.0.1", None, 400,
         ("01070110:3: Node address '/Common/198.18.0.1' is referenced by a member of "
         "pool '/Common/web'.")),
        ("PATCH", ITS_MEMBER, {"state": "up"}, 400,
         'invalid property value "state":"up"'),
    ],
)  # fmt: skip
async def test_refusals(  # noqa: PLR0917
    bigip: Bigip, method: str, path: str, body: object, status: int, said: str
) -> None:
    """They say code, message, an empty stack and a number."""
    answered, error = await ask(bigip, method, path, body)

    assert (status, said) == (answered, error["message"])
    assert {"code": int, "message": str, "errorStack": list, "apiError": int} == (
        types_of(error)
    )
    assert ([], status) == (error["errorStack"], error["code"])


async def test_who_is_not_known(bigip: Bigip) -> None:
    """A password or token that does not count is 401; one in use can be lengthened."""
    assert 401 == (await ask(bigip, "GET", POOL, password="wrong"))[0]  # noqa: S106

    said = {"username": USER, "password": PASSWORD, "loginProviderName": "tmos"}
    _, login = await ask(bigip, "POST", "/mgmt/shared/authn/login", said)
    token = login["token"]
    where = f"/mgmt/shared/authz/tokens/{token['token']}"

    assert (1200, int) == (token["timeout"], type(token["expirationMicros"]))
    assert 200 == (await ask(bigip, "PATCH", where, {"timeout": 36000}))[0]
    assert 406 == (await ask(bigip, "PATCH", where, {"timeout": 36001}))[0]


async def test_device_groups(bigip: Bigip) -> None:
    """One that is not there is told so, to who reads it and who synchronizes it."""
    bigip.unit.groups.append(GROUP)
    where = "/mgmt/tm/cm/device-group/~Common~"
    _, found = await ask(bigip, "GET", f"{where}pair")
    body = {"command": "run", "utilCmdArgs": "config-sync to-group /Common/other"}
    refusals = [
        await ask(bigip, "GET", f"{where}other"),
        await ask(bigip, "POST", "/mgmt/tm/cm", body),
    ]

    assert RECORDED_GROUP == types_of(found)
    assert (GROUP, "sync-failover") == (found["fullPath"], found["type"])
    assert {(404, "01020036")} == {
        (status, error["message"][:8]) for status, error in refusals
    }
    assert [] == bigip.unit.syncs


async def test_generations_grow(bigip: Bigip) -> None:
    """Each change of a member gives it another one, as its new document says."""
    _, before = await ask(bigip, "GET", ITS_MEMBER)
    _, after = await ask(bigip, "PATCH", ITS_MEMBER, {"session": "user-disabled"})

    assert before["generation"] < after["generation"]
    assert "user-disabled" == after["session"]


async def test_transactions_are_all_or_nothing(bigip: Bigip) -> None:
    """Commands are numbered and not looked at before the commit; one that fails undoes all."""
    _, begun = await ask(bigip, "POST", "/mgmt/tm/transaction", {})
    where = f"/mgmt/tm/transaction/{begun['transId']}"
    header = {COORDINATED: str(begun["transId"])}
    bodies = [{"name": "198.18.0.7:80"}, {"name": ADDRESS}]
    said = [
        await ask(bigip, "POST", f"{POOL}/members", one, header=header)
        for one in bodies
    ]
    _, meanwhile = await ask(bigip, "GET", f"{POOL}/members")
    events = list(bigip.unit.events)
    status, error = await ask(bigip, "PATCH", where, {"state": "VALIDATING"})
    _, after = await ask(bigip, "GET", f"{POOL}/members")

    assert [(200, 1), (200, 2)] == [(code, one["commandId"]) for code, one in said]
    assert ("STARTED", 120) == (begun["state"], begun["timeoutSeconds"])
    assert bodies[0] == said[0][1]["body"]
    assert 400 == status
    assert error["message"].startswith("transaction failed:01020066:3: The requested")
    assert meanwhile == after
    assert events == bigip.unit.events
    assert 404 == (await ask(bigip, "PATCH", where, {"state": "VALIDATING"}))[0]


async def test_transactions_end_unused(bigip: Bigip) -> None:
    """Deleted, or left alone for longer than it says, one cannot be committed."""
    numbers = [
        (await ask(bigip, "POST", "/mgmt/tm/transaction", {}))[1]["transId"]
        for _ in range(2)
    ]
    deleted, left = [f"/mgmt/tm/transaction/{one}" for one in numbers]
    assert 200 == (await ask(bigip, "DELETE", deleted))[0]
    bigip.unit.transactions[numbers[1]].touched -= EXPIRES + 1

    for path in (deleted, left):
        assert 404 == (await ask(bigip, "PATCH", path, {"state": "VALIDATING"}))[0]
