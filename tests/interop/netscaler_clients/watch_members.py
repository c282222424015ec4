"""The NITRO client of a monitoring plugin: `CLIENT PORT USER PASSWORD GROUP`.

For each line that it reads it prints the members of the group, with the state and the
connections of each, as the appliance's statistics have them in one answer.
"""

import json
import sys

from check_netscaler.client import NITROClient


def see(client: NITROClient, group: str) -> dict[str, tuple[str, int]]:
    """Return the members: address to state and connections of clients."""
    said = client.get_stat("servicegroup", group, "statbindings=yes")
    return {
        f"{one['primaryipaddress']}:{one['primaryport']}": (
            one["state"],
            int(one["curclntconnections"]),
        )
        for one in said["servicegroup"][0].get("servicegroupmember", [])
    }


def main() -> None:
    """Look whenever it is asked to."""
    port, user, password, group = sys.argv[1:]
    client = NITROClient("127.0.0.1", user, password, ssl=False, port=int(port))
    client.login()
    for _ in sys.stdin:
        print(json.dumps(see(client, group)), flush=True)


if __name__ == "__main__":
    main()
