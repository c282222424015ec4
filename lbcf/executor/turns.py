"""The loop of every turn: a life of the core asks for a step, and learns what came of it."""

from collections.abc import Awaitable, Callable
from typing import TypeGuard, TypeVar

from lbcf.core.lifecycle.steps import Finish
from lbcf.core.lifecycle.turn import Now
from lbcf.runtime.clock import Clock


State = TypeVar("State")
Step = TypeVar("Step")
Last = TypeVar("Last")
Reply = TypeVar("Reply")


def read_now(clock: Clock) -> Now:
    """Read the clock once for one decision."""
    return Now(clock.now(), clock.monotonic(), clock.jitter(), clock.boot)


def is_finish(step: object) -> TypeGuard[Finish]:
    """Whether a step is the end of a turn."""
    return isinstance(step, Finish)


def _never(_step: object, _error: BaseException) -> None:
    """Take nothing in of a step that raised."""


async def take_turn(
    state: State,
    next_step: Callable[[State, Now], Step],
    learn: Callable[[State, Step, Reply, Now], State],
    perform: Callable[[Step], Awaitable[Reply]],
    *,
    is_last: Callable[[Step], TypeGuard[Last]],
    now: Callable[[], Now],
    remember: Callable[[State], None],
    after_error: Callable[[Step, BaseException], Reply | None] = _never,
) -> Last:
    """Go from step to step up to one that is not to be performed here.

    Args:
        state: what is known.
        next_step: the core's question.
        learn: what the core makes of a reply.
        perform: carries out a step.
        is_last: tells the steps that end this.
        now: reads the clock.
        remember: keeps the state after each step, so that a turn that an error ends in
            the middle forgets nothing.
        after_error: what is learnt of a step that raised, None: nothing.

    Raises:
        Exception: as `perform`.
    """
    while True:
        step = next_step(state, now())
        if is_last(step):
            return step
        try:
            reply = await perform(step)
        except BaseException as error:
            lost = after_error(step, error)
            if lost is not None:
                remember(learn(state, step, lost, now()))
            raise
        state = learn(state, step, reply, now())
        remember(state)
