"""Which URL of an emulated unit does what: transactions, system, pools and nodes.

`server` has looked who asks; `unit` does it.
"""

import attrs

from tests.f5 import documents
from tests.f5.config import Refusal
from tests.f5.documents import Document
from tests.f5.faults import Faults
from tests.f5.unit import Unit


@attrs.frozen
class Routes:
    """The URLs below /mgmt/tm.

    Attributes:
        unit: what they act on.
        faults: what goes wrong.
    """

    unit: Unit
    faults: Faults

    def answer(
        self, method: str, parts: list[str], said: Document, number: str | None
    ) -> Document | None:
        """Return the document of a request that may be made; None is an empty body.

        Args:
            method: of HTTP.
            parts: of the path below /mgmt/tm, decoded.
            said: the body.
            number: of the transaction that it belongs to; None: to none.

        Raises:
            Refusal: it is answered with an error.
        """
        if parts[:1] == ["transaction"]:
            return self._transaction(method, parts[1:], said)
        if parts[:1] != ["ltm"]:
            return self._system(method, parts, said)
        if number is None:
            return self._ltm(method, parts[1:], said)

        def later() -> Document | None:
            """Do it when the transaction is committed."""
            return self._ltm(method, parts[1:], said)

        uri = documents.link(f"/mgmt/tm/{'/'.join(parts)}")
        command: Document = {"method": method, "uri": uri, "body": said}
        return self.unit.queue(int(number), later, command)

    def _transaction(
        self, method: str, rest: list[str], said: Document
    ) -> Document | None:
        """Begin, commit or delete a transaction."""
        if self.faults.without_transactions:
            raise Refusal(403, "Operation is not supported for this user.", 1)
        match (method, rest):
            case ("POST", []):
                return self.unit.begin()
            case ("PATCH", [number]) if said.get("state") == "VALIDATING":
                return self.unit.commit(int(number))
            case ("DELETE", [number]):
                self.unit.abandon(int(number))
                return None
            case _:
                raise Refusal(400, f"no such transaction call: {method} {rest}", 2)

    def _system(self, method: str, rest: list[str], said: Document) -> Document:
        """Answer what is asked of the system."""
        match [method, *rest]:
            case ["GET", "sys"]:
                return documents.collection(
                    "tm:sys:syscollectionstate", "/mgmt/tm/sys", ()
                )
            case ["POST", "sys", "config"] if said.get("command") == "save":
                return self.unit.save()
            case ["GET", "cm", "device"]:
                return self.unit.devices()
            case ["GET", "cm", "device-group", group]:
                return self.unit.device_group(_path(group))
            case ["POST", "cm"]:
                return self.unit.run(said)
            case ["GET", "auth", "partition", name]:
                return self.unit.partition(name)
            case ["GET", "net", "tunnels", ("gre" | "ipip") as kind]:
                return documents.collection(
                    f"tm:net:tunnels:{kind}:{kind}collectionstate",
                    f"/mgmt/tm/net/tunnels/{kind}",
                    (),
                )
            case _:
                text = f"Found unexpected URI tmapi_mapper/{'/'.join(rest)}."
                raise Refusal(404, text, 1)

    def _ltm(self, method: str, rest: list[str], said: Document) -> Document | None:
        """Act on pools, members and nodes."""
        match rest:
            case ["pool", pool]:
                return self._only("GET", method, self.unit.pool(_path(pool)))
            case ["pool", pool, "members"] if method == "POST":
                return self._added(_path(pool), said)
            case ["pool", pool, "members"]:
                return self._only("GET", method, self.unit.members(_path(pool)))
            case ["pool", pool, "members", "stats"]:
                return self._only("GET", method, self.unit.statistics(_path(pool)))
            case ["pool", pool, "members", member, "stats"]:
                found = self.unit.statistics(_path(pool), _path(member))
                return self._only("GET", method, found)
            case ["pool", pool, "members", member]:
                return self._member(method, _path(pool), _path(member), said)
            case ["node", *which]:
                return self._node(method, which, said)
            case _:
                raise Refusal(404, f"Public URI path not registered: {rest}", 1)

    def _only(self, expected: str, method: str, document: Document) -> Document:
        """Return the document if it is asked for in the one way that there is."""
        if method != expected:
            raise Refusal(405, f"{method} is not implemented here", 1)
        return document

    def _added(self, pool: str, said: Document) -> Document:
        """Add a member."""
        document = self.unit.add_member(pool, said)
        if self.faults.take("bogus"):
            text = f"01020036:3: The requested Pool Member ({pool}) was not found."
            raise Refusal(404, text)
        return document

    def _member(
        self, method: str, pool: str, path: str, said: Document
    ) -> Document | None:
        """Read, change or remove a member."""
        match method:
            case "GET":
                try:
                    return self.unit.member(pool, path)
                except Refusal:
                    if not self.faults.absent_is_ok:
                        raise
                    return {"kind": "tm:ltm:pool:members:membersstate"}
            case "PATCH" | "PUT":
                return self.unit.modify_member(pool, path, said)
            case "DELETE":
                self.unit.remove_member(pool, path)
                return None
            case _:
                raise Refusal(405, f"{method} is not implemented here", 1)

    def _node(self, method: str, which: list[str], said: Document) -> Document | None:
        """Read, add or remove a node."""
        match (method, which):
            case ("GET", []):
                return self.unit.nodes()
            case ("POST", []):
                return self.unit.node(self.unit.running.add_node(said).path)
            case ("GET", [name]):
                return self.unit.node(_path(name))
            case ("DELETE", [name]):
                self.unit.running.remove_node(_path(name))
                return None
            case _:
                raise Refusal(405, f"{method} is not implemented here", 1)


def _path(part: str) -> str:
    """Return the full path that a part of a URL stands for."""
    path = part.replace("~", "/")
    return path if path.startswith("/") else f"/Common/{path}"
