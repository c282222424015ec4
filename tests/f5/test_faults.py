"""Units that are busy, slow or away, and answers that get lost: what becomes of calls."""

import contextlib

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from lbcf.sdk import (
    RetryAfter,
    Succ,
    ValidateLoadBalancerRequest,
    ValidationOperation,
)
from tests.f5.requests import MEMBER, WEB, an_ensure, an_identity
from tests.f5.server import Bigip
from tests.webhooks.requests import a_deregister
from webhooks.f5.driver import F5Driver


def _members(bigip: Bigip) -> list[str]:
    """Return the members of the pool."""
    return list(bigip.unit.running.pool(WEB).members)


class TestBusy:
    """Units that cannot just now."""

    @pytest.mark.parametrize("fault", ["busy", "pages"])
    async def test_a_moment_is_bridged(
        self, driver: F5Driver, bigip: Bigip, fault: str
    ) -> None:
        """A few refusals, in JSON or HTML, delay a call and do not fail it."""
        setattr(bigip.faults, fault, 2)

        assert isinstance(
            await driver.ensure_backend(an_ensure(an_identity(bigip))), Succ
        )
        assert [MEMBER] == _members(bigip)

    async def test_slow_units_end_calls_in_time(
        self,
        make_driver: Callable[..., F5Driver],
        bigip: Bigip,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A call ends before its caller gives up."""
        driver = make_driver(answer=timedelta(minutes=1))
        bigip.faults.slow = 30
        now = datetime.now(UTC)
        # However late this machine begins with it: half a second is left then.
        monkeypatch.setattr(type(driver.clock), "now", lambda _clock: now)
        limit = now + timedelta(seconds=0.5)

        with pytest.raises(RetryAfter, match="too slow"):
            await driver.ensure_backend(an_ensure(an_identity(bigip), not_after=limit))
        bigip.faults.slow = 0


class TestLostAnswers:
    """Changes of which nobody knows whether they were made."""

    @pytest.mark.parametrize("fault", ["lost", "unmade"])
    async def test_asking_again_settles_it(
        self, driver: F5Driver, bigip: Bigip, fault: str
    ) -> None:
        """Made or not: the next attempt finds out, and there is one member."""
        lb_info = an_identity(bigip)
        setattr(bigip.faults, fault, 1)
        with pytest.raises(RetryAfter, match="hung up"):
            await driver.ensure_backend(an_ensure(lb_info))

        assert isinstance(await driver.ensure_backend(an_ensure(lb_info)), Succ)
        assert [MEMBER] == _members(bigip)

    @pytest.mark.parametrize("fault", ["lost", "unmade"])
    async def test_a_removal_too(
        self, driver: F5Driver, bigip: Bigip, fault: str
    ) -> None:
        """The same with what is taken out, node included."""
        lb_info = an_identity(bigip)
        await driver.ensure_backend(an_ensure(lb_info))
        setattr(bigip.faults, fault, 3)
        with pytest.raises(RetryAfter, match="hung up"):
            await driver.deregister_backend(a_deregister(lb_info))
        for _ in range(3):
            with contextlib.suppress(RetryAfter):
                await driver.deregister_backend(a_deregister(lb_info))

        assert isinstance(await driver.deregister_backend(a_deregister(lb_info)), Succ)
        assert ([], {}) == (_members(bigip), bigip.unit.running.nodes)

    async def test_a_404_after_an_add_is_looked_into(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """Some versions answer 404 to an add that they made."""
        bigip.faults.bogus = 1

        assert isinstance(
            await driver.ensure_backend(an_ensure(an_identity(bigip))), Succ
        )
        assert [MEMBER] == _members(bigip)

    async def test_old_units_answer_200_for_nothing(
        self, driver: F5Driver, bigip: Bigip
    ) -> None:
        """A member without an address is none."""
        bigip.faults.absent_is_ok = True
        lb_info = an_identity(bigip)

        assert isinstance(await driver.ensure_backend(an_ensure(lb_info)), Succ)
        assert isinstance(await driver.deregister_backend(a_deregister(lb_info)), Succ)
        assert [] == _members(bigip)


async def test_validation_of_a_unit_that_is_away(driver: F5Driver) -> None:
    """An outage says nothing about the load balancer: it is no refusal."""
    request = ValidateLoadBalancerRequest(
        lb_spec={"devices": "https://127.0.0.1:1", "pool": WEB},
        operation=ValidationOperation.CREATE,
    )

    with pytest.raises(RetryAfter, match=r"127\.0\.0\.1:1"):
        await driver.validate_load_balancer(request)
