"""The course of a demo: put up, let traffic flow, break things, settle, judge.

    stack (pieces) -> traffic -> script + kills, side by side -> settle -> retire -> judge

While it runs, `Stage.refresh` shows everything twice a second.
"""

import asyncio
import contextlib
import random
import time

from tests.lab.cluster.audit import read_audit
from tests.lab.demo import children, gates, manifests, stack, traces
from tests.lab.demo.census import REGISTERED, Census
from tests.lab.demo.errors import DemoError
from tests.lab.demo.ground import CONTROLLER, DEREGISTRAR, Ground, refuse_strangers
from tests.lab.demo.journal import Journal
from tests.lab.demo.kills import Killer, interval
from tests.lab.demo.lags import Lags, gate_lags, percentile_ms, sigterm_lags
from tests.lab.demo.options import Options, minima
from tests.lab.demo.screen import Screen
from tests.lab.demo.script import Script
from tests.lab.demo.sigterms import listening
from tests.lab.demo.stage import Stage
from tests.lab.demo.traffic import Traffic
from tests.lab.demo.verdict import Evidence, Verdict, judge, shortfalls
from tests.lab.demo.writes import Writes, count_writes
from tests.lab.traced.judge import Verdict as Followed


START_LIMIT = 120.0
SETTLE_LIMIT = 60.0
EXTRA_SECONDS = 240.0  # how much longer the script may take to reach the minima
WARM_UP = 2.0
PAUSE = 0.2


async def run(
    ground: Ground, options: Options, screen: Screen, journal: Journal
) -> Verdict:
    """Run the demo on a cluster that is up.

    Raises:
        DemoError: it cannot go on.
        ExceptionGroup: the same, out of something that ran beside the script.
    """
    if ground.foreign:
        await refuse_strangers(ground)
    addresses = stack.Addresses.choose()
    async with contextlib.AsyncExitStack() as pieces:
        enter = pieces.enter_async_context
        api = await enter(stack.api_reader(ground))
        await enter(stack.definitions(ground))
        name = await enter(stack.namespace(ground))
        proxy = await enter(stack.running_proxy(ground, addresses, options))
        census = Census(api, name)
        url, told = f"http://{addresses.driver}", addresses.told
        place = manifests.Place(name, url, proxy.lb_spec, proxy.attributes, told)
        programs = stack.our_programs(ground, name, addresses, proxy)
        stage = Stage(ground, options, screen, journal, place, census, proxy, programs)
        if not ground.foreign:
            await gates.give_addresses(ground)
            del programs["deregistrar"]
            programs |= stack.two_deregistrars(ground, name)
            stage.sigterms = await enter(listening(ground, told))
            await enter(stack.beside(stage.sigterms.read()))
        if options.gates:
            await gates.install(ground, name)
        await enter(
            stack.beside(
                *(program.run(journal.ended) for program in programs.values()),
                census.watch_pods(),
                census.watch_records(),
                stage.refresh(),
            )
        )
        await enter(stack.load_balancing(ground, place, census, options))
        return await perform(stage, addresses)


async def perform(stage: Stage, addresses: stack.Addresses) -> Verdict:
    """Everything from the first registered pod to the verdict.

    Raises:
        DemoError: it cannot go on.
    """
    await until_registered(stage)
    seconds = await with_traffic(stage, addresses.web)
    lifecycles = list(stage.census.finished.values())
    writes, lags = audited(stage, lifecycles)
    await leave(stage)
    stage.screen.show(stage.view())
    judged = await followed(stage)
    traffic = stage.running_traffic()
    return judge(
        Evidence(
            seed=stage.options.seed,
            drain=stage.options.drain,
            gates=stage.options.gates,
            lags=lags,
            seconds=seconds,
            figures=traffic.figures,
            failures=traffic.failures,
            journal=stage.journal,
            lifecycles=len(lifecycles),
            waited=len(stage.census.waited),
            writes=writes,
            followed=judged,
            minima=minima(stage.options),
        )
    )


async def until_registered(stage: Stage) -> None:
    """Wait until every pod is a member of the load balancer that serves.

    Raises:
        DemoError: it takes too long; the message holds the ends of the logs.
    """
    stage.journal.tell("waiting for the pods to be registered at the load balancer")
    end = time.monotonic() + START_LIMIT
    while await stage.serving() < manifests.REPLICAS:
        if time.monotonic() > end:
            raise DemoError(_why_not_registered(stage))
        await asyncio.sleep(PAUSE)
    stage.journal.tell(f"{manifests.REPLICAS} pods are registered and serve")


def _why_not_registered(stage: Stage) -> str:
    """Tell people where to look."""
    ready, states = len(stage.census.serving), dict(stage.census.states)
    lines = [
        f"after {START_LIMIT:.0f} s not all pods serve behind the load balancer",
        f"{ready} of {manifests.REPLICAS} pods are ready, records: {states}",
        *(
            f"record {record.name}: {record.state} {record.reason}"
            for record in stage.census.records.values()
        ),
    ]
    for name in stage.programs:
        end = children.tail(stage.ground.folder / f"{name}.log")
        lines.append(f"== {name}.log\n{end}")
    return "\n".join(lines)


