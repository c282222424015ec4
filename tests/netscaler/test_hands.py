"""Other people work on the appliance, too: what becomes of members, and what is said."""

import re

import pytest

from aiohttp import web

from lbcf.sdk import Fail, Running, Succ
from tests.netscaler.appliances import Site
from tests.netscaler.configuration import Member
from tests.netscaler.errors import ALREADY_EXISTS, NO_SUCH_RESOURCE, NitroRefusal
from tests.netscaler.nitro import Trouble, refused
from tests.netscaler.requests import an_ensure, until_done
from tests.netscaler.test_faults import is_binding, is_change
from tests.netscaler.test_life import KEY, the_member
from tests.webhooks.requests import a_deregister, a_drain
from tests.webhooks.troubled import Ask, settled, told
from webhooks.netscaler.driver import NetscalerDriver


class TestHands:
    """Other people work on the appliance, too."""

    async def test_member_removed_between(
        self, site: Site, driver: NetscalerDriver
    ) -> None:
        """What goes while it is being unbound is gone, too."""
        await driver.ensure_backend(an_ensure(site.lb_info))
        site.nitro.troubles.append(
            Trouble(
                lambda: refused(NitroRefusal(258, "No such resource")),
                on=lambda one: one.method == "DELETE",
                late=True,
            )
        )

        await until_done(lambda: driver.deregister_backend(a_deregister(site.lb_info)))

        assert {} == site.unit.running.members

    async def test_member_bound_between(
        self, site: Site, driver: NetscalerDriver
    ) -> None:
        """`Resource already exists` is no failure if what is there is ours."""
        exists = NitroRefusal(ALREADY_EXISTS, "Resource already exists")
        site.nitro.troubles.append(
            Trouble(lambda: refused(exists), on=is_binding, late=True)
        )

        assert isinstance(await driver.ensure_backend(an_ensure(site.lb_info)), Succ)
        assert ["bound"] == [event.what for event in site.unit.events]
        assert "ENABLED" == the_member(site).state

    async def test_somebody_elses_bound_between(
        self, site: Site, driver: NetscalerDriver
    ) -> None:
        """If it is not, that is told, and it stays as it is."""
        theirs = Member("web", "lbcf-198.18.0.1", "", 8080, 3, "theirs")
        exists = NitroRefusal(ALREADY_EXISTS, "Resource already exists")

        def bound_meanwhile() -> web.Response:
            """Bind it a moment before ours."""
            site.unit.running.bind(theirs)
            return refused(exists)

        site.nitro.troubles.append(Trouble(bound_meanwhile, on=is_binding))

        with pytest.raises(Fail, match="bound by somebody else: unbind it"):
            await driver.ensure_backend(an_ensure(site.lb_info))
        members = site.unit.running.members.values()
        assert [("theirs", 3)] == [(one.customserverid, one.weight) for one in members]

    async def test_refused_without_end(
        self, site: Site, driver: NetscalerDriver
    ) -> None:
        """An appliance that says so, and has nothing there, is not asked for ever."""
        exists = NitroRefusal(ALREADY_EXISTS, "Resource already exists")
        site.nitro.troubles.append(Trouble(lambda: refused(exists), 99, is_binding))

        with pytest.raises(Fail, match=r"to rest in 8 steps: .*error 273"):
            await driver.ensure_backend(an_ensure(site.lb_info))

    @pytest.mark.parametrize("operation", ["drain", "deregister"])
    async def test_gone_and_there_without_end(
        self, site: Site, driver: NetscalerDriver, operation: str
    ) -> None:
        """An appliance that refuses what it shows is not asked for ever."""
        await driver.ensure_backend(an_ensure(site.lb_info))
        asks: dict[str, Ask] = {
            "drain": lambda: driver.drain_backend(a_drain(site.lb_info)),
            "deregister": lambda: driver.deregister_backend(a_deregister(site.lb_info)),
        }
        gone = NitroRefusal(NO_SUCH_RESOURCE, "No such resource")
        site.nitro.troubles.append(Trouble(lambda: refused(gone), 99, is_change))

        said = await told(asks[operation])
        site.nitro.troubles.clear()
        await settled(asks[operation])

        assert re.search("to rest in 8 steps: .*error 258", said)
        left = [one.state for one in site.unit.running.members.values()]
        assert {"drain": ["DISABLED"], "deregister": []}[operation] == left

    async def test_server_of_somebody_else(
        self, site: Site, driver: NetscalerDriver
    ) -> None:
        """The server object that the address has is used, and stays."""
        site.unit.change(lambda config: config.add_server("theirs", "198.18.0.1"))

        await driver.ensure_backend(an_ensure(site.lb_info))
        bound = list(site.unit.running.members)
        await until_done(lambda: driver.deregister_backend(a_deregister(site.lb_info)))

        assert [("web", "theirs", 8080)] == bound
        assert ["theirs"] == list(site.unit.saved.servers)

    async def test_server_that_others_use(
        self, site: Site, driver: NetscalerDriver
    ) -> None:
        """A server object of ours stays as long as any member needs it."""
        other = "198.18.0.1:9090"
        await driver.ensure_backend(an_ensure(site.lb_info))
        await driver.ensure_backend(an_ensure(site.lb_info, other, "2"))

        await until_done(lambda: driver.deregister_backend(a_deregister(site.lb_info)))
        between = list(site.unit.running.servers)
        request = a_deregister(site.lb_info, other, "2")
        await until_done(lambda: driver.deregister_backend(request))

        assert (["lbcf-198.18.0.1"], {}) == (between, site.unit.running.servers)

    async def test_our_name_for_another_address(
        self, site: Site, driver: NetscalerDriver
    ) -> None:
        """A server that was renamed, or moved, is never used for another address."""
        site.unit.change(
            lambda config: config.add_server("lbcf-198.18.0.1", "198.18.0.77")
        )

        with pytest.raises(Fail, match=r"already exists \[name, lbcf-198.18.0.1\]"):
            await driver.ensure_backend(an_ensure(site.lb_info))

    async def test_disabled_server(self, site: Site, driver: NetscalerDriver) -> None:
        """It is not enabled by us, but told."""
        await driver.ensure_backend(an_ensure(site.lb_info))
        site.unit.running.servers["lbcf-198.18.0.1"].state = "DISABLED"

        answer = await driver.ensure_backend(an_ensure(site.lb_info))

        text = "enabled, but out of service: is server lbcf-198.18.0.1 disabled?"
        assert Running(msg=text) == answer

    async def test_enabled_by_hand_during_its_drain(
        self, site: Site, driver: NetscalerDriver
    ) -> None:
        """It is disabled again."""
        await driver.ensure_backend(an_ensure(site.lb_info))
        site.unit.traffic.open(KEY, 3600)
        await driver.drain_backend(a_drain(site.lb_info))
        site.unit.enable(the_member(site))

        await driver.drain_backend(a_drain(site.lb_info))

        assert "GOING OUT OF SERVICE" == site.unit.svrstate(the_member(site))
