"""f5-sdk, F5's own client library for Python; its last version is of 2022."""

import json
import sys

from typing import Any

from f5.bigip import ManagementRoot
from icontrol.exceptions import iControlUnexpectedHTTPError


CONFLICT = 409
GONE = 404


def _pool(root: ManagementRoot, path: str) -> Any:
    """Return a pool."""
    _, partition, name = path.split("/")
    return root.tm.ltm.pools.pool.load(name=name, partition=partition)


def see(root: ManagementRoot, path: str) -> dict[str, list[object]]:
    """Return the members of a pool; one that goes meanwhile is not among them."""
    seen = {}
    for member in _pool(root, path).members_s.get_collection():
        try:
            entries = member.stats.load().entries
        except iControlUnexpectedHTTPError as error:
            if error.response.status_code == GONE:
                continue
            raise
        leaves = next(iter(entries.values()))["nestedStats"]["entries"]
        seen[member.fullPath] = [
            member.session,
            member.state,
            getattr(member, "description", ""),
            leaves["serverside.curConns"]["value"],
        ]
    return seen


def live(root: ManagementRoot, path: str, address: str, port: str) -> list[str]:
    """Add, add again, disable, force offline, take out."""
    members = _pool(root, path).members_s.members
    named = {"name": f"{address}:{port}", "partition": "Common"}
    member = members.create(**named)
    steps = [member.session]
    try:
        members.create(**named)
    except iControlUnexpectedHTTPError as error:
        steps.append(str(error.response.status_code == CONFLICT))
    for fields in (
        {"session": "user-disabled"},
        {"session": "user-disabled", "state": "user-down"},
    ):
        member.modify(**fields)
        found = members.load(**named)
        steps.append(f"{found.session} {found.state}")
    member.delete()
    steps.append(str(members.exists(**named)))
    root.tm.ltm.nodes.node.load(name=address, partition="Common").delete()
    return steps


def main() -> None:
    """Run what the command line says."""
    port, user, password, task, *words = sys.argv[1:]
    root = ManagementRoot("127.0.0.1", user, password, port=int(port), token=True)
    if task == "watch":
        for _ in sys.stdin:
            print(json.dumps(see(root, *words)), flush=True)
        return
    result = see(root, *words) if task == "see" else live(root, *words)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
