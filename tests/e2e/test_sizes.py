"""Groups that want more than there is room for."""

import asyncio
import re
import signal

from functools import partial
from pathlib import Path

import pytest

from lbcf.core.model.names import LABEL_DRAINING
from tests.e2e import objects
from tests.e2e.stage import Stage
from tests.e2e.watched import metrics_of


pytestmark = [pytest.mark.cluster, pytest.mark.long]


async def test_a_namespace_has_no_more_records_than_it_may(bare: Stage) -> None:
    """What is beyond is told by the group and a metric, and made when others are gone."""
    await bare.start_driver()
    await bare.start("controller", "--max-records-per-namespace", "4")
    await bare.start("deregistrar")
    await bare.create(objects.DRIVERS, objects.a_driver(bare.driver_url))
    await bare.create(objects.LOAD_BALANCERS, objects.a_load_balancer())
    first = [f"192.0.2.{number}:80" for number in range(3)]
    second = [f"198.51.100.{number}:80" for number in range(3)]
    await bare.create(objects.GROUPS, a_static_group("first", first))
    await bare.until_registered(*first)

    await bare.create(objects.GROUPS, a_static_group("second", second))
    await bare.until_registered(*first, second[0])
    await bare.until("the group says so", lambda: says(bare, "RecordQuotaExceeded"))
    series = f'lbcf_records_beyond_quota{{group="second",namespace="{bare.namespace}"}}'
    assert f"{series} 2.0" in await metrics_of(bare, "controller")

    await bare.delete(objects.GROUPS, "first")
    await bare.until_registered(*second)
    await bare.until("the group is ready", lambda: says(bare, "Reconciled"))
    assert series not in await metrics_of(bare, "controller")


def a_static_group(
    name: str, addresses: list[str], **spec: object
) -> dict[str, object]:
    """A group of fixed addresses."""
    group = objects.a_group(name)
    kept = {key: value for key, value in group["spec"].items() if key != "pods"}
    return {**group, "spec": {**kept, "static": addresses, **spec}}


async def says(stage: Stage, reason: str) -> bool:
    """Whether the second group is ready, or not, for a reason."""
    group = await stage.get(objects.GROUPS, "second")
    return group is not None and group.condition("Ready").get("reason") == reason


LARGEST = {"text": "\N{GRINNING FACE}" * 16_380}
"""As many characters as a map may have, of those that take most bytes."""


async def test_three_hundred_records_of_the_largest_size(bare: Stage) -> None:
    """No process takes 300 MiB, neither while they are made nor when it starts anew."""
    await bare.start_driver()
    await bare.start("controller")
    await bare.start("deregistrar")
    await bare.create(objects.DRIVERS, objects.a_driver(bare.driver_url))
    front = objects.a_load_balancer()
    front["spec"] |= {"lbSpec": LARGEST, "attributes": LARGEST}
    await bare.create(objects.LOAD_BALANCERS, front)
    addresses = [f"192.0.2.{n % 250}:{n}" for n in range(1, 301)]
    group = a_static_group("web", addresses, parameters=LARGEST)
    await bare.create(objects.GROUPS, group)
    await bare.until_registered(*addresses)
    await asyncio.gather(
        *(
            inject(bare, record.meta.key.name, f"{number:04}")
            for number, record in enumerate(await bare.listed(objects.RECORDS))
        )
    )

    peaks = {name: peak_of(bare, name) for name in ("controller", "deregistrar")}
    for name in list(peaks):
        await bare.processes[name].end(signal.SIGTERM)
        await bare.processes[name].start()
        await bare.until_logged(bare.processes[name], "work.started", 2)
        peaks[f"{name}, started anew"] = peak_of(bare, name)

    print("MiB:", peaks)
    assert 4 == len(peaks)
    assert max(peaks.values()) < 300


async def test_sixty_load_balancers_that_lose_all_members_at_once(bare: Stage) -> None:
    """Each looks up which of 3,000 records were its own: by one list, below 250 MiB.

    A list for each took 276 MiB, the one takes 128 (115 before the reset), and 208 on a
    machine that was so busy that some load balancers' epochs came later than others'.
    """
    await bare.start_driver()
    # 9,000 writes as fast as they go: an API server that shares two cores with them and
    # with other tests once left a Lease unrenewed for 5.5 s.
    await bare.start("controller", "--no-leader-elect")
    await bare.create(objects.DRIVERS, objects.a_driver(bare.driver_url))
    fronts = [f"front-{number}" for number in range(60)]
    for front in fronts:
        await bare.create(objects.LOAD_BALANCERS, objects.a_load_balancer(front))
    addresses = [f"192.0.2.{number}:80" for number in range(50)]
    group = a_static_group("web", addresses, loadBalancers=fronts)
    await bare.create(objects.GROUPS, group)
    await until_members(bare, 3_000)
    await bare.until_epoch()
    before = peak_of(bare, "controller")

    await bare.control("restart", now=True)
    await until_members(bare, 3_000)
    await bare.until_epoch()

    peak = peak_of(bare, "controller")
    print("MiB:", before, peak)
    assert peak < 250


async def until_members(stage: Stage, count: int) -> None:
    """Wait until the driver has so many members; a tenth of them takes no minute."""
    for enough in range(count // 10, count + 1, count // 10):
        await stage.until(f"{enough} are members", partial(has_members, stage, enough))


async def has_members(stage: Stage, count: int) -> bool:
    """Whether the driver has so many members."""
    await asyncio.sleep(0.5)  # what is asked names all of them
    return len((await stage.control("members"))["members"]) >= count


async def inject(stage: Stage, record: str, key: str) -> None:
    """Put as much into a record's status as a driver could, no two of them alike."""
    info = {key: LARGEST["text"][len(key) :]}
    body = {"status": {"injectedInfo": info}}
    await stage.patch(objects.RECORDS, record, body, "status")


def peak_of(stage: Stage, name: str) -> int:
    """MiB that a process had in memory at most."""
    pid = stage.processes[name].pid
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) // 1024


async def test_a_driver_that_is_gone_leaves_no_series(bare: Stage) -> None:
    """Once it has been used and deleted, neither process tells of it any more."""
    await bare.start_driver()
    await bare.start("controller")
    await bare.start("deregistrar")
    await bare.setting()
    await bare.add_pod("a", "10.0.0.1")
    await bare.until_registered("10.0.0.1:80")
    name = f'driver="{bare.namespace}/memory"'
    assert name in await metrics_of(bare, "controller")
    await bare.delete(objects.GROUPS, "web")
    await bare.until_registered()
    assert name in await metrics_of(bare, "deregistrar")

    draining = {"metadata": {"labels": {LABEL_DRAINING: "true"}}}
    await bare.delete(objects.LOAD_BALANCERS, "front")
    await bare.patch(objects.DRIVERS, "memory", draining)
    await bare.delete(objects.DRIVERS, "memory")

    async def is_forgotten() -> bool:
        pages = [await metrics_of(bare, p) for p in ("controller", "deregistrar")]
        return not any(name in page for page in pages)

    await bare.until("nothing is told of it", is_forgotten)
