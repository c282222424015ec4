"""A controller in dry run: it shows all that it would do, and does none of it."""

import aiohttp
import pytest

from tests.compat.scene import Scene
from tests.e2e import objects
from tests.e2e.stage import Process


pytestmark = pytest.mark.cluster

LIFE = (
    "createLoadBalancer",
    "ensureLoadBalancer",
    "generateBackendAddr",
    "ensureBackend",
)


async def _until_shown(scene: Scene, process: Process) -> list[tuple[str, str]]:
    """Wait until the last step of a registration is shown; return all steps, each once.

    Nothing is written down, so that what is due once in a while is due again.
    """

    async def shown() -> bool:
        patches = process.events("dry_run.would_patch")
        conditions = [
            condition["reason"]
            for patch in patches
            if patch["target"] == "backendrecords"
            for condition in patch["body"].get("status", {}).get("conditions", ())
        ]
        return "Registered" in conditions

    await scene.until("the registration is shown", shown)
    kinds = ("would_create", "would_patch", "would_call", "called")
    told = [e for kind in kinds for e in process.events(f"dry_run.{kind}")]
    found = [event for event in told if scene.stage.namespace in str(event)]
    found.sort(key=lambda event: str(event["timestamp"]))
    steps = [
        (str(e["event"]).removeprefix("dry_run."), str(e["target"])) for e in found
    ]
    return list(dict.fromkeys(steps))


@pytest.mark.parametrize("accepts", [True, False])
async def test_dry_run_writes_nothing_and_shows_everything(
    empty: Scene, accepts: bool
) -> None:
    """No object, no Lease, no Event; a driver is called if it takes dryRun."""
    stage, driver = empty.stage, empty.driver
    await empty.setting(acceptDryRunCall=accepts)
    await stage.add_pod("a", "10.0.0.1")

    process = await stage.start("controller", "--dry-run", "--record-events")
    steps = await _until_shown(empty, process)

    step = "called" if accepts else "would_call"
    assert [(step, name) for name in LIFE] == [s for s in steps if s[0] == step]
    created = [target for kind, target in steps if kind == "would_create"]
    assert ["backendrecords", "leases"] == created
    assert ("would_patch", "loadbalancerdrivers") in steps
    calls = [call for call in driver.calls if call.operation in LIFE]
    assert [accepts] * len(calls) == [call.body["dryRun"] for call in calls]
    asked = list(dict.fromkeys(call.operation for call in calls))
    assert [name for name in LIFE if accepts] == asked
    assert accepts or not driver.calls
    flags = dict(zip(process.argv[4::2], process.argv[5::2], strict=False))
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{flags['--metrics-bind-address']}/metrics") as answer,
    ):
        page = await answer.text()
    line = f'lbcf_dry_run_steps_total{{step="{step}",target="ensureBackend"}} '
    assert float(page.partition(line)[2].partition("\n")[0]) >= 1

    assert 0 == await process.end()

    async def verbs() -> set[str]:
        """What it has asked; a watch is logged when the API server notices its end."""
        return {one.verb for one in stage.cluster.audit(stage.user("controller"))}

    async def watched() -> bool:
        return "watch" in await verbs()

    await stage.until("its watches are in the audit log", watched)
    assert {"get", "list", "watch"} == await verbs()
    assert () == await stage.listed(objects.RECORDS)
    assert () == await stage.listed(objects.EVENTS)


async def test_dry_run_shows_removals_beside_the_real_thing(empty: Scene) -> None:
    """Records that exist are read as they are; their end is shown once."""
    stage = empty.stage
    await stage.start("controller")
    await empty.setting()
    await stage.add_pod("a", "10.0.0.1")
    await empty.until_members("10.0.0.1:80")
    assert 0 == await stage.processes.pop("controller").end()
    await stage.delete(objects.PODS, "a")

    process = await stage.start("controller", "--dry-run")

    async def shown() -> bool:
        return bool(process.events("dry_run.would_delete"))

    await empty.until("the removal is shown", shown)
    [record] = await stage.listed(objects.RECORDS)
    [told] = process.events("dry_run.would_delete")
    assert record.meta.key.name in told["path"]
    assert None is record.meta.deleting_since
    assert {"10.0.0.1:80"} == empty.driver.addresses
