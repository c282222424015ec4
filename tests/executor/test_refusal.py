"""A status that the API server refuses: the record says so, and is otherwise as it was."""

import attrs
import pytest

from prometheus_client import CollectorRegistry

from lbcf.core.lifecycle.steps import WriteStatus
from lbcf.core.model import conditions
from lbcf.core.model.conditions import Condition
from lbcf.core.model.resources import BackendRecord, RecordStatus
from lbcf.core.reasons import Reason
from lbcf.core.selection.desired import DesiredRecord
from lbcf.drivers.pool import DriverPool
from lbcf.executor import Executor, Subject
from lbcf.kube.client import KubeClient
from lbcf.kube.errors import Invalid
from lbcf.kube.kinds import RECORDS
from lbcf.wire.records import render_new_record
from tests.builders import START, a_group, a_key, a_spec
from tests.fakes.clock import VirtualClock
from tests.fakes.loop import run_virtual
from tests.kube.tiny_api import TinyApi


KEY = a_key("web-1")


class Refused:
    """A record, and a process whose writes are too large."""

    def __init__(self) -> None:
        self.api, clock = TinyApi(), VirtualClock()
        self.client = KubeClient(self.api)
        pool = DriverPool(clock, CollectorRegistry())
        self.executor = Executor(self.client, pool, clock)

    async def create(self) -> None:
        """Create the record, its address yet to be found."""
        spec = a_spec(address="")
        desired = DesiredRecord(a_group(), spec, spec.address, ("web-1", 8080))
        body = render_new_record(desired, KEY.name)
        await self.client.create(RECORDS, KEY.namespace, body)

    async def read(self) -> BackendRecord:
        """Read the record."""
        return await self.client.get(RECORDS, KEY)

    async def write(self, status: RecordStatus) -> None:
        """Write a status."""
        record = await self.read()
        subject = Subject(KEY, record.meta.uid)
        await self.executor.perform(subject, WriteStatus(record, status))


def test_refused_status_is_told_once() -> None:
    """A condition says why the record stands still; each turn that follows is silent."""

    async def story() -> tuple[RecordStatus, int]:
        world = Refused()
        await world.create()
        for _ in range(3):
            with pytest.raises(Invalid):
                await world.write(RecordStatus(address="x" * 5000))
        found = await world.read()
        writes = [one for one in world.api.requests if one.startswith("PATCH")]
        return found.status, len(writes)

    status, writes = run_virtual(story())

    (told,) = status.conditions
    assert (conditions.REGISTERED, False) == (told.type, told.status)
    assert "StatusRefused" == told.reason
    assert "maxLength is 4096" in told.message
    assert "" == status.address
    assert 4 == writes


def test_refusal_touches_nothing_but_the_words() -> None:
    """What is registered stays so, and who has signed has signed."""
    registered = Condition(conditions.REGISTERED, True, Reason.REGISTERED, "", 1, START)

    async def story() -> tuple[RecordStatus, RecordStatus]:
        world = Refused()
        await world.create()
        signed = RecordStatus("192.0.2.1:80", {}, (registered,), "c-1")
        await world.write(signed)
        before = (await world.read()).status
        with pytest.raises(Invalid):
            await world.write(attrs.evolve(signed, injected_info={"a": "x" * 20_000}))
        return before, (await world.read()).status

    before, after = run_virtual(story())

    (was,), (told,) = before.conditions, after.conditions
    assert before == attrs.evolve(after, conditions=before.conditions)
    assert was == attrs.evolve(told, reason=was.reason, message=was.message)
    assert "StatusRefused" == told.reason
