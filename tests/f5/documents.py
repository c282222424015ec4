"""The documents that a BIG-IP answers, as recorded on real ones.

Fields and types are those of recorded replies: members and pools of 11.5.4 and 11.6.0,
nodes of 12.0 and 13.0, statistics of 14.1, devices of 11.6 and 14.1.2, device groups of
14.1.2, tokens of 12 and later. Numbers are numbers, `ephemeral` and `selfDevice` are texts; `description` is
there only where there is one.
"""

from collections.abc import Iterable, Mapping


VERSION = "15.1.10"
HOST = "https://localhost"

Document = dict[str, object]


def in_url(path: str) -> str:
    """Return a full path as a part of a URL, `%` of route domains encoded."""
    return path.replace("%", "%25").replace("/", "~")


def link(path: str) -> str:
    """Return what selfLinks look like."""
    return f"{HOST}{path}?ver={VERSION}"


def _head(kind: str, path: str, generation: int, where: str) -> Document:
    """Return what all objects begin with."""
    _, partition, *_rest = path.split("/")
    return {
        "kind": kind,
        "name": path.rpartition("/")[2],
        "partition": partition,
        "fullPath": path,
        "generation": generation,
        "selfLink": link(where),
    }


def _described(description: str) -> Document:
    """Return the description, where there is one."""
    return {"description": description} if description else {}


def pool_url(pool: str) -> str:
    """Return the URL's path of a pool."""
    return f"/mgmt/tm/ltm/pool/{in_url(pool)}"


def pool_document(path: str, generation: int, monitor: str) -> Document:
    """Return a pool; the monitor of recorded ones ends with a space."""
    where = pool_url(path)
    return _head("tm:ltm:pool:poolstate", path, generation, where) | {
        "allowNat": "yes",
        "allowSnat": "yes",
        "ignorePersistedWeight": "disabled",
        "ipTosToClient": "pass-through",
        "ipTosToServer": "pass-through",
        "linkQosToClient": "pass-through",
        "linkQosToServer": "pass-through",
        "loadBalancingMode": "round-robin",
        "minActiveMembers": 0,
        "minUpMembers": 0,
        "minUpMembersAction": "failover",
        "minUpMembersChecking": "disabled",
        **({"monitor": f"{monitor} "} if monitor else {}),
        "queueDepthLimit": 0,
        "queueOnConnectionLimit": "disabled",
        "queueTimeLimit": 0,
        "reselectTries": 0,
        "serviceDownAction": "none",
        "slowRampTime": 10,
        "membersReference": {"link": link(f"{where}/members"), "isSubcollection": True},
    }


def member_document(
    pool: str, path: str, generation: int, fields: Mapping[str, object]
) -> Document:
    """Return a member; the fields are those that differ from one to another."""
    where = f"{pool_url(pool)}/members/{in_url(path)}"
    return (
        _head("tm:ltm:pool:members:membersstate", path, generation, where)
        | {"address": fields["address"], "connectionLimit": fields["connectionLimit"]}
        | _described(str(fields["description"]))
        | {
            "dynamicRatio": 1,
            "ephemeral": "false",
            "fqdn": {"autopopulate": "disabled"},
            "inheritProfile": "enabled",
            "logging": "disabled",
            "monitor": fields["monitor"],
            "priorityGroup": fields["priorityGroup"],
            "rateLimit": "disabled",
            "ratio": fields["ratio"],
            "session": fields["session"],
            "state": fields["state"],
        }
    )


def node_document(
    path: str, generation: int, address: str, description: str
) -> Document:
    """Return a node without a monitor."""
    where = f"/mgmt/tm/ltm/node/{in_url(path)}"
    return (
        _head("tm:ltm:node:nodestate", path, generation, where)
        | {"address": address, "connectionLimit": 0}
        | _described(description)
        | {
            "dynamicRatio": 1,
            "ephemeral": "false",
            "fqdn": {
                "addressFamily": "ipv4",
                "autopopulate": "disabled",
                "downInterval": 5,
                "interval": "3600",
            },
            "logging": "disabled",
            "monitor": "default",
            "rateLimit": "disabled",
            "ratio": 1,
            "session": "user-enabled",
            "state": "unchecked",
        }
    )


def collection(kind: str, where: str, items: Iterable[Document]) -> Document:
    """Return a collection; an empty one has no `items`."""
    found = list(items)
    head: Document = {"kind": kind, "selfLink": link(where)}
    return head | {"items": found} if found else head


def statistics(kind: str, where: str, entries: Mapping[str, Document]) -> Document:
    """Return statistics: each entry under its URL, inside another layer."""
    return {
        "kind": kind,
        "selfLink": link(where),
        "entries": {
            f"{HOST}{path}": {
                "nestedStats": {
                    "kind": "tm:ltm:pool:members:membersstats",
                    "selfLink": link(path),
                    "entries": leaves,
                }
            }
            for path, leaves in entries.items()
        },
    }


