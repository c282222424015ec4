"""The shipped drivers that the shared suite runs for: a new one gets a line here."""

from collections.abc import Callable, Iterable, Mapping

import pytest

from tests.elbv2.rig import Elbv2Rig
from tests.envoy.rig import EnvoyRig
from tests.f5.rig import F5Rig
from tests.haproxy.rig import HaproxyRig, SlotsRig
from tests.netscaler.rig import NetscalerRig
from tests.webhooks.rig import Rig


RIGS: Mapping[str, type[Rig]] = {
    "f5": F5Rig,
    "netscaler": NetscalerRig,
    "elbv2": Elbv2Rig,
    "haproxy": HaproxyRig,
    "slots": SlotsRig,
    "envoy": EnvoyRig,
}


def each(
    *names: str, of: Callable[[type[Rig]], Iterable[tuple[object, ...]]]
) -> pytest.MarkDecorator:
    """Run a test with each driver, and with each tuple of values that it has of it."""
    return pytest.mark.parametrize(
        ("rig", *names),
        [
            pytest.param(name, *values, marks=kind.marks)
            for name, kind in RIGS.items()
            for values in of(kind)
        ],
        indirect=["rig"],
    )


def those(which: Callable[[type[Rig]], object]) -> pytest.MarkDecorator:
    """Run a test with each driver of which something holds."""
    return each(of=lambda kind: [()] if which(kind) else [])
