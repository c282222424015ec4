"""bigrest, a client of its own making, over the network and with a token."""

import json
import sys

from bigrest.bigip import BIGIP
from bigrest.common.exceptions import RESTAPIError


POOLS = "/mgmt/tm/ltm/pool"
CONFLICT = "01020066"
GONE = "01020036"


def see(device: BIGIP, pool: str) -> dict[str, list[object]]:
    """Return the members of a pool; one that goes meanwhile is not among them."""
    where = f"{POOLS}/{pool.replace('/', '~')}/members"
    seen = {}
    found = device.load(where)
    # What a unit says of an empty collection is one object to this client.
    for member in found if isinstance(found, list) else []:
        fields = member.properties
        path = fields["fullPath"].replace("/", "~").replace("%", "%25")
        try:
            shown = device.show(f"{where}/{path}").properties
        except RESTAPIError as error:
            if GONE in str(error):
                continue
            raise
        connections = shown["serverside.curConns"]["value"]
        description = fields.get("description", "")
        seen[fields["fullPath"]] = [
            fields["session"],
            fields["state"],
            description,
            connections,
        ]
    return seen


def live(device: BIGIP, pool: str, address: str, port: str) -> list[str]:
    """Add, add again, disable, force offline, take out; then both in a transaction."""
    where = f"{POOLS}/{pool.replace('/', '~')}/members"
    member = f"{where}/~Common~{address}:{port}"
    body = {"name": f"{address}:{port}", "partition": "Common"}
    steps = [device.create(where, body).properties["session"]]
    try:
        device.create(where, body)
    except RESTAPIError as error:
        steps.append(str(CONFLICT in str(error)))
    for fields in (
        {"session": "user-disabled"},
        {"session": "user-disabled", "state": "user-down"},
    ):
        device.modify(member, fields)
        found = device.load(member).properties
        steps.append(f"{found['session']} {found['state']}")
    device.delete(member)
    steps.append(str(device.exist(member)))
    with device:
        device.create(where, body)
        device.modify(member, {"session": "user-disabled"})
    steps.append(device.load(member).properties["session"])
    device.delete(member)
    device.delete(f"/mgmt/tm/ltm/node/~Common~{address}")
    return steps


def main() -> None:
    """Run what the command line says."""
    port, user, password, task, *words = sys.argv[1:]
    device = BIGIP(f"127.0.0.1:{port}", user, password, request_token=True)
    if task == "watch":
        for _ in sys.stdin:
            print(json.dumps(see(device, *words)), flush=True)
        return
    result = see(device, *words) if task == "see" else live(device, *words)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
