"""The driver as a process: flags, HTTP, an orderly end."""

import signal

from pathlib import Path

from aiohttp import ClientSession

from tests.netscaler.appliances import Site
from tests.netscaler.test_life import KEY
from tests.webhooks.processes import running
from tests.webhooks.requests import ADDRESS, RECORD
from webhooks.netscaler.members import Mark


async def test_an_end_in_time(site: Site, tmp_path: Path) -> None:
    """What is not saved when the process is told to end is saved before it does."""
    authority = tmp_path / "ca.pem"
    site.authority.cert_pem.write_to_path(str(authority))
    flags = (
        *("--allow-devices", site.lb_info["devices"]),
        *("--credentials", str(site.secrets)),
        *("--device-ca-file", str(authority)),
        *("--name-prefix", "teama", "--save-period", "3600"),
    )
    body = {"recordID": RECORD, "lbInfo": site.lb_info, "backendAddr": ADDRESS}
    async with (
        running("webhooks.netscaler", *flags) as driver,
        ClientSession() as client,
    ):
        url = f"{driver.url}/ensureBackend"
        async with client.post(url, json=body) as response:
            answer = await response.json()
        before = site.unit.saves
        driver.child.send_signal(signal.SIGTERM)
        status = await driver.child.wait()

    (member,) = site.unit.saved.members.values()
    assert ("Succ", 0, 0, 1) == (answer["status"], before, status, site.unit.saves)
    mark = Mark.read("teama", member.customserverid)
    assert mark is not None
    assert (KEY[2], RECORD) == (member.port, mark.record_id)
    assert {} == site.unit.sessions
