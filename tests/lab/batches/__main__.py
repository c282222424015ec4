"""`python -m tests.lab.batches`: members registered and taken out, with batches and without."""

import argparse
import asyncio
import sys

from collections.abc import Sequence

import attrs

from lbcf import sdk
from lbcf.core.model.operations import Operation
from tests.lab.batches.caller import Caller, NoProgressError, as_object, followed
from tests.lab.batches.kills import VICTIMS, killed
from tests.lab.batches.poison import MEMBERS, USUAL, delay, poisons_of
from tests.lab.batches.stages import LONG, PACE, STAGES, Stage
from tests.lab.quiet import log_warnings_only
from tests.sdk.services import serving


@attrs.frozen
class Measured:
    """What a stage took.

    Attributes:
        registered: seconds.
        taken_out: seconds.
        calls: of the driver.
    """

    registered: float
    taken_out: float
    calls: int


async def measure(name: str, stage: Stage, number: int, *, batched: bool) -> Measured:
    """Register members and take them out; print how long that takes."""
    # A member of a Citrix ADC is out with its second call, once that is saved: singly, after
    # the first calls of all others.
    patience = 60 if batched else 60 + number
    async with stage(number) as scene:
        service = sdk.Service(scene.driver)
        async with serving(service) as url:
            kind = as_object(scene.driver, url, batched=batched)
            async with Caller.of(kind, scene.lb_info) as caller:
                scene.phase("members come")
                registered = await followed(
                    caller, Operation.ENSURE_BACKEND, scene.of, patience=patience
                )
                calls = caller.calls()
                scene.phase("members go")
                ended = await followed(
                    caller, Operation.DEREGISTER_BACKEND, scene.of, patience=patience
                )
                last = caller.calls() - calls
        way = "in batches" if batched else "singly"
        print(
            f"{name}, {number} members {way}: registered in {registered.seconds:.1f} s "
            f"by {calls} calls of the driver, taken out in {ended.seconds:.1f} s by {last}; "
            f"failed attempts {len(registered.failures)} + {len(ended.failures)}; "
            f"behind it {dict(scene.behind())}",
            flush=True,
        )
        return Measured(registered.seconds, ended.seconds, calls + last)


def told(singly: Measured, batched: Measured) -> str:
    """Return how many times as fast it goes in batches, and by what part of the calls."""
    return (
        f"registered {singly.registered / batched.registered:.1f} times as fast, "
        f"taken out {singly.taken_out / batched.taken_out:.1f} times, by "
        f"{batched.calls} calls of the driver in place of {singly.calls}"
    )


async def main(argv: Sequence[str] | None = None) -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.batches", description=__doc__
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(STAGES)}")
    parser.add_argument(
        "--kills",
        type=int,
        help=f"kill drivers so often, instead, of {', '.join(VICTIMS)}",
    )
    parser.add_argument(
        "--poison",
        action="store_true",
        help="have one member of 200 refused, or the driver hang with it, instead",
    )
    parser.add_argument(
        "--item-milliseconds",
        type=float,
        help="what an appliance takes for each change of a batch (default: 5)",
    )
    parser.add_argument("--members", type=int, help="in place of the usual number")
    parser.add_argument(
        "--place",
        type=int,
        default=0,
        help="of the poisoned one among the members, counted from 0 (default: the first)",
    )
    chosen = parser.parse_args(argv)
    log_warnings_only()
    if chosen.item_milliseconds is not None:
        PACE.item = chosen.item_milliseconds / 1000
    if chosen.poison:
        for name in chosen.names or USUAL:
            await poison(name, chosen.members or MEMBERS, chosen.place)
        return
    if chosen.kills:
        for name in chosen.names or VICTIMS:
            print(name, await killed(name, chosen.kills), flush=True)
        return
    for name, (stage, usual) in STAGES.items():
        if name in (chosen.names or STAGES.keys() - LONG):
            await compare(name, stage, chosen.members or usual)


async def poison(name: str, number: int, place: int) -> None:
    """Measure how long one member that is refused keeps the others."""
    well = await delay(name, None, number, place)
    print(f"{name}, {number} members: the last one after {well.last:.2f} s", flush=True)
    for how in await poisons_of(name):
        found = await delay(name, how, number, place)
        print(
            f"{name}, one of them such that {how}: the last one that is well after "
            f"{found.last:.2f} s, {found.last - well.last:+.2f} s; no member later by "
            f"more than {found.more_than(well):.2f} s; of it was said: {found.said}",
            flush=True,
        )


async def compare(name: str, stage: Stage, number: int) -> None:
    """Measure a stage in batches and singly, and print the ratios."""
    if name.endswith("one-by-one"):
        await measure(name, stage, number, batched=False)
        return
    batched = await measure(name, stage, number, batched=True)
    singly = await measure(name, stage, number, batched=False)
    print(f"{name}: {told(singly, batched)}", flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except NoProgressError as told_why:
        sys.exit(str(told_why))
