"""What the driver of one load balancer of a Bind is asked, and what its answers mean.

Before it: `binds` has found out what is due. After it: a change of the entry's status,
which `binds` writes together with those of the others.
"""

from datetime import timedelta
from functools import partial

import attrs
import structlog

from lbcf.controller.patience import Patience
from lbcf.controller.unclear import UnclearCreates
from lbcf.controller.view import View
from lbcf.core.lifecycle import bind_life, locking
from lbcf.core.lifecycle.bind_life import Change, Trouble
from lbcf.core.lifecycle.turn import describe_failure
from lbcf.core.model import binds, names
from lbcf.core.model.binds import Bind, EntryStatus
from lbcf.core.model.operations import Operation
from lbcf.core.model.resources import LoadBalancer, LoadBalancerDriver
from lbcf.core.reasons import Explanation
from lbcf.executor import LoadBalancerCalls
from lbcf.executor.load_balancers import Created, Ensured
from lbcf.runtime.clock import Clock


_log = structlog.get_logger(__name__)


@attrs.frozen
class Learnt:
    """What came of looking at one load balancer.

    Attributes:
        change: of its status, None where there is none.
        again: when to look again, None: when something changes.
    """

    change: Change | None = None
    again: timedelta | None = None


class EntryCalls:
    """Asks, and remembers how long not to ask."""

    def __init__(self, view: View, calls: LoadBalancerCalls, clock: Clock) -> None:
        self._view = view
        self._calls = calls
        self._clock = clock
        self._patience = Patience(clock)
        self._unclear = UnclearCreates(clock)

    async def objection(self, bind: Bind, status: EntryStatus) -> Change:
        """Ask the driver for objections to a load balancer; say what that means."""
        balancer = binds.as_load_balancer(bind, status)
        driver, now = self._view.driver_of(balancer), self._clock.now()
        if isinstance(driver, Explanation):
            return partial(
                bind_life.without_driver,
                reason=driver.reason,
                message=driver.message,
                now=now,
            )
        trouble = await self._calls.validate(balancer, driver)
        if trouble is None:
            self._unclear.begun(balancer.meta.uid)
            return partial(bind_life.begun, now=now)
        question = Operation.VALIDATE_LOAD_BALANCER
        creation = Operation.CREATE_LOAD_BALANCER
        change, _ = self._troubled(balancer, driver, creation, trouble, question)
        return change

    async def ask(
        self,
        bind: Bind,
        balancer: LoadBalancer,
        driver: LoadBalancerDriver,
        operation: Operation,
    ) -> Learnt:
        """Ask the driver of one load balancer; say what its answer means."""
        uid, question, now = balancer.meta.uid, operation, self._clock.now()
        success: Change | None
        if operation is Operation.DELETE_LOAD_BALANCER:
            late = None if balancer.info else self._unclear.rest(uid, driver)
            if late:
                return Learnt(partial(bind_life.unclear, now=now), late)
            success, trouble = (
                bind_life.gone,
                await self._calls.delete(balancer, driver),
            )
        elif operation is Operation.ENSURE_LOAD_BALANCER:
            question, success, trouble = await self._ensure(bind, balancer, driver)
        else:
            success, trouble = await self._create(balancer, driver)
        if trouble is not None:
            found = self._troubled(balancer, driver, operation, trouble, question)
            return Learnt(*found)
        self._patience.forget(uid)
        self._unclear.forget(uid)
        _log.info(
            "bind.load_balancer",
            bind=str(bind.meta.key),
            load_balancer=names.own_name(balancer.meta.key),
            done=operation.value,
        )
        return Learnt(success, timedelta(0))

    async def _create(
        self, balancer: LoadBalancer, driver: LoadBalancerDriver
    ) -> tuple[Change | None, Trouble | None]:
        """Have a load balancer made; say what is learnt, or why nothing is."""
        answer = await self._calls.create(balancer, driver)
        if not isinstance(answer, Created):
            return None, answer
        key = locking.key_of(answer.lock_key, driver.url, answer.info)
        now = self._clock.now()
        done = partial(bind_life.created, identity=answer.info, key=key, now=now)
        return done, None

    async def _ensure(
        self, bind: Bind, balancer: LoadBalancer, driver: LoadBalancerDriver
    ) -> tuple[Operation, Change | None, Trouble | None]:
        """Give a load balancer its attributes, if the driver has no objection to them.

        Returns:
            What was asked last, what is learnt if that succeeds, and why it did not.
        """
        entry = bind.entry(names.own_name(balancer.meta.key))
        wanted = attrs.evolve(
            balancer, attributes=entry.attributes if entry else balancer.attributes
        )
        if wanted.attributes != balancer.attributes:
            objection = await self._calls.validate(wanted, driver, balancer.attributes)
            if objection is not None:
                return Operation.VALIDATE_LOAD_BALANCER, None, objection
        answer = await self._calls.ensure(wanted, driver)
        if not isinstance(answer, Ensured):
            return Operation.ENSURE_LOAD_BALANCER, None, answer
        known = next(iter(balancer.lock_keys), "")
        key = locking.key_of(answer.lock_key, driver.url, balancer.info or {}, known)
        done = partial(
            bind_life.ensured,
            attributes=wanted.attributes,
            key=key,
            now=self._clock.now(),
        )
        return Operation.ENSURE_LOAD_BALANCER, done, None

    def _troubled(
        self,
        balancer: LoadBalancer,
        driver: LoadBalancerDriver,
        operation: Operation,
        trouble: Trouble,
        question: Operation,
    ) -> tuple[Change, timedelta]:
        """Say what went wrong with an operation at a question, and come again."""
        message = describe_failure(trouble, driver, question).message
        pause = self._patience.wait(balancer.meta, question, trouble)
        if question is Operation.CREATE_LOAD_BALANCER:
            self._unclear.answered(balancer.meta.uid, driver, trouble)
        change = partial(
            bind_life.troubled,
            operation=operation,
            trouble=trouble,
            message=message,
            pause=pause,
            generation=balancer.meta.generation,
            now=self._clock.now(),
        )
        return change, pause