def member_statistics(
    pool: str, fields: Mapping[str, object], connections: int
) -> Document:
    """Return the leaves of a member's statistics."""
    counters = {
        "connq.ageEdm": 0, "connq.ageEma": 0, "connq.ageHead": 0, "connq.ageMax": 0,
        "connq.depth": 0, "connq.serviced": 0, "curSessions": 0,
        "port": fields["port"], "serverside.bitsIn": 0, "serverside.bitsOut": 0,
        "serverside.curConns": connections, "serverside.maxConns": connections,
        "serverside.pktsIn": 0, "serverside.pktsOut": 0,
        "serverside.totConns": connections, "totRequests": 0,
    }  # fmt: skip
    state, session = fields["state"], fields["session"]
    checked = state in {"up", "down"}
    texts = {
        "addr": fields["address"],
        "monitorRule": "/Common/http" if checked else "none",
        "monitorStatus": state if checked else "unchecked",
        "nodeName": fields["node"],
        "poolName": pool,
        "sessionStatus": "enabled" if session != "user-disabled" else "user-disabled",
        "status.availabilityState": {"up": "available", "down": "offline"}.get(
            str(state), "unknown"
        ),
        "status.enabledState": "enabled" if session != "user-disabled" else "disabled",
        "status.statusReason": "Pool member does not have service checking enabled",
    }
    leaves: Document = {name: {"value": number} for name, number in counters.items()}
    leaves |= {name: {"description": text} for name, text in texts.items()}
    return dict(sorted(leaves.items()))


def device_document(name: str, state: str, *, is_self: bool) -> Document:
    """Return a unit of a device group; only what tells one from another varies."""
    where = f"/mgmt/tm/cm/device/~Common~{name}"
    return _head("tm:cm:device:devicestate", f"/Common/{name}", 1, where) | {
        "baseMac": "00:0c:29:35:0d:bd",
        "build": "0.0.4",
        "cert": "/Common/dtdi.crt",
        "chassisId": "564d8f3a-2b7c-9e11-1a2b3c4d5e6f",
        "chassisType": "individual",
        "configsyncIp": "none",
        "edition": "Final",
        "failoverState": state,
        "haCapacity": 0,
        "hostname": name,
        "key": "/Common/dtdi.key",
        "managementIp": "127.0.0.1",
        "marketingName": "BIG-IP Virtual Edition",
        "mirrorIp": "any6",
        "mirrorSecondaryIp": "any6",
        "multicastIp": "any6",
        "multicastPort": 0,
        "product": "BIG-IP",
        "selfDevice": "true" if is_self else "false",
        "timeZone": "UTC",
        "version": VERSION,
    }


def device_group_document(path: str) -> Document:
    """Return a device group of units that fail over to each other, synchronized by hand."""
    where = f"/mgmt/tm/cm/device-group/{in_url(path)}"
    return _head("tm:cm:device-group:device-groupstate", path, 1, where) | {
        "asmSync": "disabled",
        "autoSync": "disabled",
        "fullLoadOnSync": "false",
        "incrementalConfigSyncSizeMax": 1024,
        "networkFailover": "enabled",
        "saveOnAutoSync": "false",
        "type": "sync-failover",
        "devicesReference": {"link": link(f"{where}/devices"), "isSubcollection": True},
    }


def partition_document(name: str, domain: int) -> Document:
    """Return a partition, which is in none itself."""
    where = f"/mgmt/tm/auth/partition/{name}"
    return {
        "kind": "tm:auth:partition:partitionstate",
        "name": name,
        "fullPath": name,
        "generation": 1,
        "selfLink": link(where),
        "defaultRouteDomain": domain,
    }


def token_document(token: str, user: str, provider: str, timeout: int) -> Document:
    """Return a token as it is inside the reply to a login."""
    return {
        "token": token,
        "name": token,
        "userName": user,
        "authProviderName": provider,
        "user": {"link": f"{HOST}/mgmt/shared/authz/users/{user}"},
        "timeout": timeout,
        "startTime": "2026-01-01T00:00:00.000-0800",
        "address": "127.0.0.1",
        "partition": "[All]",
        "generation": 1,
        "lastUpdateMicros": 1767254400000000,
        "expirationMicros": 1767254400000000 + timeout * 1_000_000,
        "kind": "shared:authz:tokens:authtokenitemstate",
        "selfLink": f"{HOST}/mgmt/shared/authz/tokens/{token}",
    }


def login_document(token: Document) -> Document:
    """Return the reply to a login."""
    provider = token["authProviderName"]
    return {
        "username": token["userName"],
        "loginReference": {
            "link": f"{HOST}/mgmt/cm/system/authn/providers/{provider}/login"
        },
        "loginProviderName": provider,
        "token": token,
        "generation": 0,
        "lastUpdateMicros": 0,
    }


def error_document(status: int, message: str, number: int | None = 3) -> Document:
    """Return an error; old versions leave out `apiError`."""
    said: Document = {"code": status, "message": message, "errorStack": []}
    return said if number is None else said | {"apiError": number}
