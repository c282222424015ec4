"""Other people work on the unit, too: what becomes of members, and what is said."""

from collections.abc import Mapping

import attrs
import pytest

from tests.f5.documents import Document, collection
from tests.f5.requests import MEMBER, WEB, an_ensure, an_identity
from tests.f5.server import Bigip
from tests.f5.unit import Unit
from tests.webhooks.requests import a_deregister
from tests.webhooks.troubled import Ask, settled, told
from webhooks.f5.driver import F5Driver


def _members(bigip: Bigip) -> list[str]:
    """Return the members of the pool."""
    return list(bigip.unit.running.pool(WEB).members)


@attrs.define(eq=False)
class Contested(Unit):
    """A unit where somebody undoes each change of a member at once.

    Attributes:
        undoing: what is written then.
    """

    undoing: Document = attrs.field(factory=dict)

    def modify_member(
        self, pool: str, path: str, body: Mapping[str, object]
    ) -> Document:
        """Change a member, and have it changed back."""
        changed = super().modify_member(pool, path, body)
        self.running.member(pool, path).fields |= self.undoing
        return changed


@pytest.mark.parametrize("operation", ["ensure", "deregister"])
async def test_who_works_against_us_is_told(
    driver: F5Driver, bigip: Bigip, operation: str
) -> None:
    """A member that never stays as it was put is not put so for ever."""
    lb_info = an_identity(bigip)
    await driver.ensure_backend(an_ensure(lb_info))
    asks: dict[str, Ask] = {
        "ensure": lambda: driver.ensure_backend(an_ensure(lb_info)),
        "deregister": lambda: driver.deregister_backend(a_deregister(lb_info)),
    }
    ask = asks[operation]
    session = "user-disabled" if operation == "ensure" else "user-enabled"
    contested = Contested(running=bigip.unit.running)
    contested.undoing = {"session": session, "state": "user-up"}
    contested.running.member(WEB, MEMBER).fields |= contested.undoing
    bigip.unit = contested

    said = await told(ask)
    contested.undoing = {}
    await settled(ask)

    assert "did not settle in 8 steps: does somebody else change it?" in said
    assert ([MEMBER] if operation == "ensure" else []) == _members(bigip)


class Secretive(Unit):
    """A unit that shows the driver's user no nodes of other partitions."""

    def nodes(self) -> Document:
        """Return none."""
        return collection("tm:ltm:node:nodecollectionstate", "/mgmt/tm/ltm/node", [])


async def test_an_address_whose_node_is_hidden(driver: F5Driver, bigip: Bigip) -> None:
    """The unit's own words are told: its operator has to make the node seen."""
    lb_info = an_identity(bigip)
    bigip.unit = Secretive(running=bigip.unit.running)
    bigip.unit.running.add_node({"name": "/Secret/one", "address": "198.18.0.1"})

    said = await told(lambda: driver.ensure_backend(an_ensure(lb_info)))

    assert "Invalid Node, the IP address 198.18.0.1 already exists" in said
    assert [] == _members(bigip)
