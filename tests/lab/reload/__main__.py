"""Reloads a HAProxy again and again, and prints what that cost."""

import argparse
import asyncio
import shutil
import statistics
import tempfile

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import attrs

from tests.haproxy.driver_process import HERE, serving
from tests.haproxy.proxy import Haproxy
from tests.haproxy.reloads import (
    Reload,
    SteadyTraffic,
    members,
    register,
    reload_under,
)
from tests.haproxy.requests import an_identity


@attrs.frozen
class Options:
    """What is to be measured.

    Attributes:
        reloads: how many.
        rate: requests per second.
        members: of the backend.
        backend: of the HAProxy of `tests.haproxy.proxy`.
    """

    reloads: int
    rate: float
    members: int
    backend: str


async def measured(options: Options, folder: Path) -> None:
    """Reload, and print."""
    async with AsyncExitStack() as stack:
        proxy = await Haproxy.start(folder)
        stack.push_async_callback(proxy.stop)
        flags = (*HERE, "--restore", "--allow-sockets", proxy.socket)
        driver = await stack.enter_async_context(serving(*flags))
        addresses = await stack.enter_async_context(members(options.members))
        lb_info = an_identity(proxy, backend=options.backend)
        names = await register(driver.url, lb_info, addresses)
        traffic = SteadyTraffic(proxy.url_of(options.backend), options.rate)
        report(await reload_under(proxy, traffic, names, options.reloads), traffic)


def report(reloads: Sequence[Reload], traffic: SteadyTraffic) -> None:
    """Print the figures."""
    for name, values in (
        ("signal to members back", [one.seconds for one in reloads]),
        ("first answer to members back", [one.gap for one in reloads]),
        ("requests", traffic.seconds),
    ):
        found = statistics.quantiles(values, n=100, method="inclusive")
        print(
            f"{name}: p50 {found[49] * 1000:.0f} ms, p99 {found[98] * 1000:.0f} ms, "
            f"most {max(values) * 1000:.0f} ms"
        )
    print(f"{sum(traffic.answers.values())} requests, {traffic.failed} failed:")
    print(dict(traffic.answers))


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="tests.lab.reload", description=__doc__)
    parser.add_argument("--reloads", type=int, default=20)
    parser.add_argument("--rate", type=float, default=300)
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--plain", action="store_true", help="requests do not wait")
    flags = parser.parse_args()
    backend = "web" if flags.plain else "waiting"
    options = Options(flags.reloads, flags.rate, flags.members, backend)
    folder = Path(tempfile.mkdtemp(prefix="lbcf-reload-", dir="/tmp"))
    try:
        asyncio.run(measured(options, folder))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
