"""Other people work on the unit, too: what becomes of members, and what is said."""

from collections.abc import Mapping

import attrs
import pytest

from lbcf.sdk import Fail, Succ
from tests.f5.documents import Document, collection
from tests.f5.requests import MEMBER, WEB, an_ensure, an_identity
from tests.f5.server import Bigip
from tests.f5.unit import Unit
from tests.webhooks.requests import ADDRESS, a_deregister, a_drain, a_list
from tests.webhooks.troubled import Ask, settled, told
from webhooks.f5.driver import F5Driver


def _members(bigip: Bigip) -> list[str]:
    """Return the members of the pool."""
    return list(bigip.unit.running.pool(WEB).members)


class TestOtherHands:
    """What somebody else does to our members."""

    async def test_removed_by_hand_is_done(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """Nothing is left to drain or to take out."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        bigip.unit.remove_member(WEB, MEMBER)

        assert isinstance(await driver.drain_backend(a_drain(lb_info)), Succ)
        assert isinstance(await driver.deregister_backend(a_deregister(lb_info)), Succ)
        assert {} == bigip.unit.running.nodes

    async def test_removed_while_it_should_be_there(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """It is listed no more; the epoch stays, for nothing else was lost with it.

        Ensuring puts it back.
        """
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        before = await driver.list_backends(a_list(lb_info))
        bigip.unit.remove_member(WEB, MEMBER)

        after = await driver.list_backends(a_list(lb_info))
        bigip.tokens.clear()
        later = await driver.list_backends(a_list(lb_info))
        await driver.ensure_backend(an_ensure(lb_info))

        assert [MEMBER] == _members(bigip)
        assert ([], []) == (list(after.backends), list(later.backends))
        assert before.epoch == after.epoch == later.epoch

    async def test_somebody_elses_member(self, driver: F5Driver, bigip: Bigip) -> None:
        """It is neither changed nor taken out; ensuring says what to do."""
        bigip.unit.running.add_member(WEB, {"name": ADDRESS, "description": "theirs"})
        before = bigip.unit.members(WEB)
        lb_info = an_identity(bigip)

        with pytest.raises(Fail, match=r"'theirs'.*take it out by hand"):
            await driver.ensure_backend(an_ensure(lb_info))
        for answer in (
            await driver.drain_backend(a_drain(lb_info)),
            await driver.deregister_backend(a_deregister(lb_info)),
        ):
            assert isinstance(answer, Succ)
            assert "left alone" in str(answer.msg)
        assert before == bigip.unit.members(WEB)

    async def test_another_records_member(self, driver: F5Driver, bigip: Bigip) -> None:
        """A late word of a record that is gone does not touch its successor."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info, record="old"))
        await driver.ensure_backend(an_ensure(lb_info, record="new"))

        await driver.drain_backend(a_drain(lb_info, record="old"))
        await driver.deregister_backend(a_deregister(lb_info, record="old"))

        member = bigip.unit.member(WEB, MEMBER)
        description = str(member["description"])
        assert ("lbcf:new", "user-enabled") == (
            description.partition("/")[0],
            member["session"],
        )


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