async def with_traffic(stage: Stage, address: str) -> float:
    """Let traffic flow, break things meanwhile; the seconds that this took.

    Raises:
        DemoError: the load generator does not work.
    """
    options = stage.options
    limit = WARM_UP + options.seconds + EXTRA_SECONDS + 2 * SETTLE_LIMIT
    traffic = await Traffic.start(
        stage.ground, address, options.rate, limit, http2=stage.proxy.http2
    )
    stage.traffic = traffic
    try:
        async with stack.beside(traffic.read()):
            await asyncio.sleep(WARM_UP)
            begin = time.monotonic()
            await break_things(stage, traffic)
            seconds = time.monotonic() - begin
            await settle(stage)
            await traffic.stop()
    finally:
        await traffic.kill()
    return seconds


async def break_things(stage: Stage, traffic: Traffic) -> None:
    """Run script and kills until the time is over and enough has happened."""
    options, journal, least = stage.options, stage.journal, minima(stage.options)
    controller, driver = stage.programs["controller"], stage.programs["driver"]
    turns = [
        victim
        for name, program in stage.programs.items()
        if name.startswith("deregistrar")
        for victim in (controller, program)
    ]
    # Controller and deregistrars as often as `interval` says, whoever of these it is.
    every = interval(options.seconds, least.kills["controller"]) * len(turns) / 2
    chance = random.Random(options.seed)  # noqa: S311 - one that can be drawn again
    killer = Killer([*turns, driver], journal, every, chance)
    script = Script(
        stage.ground,
        stage.place.namespace,
        stage.proxy,
        stage.census,
        journal,
        killer,
        stage.programs,
        campaign=options.campaign,
    )
    begin = time.monotonic()

    def done() -> bool:
        spent = time.monotonic() - begin
        enough = not shortfalls(least, traffic.figures, journal)
        return spent > options.seconds + (0 if enough else EXTRA_SECONDS)

    try:
        async with stack.beside(killer.run()):
            await script.run(done)
    finally:
        await script.give_back()


async def settle(stage: Stage) -> None:
    """See pods, records and members agree again, with nobody left over.

    That they do not is a trouble.
    """
    stage.journal.tell("no more kills: pods, records and members must agree now")
    end = time.monotonic() + SETTLE_LIMIT
    while not await _agree(stage):
        if time.monotonic() > end:
            stage.journal.trouble(_disagreement(stage))
            return
        await asyncio.sleep(PAUSE)
    stage.journal.tell("pods, records and members agree")


async def _agree(stage: Stage) -> bool:
    """Tell whether every pod has one registered record, and the load balancer one member."""
    await stage.census.list_pods()
    pods, records = len(stage.census.serving), stage.census.records
    registered = stage.census.states[REGISTERED]
    members = len(stage.members)
    return (
        pods == len(stage.census.pods) == registered == len(records) == members
        and members == await stage.serving()
    )


def _disagreement(stage: Stage) -> str:
    """Tell people what does not agree."""
    members = ", ".join(f"{one.name} {one.status}" for one in stage.members)
    return (
        f"pods, records and members do not agree after {SETTLE_LIMIT:.0f} s: "
        f"{len(stage.census.pods)} pods, records {dict(stage.census.states)}, "
        f"members {members or 'none'}; see controller.log and deregistrar.log"
    )


async def leave(stage: Stage) -> None:
    """Delete the group: nothing of it may stay, neither records nor members."""
    stage.journal.tell("deleting group, load balancer and driver")
    try:
        await stack.retire(stage.ground, stage.place, stage.census)
        await stage.look()
    except DemoError as error:
        stage.journal.trouble(str(error))
    if stage.members:
        names = ", ".join(member.name for member in stage.members)
        stage.journal.trouble(
            f"members stay in the load balancer without a record: {names}"
        )


async def followed(stage: Stage) -> Followed | None:
    """What the model says of all that was done, if there is an audit log."""
    ground = stage.ground
    if ground.audit_log is None:
        return None
    name, programs = stage.place.namespace, stage.programs
    return await traces.followed(ground.folder, ground.audit_log, name, programs)


def audited(stage: Stage, lifecycles: list[str]) -> tuple[Writes | None, Lags]:
    """What our processes wrote for these records, and when, if there is an audit log."""
    if stage.ground.audit_log is None:
        return None, Lags()
    events, census = read_audit(stage.ground.audit_log), stage.census
    controller = [event for event in events if event.user == CONTROLLER]
    deregistrar = [event for event in events if event.user == DEREGISTRAR]
    ready = gate_lags(controller, lambda record: census.owners.get(record, ""))
    told = stage.sigterms.moments if stage.sigterms else {}
    living = [record.name for record in census.records.values()]
    ended = sigterm_lags(deregistrar, census.owners, living, told)
    lags = Lags(
        gate_p99_ms=percentile_ms(ready.values()),
        sigterm_p99_ms=percentile_ms(lag for lag in ended.values() if lag >= 0),
        early=tuple(pod for pod, lag in ended.items() if lag < 0),
    )
    return count_writes(events, (CONTROLLER, DEREGISTRAR), lifecycles), lags
