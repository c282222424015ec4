"""The pages of our drivers, and the examples, say what the drivers do."""

import argparse
import ast
import re
import shlex

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import cache
from pathlib import Path

import attrs
import pytest
import yaml

from lbcf.sdk import Driver, Fail, Operation
from tests.manifests.documents import EXAMPLES, ROOT, Document, read_all
from webhooks.device.errors import DeviceError
from webhooks.elbv2 import __main__ as elbv2
from webhooks.elbv2.driver import Elbv2Driver
from webhooks.elbv2.errors import Elbv2Error
from webhooks.elbv2.load_balancers import parse_spec
from webhooks.elbv2.parameters import parse_options as elbv2_options
from webhooks.envoy import __main__ as envoy
from webhooks.envoy.attributes import parse_attributes
from webhooks.envoy.balancers import parse_identity as envoy_identity
from webhooks.envoy.driver import EnvoyDriver
from webhooks.envoy.errors import EnvoyError
from webhooks.envoy.parameters import parse_options as envoy_options
from webhooks.f5 import __main__ as f5
from webhooks.f5.driver import F5Driver
from webhooks.f5.load_balancers import parse_identity as f5_identity
from webhooks.f5.parameters import parse_options as f5_options
from webhooks.haproxy import __main__ as haproxy
from webhooks.haproxy.driver import HaproxyDriver
from webhooks.haproxy.errors import HaproxyError
from webhooks.haproxy.load_balancers import parse_identity as haproxy_identity
from webhooks.haproxy.parameters import parse_options as haproxy_options
from webhooks.netscaler import __main__ as netscaler
from webhooks.netscaler.driver import NetscalerDriver
from webhooks.netscaler.load_balancers import parse_identity as netscaler_identity
from webhooks.netscaler.parameters import parse_options as netscaler_options


FAULTS = ROOT / "docs" / "driver-faults.md"
COMMON = {"--bind-address", "--log-level", "--log-format", "--grace-period"}
"""Flags of the SDK that the pages name."""

OPTIONAL = {Operation.DRAIN_BACKEND.value, Operation.LIST_BACKENDS.value}
"""What a driver has to be declared with for it to be called."""

SHORTEST = 6
"""Letters of a message that are worth looking for."""

REFUSALS = (DeviceError, Elbv2Error, EnvoyError, HaproxyError, Fail)


@attrs.frozen
class Shipped:
    """A driver of ours.

    Attributes:
        name: of its page, its package and its example.
        kind: the driver.
        port: where it listens unless told otherwise.
        add_flags: describes its flags.
        parse_spec: reads an lbSpec.
        parse_options: reads parameters of a group.
        parse_attributes: reads attributes of a load balancer; None: it has none.
    """

    name: str
    kind: type[Driver]
    port: int
    add_flags: Callable[[argparse.ArgumentParser], None]
    parse_spec: Callable[[Mapping[str, str]], object]
    parse_options: Callable[[Mapping[str, str]], object]
    parse_attributes: Callable[[Mapping[str, str]], object] | None = None

    @property
    def page(self) -> Path:
        """What users read."""
        return ROOT / "docs" / f"{self.name}.md"

    @property
    def parser(self) -> argparse.ArgumentParser:
        """What reads its own flags."""
        parser = argparse.ArgumentParser(add_help=False)
        self.add_flags(parser)
        return parser

    def documents(self) -> Iterator[Document]:
        """Give what the page and the example have as YAML, as far as it is objects."""
        text = self.page.read_text()
        for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL):
            yield from (one for one in yaml.safe_load_all(block) if "kind" in one)
        yield from read_all(EXAMPLES / f"driver-{self.name}.yaml")

    def specs(self, kind: str) -> list[Document]:
        """Return the specs of all objects of a kind, those of the page first."""
        return [one["spec"] for one in self.documents() if one["kind"] == kind]


SHIPPED = (
    Shipped("f5", F5Driver, f5.DEFAULT_PORT, f5.add_flags, f5_identity, f5_options),
    Shipped(
        "netscaler",
        NetscalerDriver,
        netscaler.DEFAULT_PORT,
        netscaler.add_flags,
        netscaler_identity,
        netscaler_options,
    ),
    Shipped(
        "elbv2",
        Elbv2Driver,
        elbv2.DEFAULT_PORT,
        elbv2.add_flags,
        parse_spec,
        elbv2_options,
    ),
    Shipped(
        "haproxy",
        HaproxyDriver,
        haproxy.DEFAULT_PORT,
        haproxy.add_flags,
        haproxy_identity,
        haproxy_options,
    ),
    Shipped(
        "envoy",
        EnvoyDriver,
        envoy.DEFAULT_PORT,
        envoy.add_flags,
        envoy_identity,
        envoy_options,
        parse_attributes,
    ),
)

each = pytest.mark.parametrize("shipped", SHIPPED, ids=lambda one: one.name)


@each
def test_all_flags_are_told(shipped: Shipped) -> None:
    """The page names each flag, and none that is not there."""
    actions = shipped.parser._actions  # noqa: SLF001  (there is no other way)
    known = {flag for action in actions for flag in action.option_strings}
    table = re.findall(r"^\| `(--[^|]*)\|", shipped.page.read_text(), re.MULTILINE)

    assert known | COMMON == set(re.findall(r"--[a-z-]+", " ".join(table)))


@each
def test_command_lines_are_taken(shipped: Shipped) -> None:
    """What the page has people type is taken, and names the port of the manifest."""
    text = shipped.page.read_text().replace("\\\n", " ")
    lines = re.findall(
        rf"^\$ python -m webhooks\.{shipped.name} (.*)$", text, re.MULTILINE
    )
    for line in lines:
        _, left = shipped.parser.parse_known_args(shlex.split(line))
        assert ["--bind-address", f"127.0.0.1:{shipped.port}"] == left
    assert 1 == len(lines)


@each
def test_load_balancers_are_taken(shipped: Shipped) -> None:
    """Each of the page and of the example is one that the driver could look for."""
    found = shipped.specs("LoadBalancer")
    for spec in found:
        shipped.parse_spec(spec["lbSpec"])
        if shipped.parse_attributes is not None:
            shipped.parse_attributes(spec.get("attributes", {}))
            continue
        assert shipped.name == "elbv2" or not spec.get("attributes")
    assert found


@each
def test_drivers_are_declared_as_they_are(shipped: Shipped) -> None:
    """What the page's manifest says of a driver, it says itself; 10 s where unsaid."""
    spec, *examples = shipped.specs("LoadBalancerDriver")
    late = timedelta(seconds=spec.get("lateEffectSeconds", 10))

    assert f"http://127.0.0.1:{shipped.port}" == spec["url"]
    assert OPTIONAL == {webhook["name"] for webhook in spec["webhooks"]}
    assert shipped.kind.late_effect == late
    for one in [spec, *examples]:
        assert shipped.kind.member_key.value == one["memberKey"]
        calls = one.get("maxConcurrentCalls", shipped.kind.max_concurrent_calls)
        assert calls <= shipped.kind.max_concurrent_calls
        batches = [webhook.get("batch") for webhook in one["webhooks"]]
        largest = max((batch["maxItems"] for batch in batches if batch), default=1)
        assert largest <= shipped.kind.batch.max_items


@each
def test_parameters_are_told(shipped: Shipped) -> None:
    """The page names each parameter; those of the example are taken."""
    with pytest.raises(REFUSALS, match="known are ") as caught:
        shipped.parse_options({"no such": "1"})
    known = str(caught.value).partition("known are ")[2].split(", ")
    _, _, section = shipped.page.read_text().partition("## Parameters of a group\n")
    told = re.findall(r"`(\w+)`", section.partition("\n## ")[0])

    assert set(known) <= set(told)
    for spec in shipped.specs("BackendGroup"):
        shipped.parse_options(spec.get("parameters", {}))


@cache
def _texts() -> str:
    """Return all texts that are in drivers, and in what they are tested on."""
    places = (
        "lbcf",
        "webhooks",
        "tests/f5",
        "tests/netscaler",
        "tests/elbv2",
        "tests/haproxy",
        "tests/envoy",
    )
    files = [path for place in places for path in (ROOT / place).rglob("*.py")]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text()))]
    return "\n".join(
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _pieces(message: str) -> list[str]:
    """Return what is said word by word of a message with names and numbers in it."""
    parts = re.split(r"\.\.\.|\b[A-Z]{1,6}\b|[0-9]+|['()\[\]]|: |, ", message)
    return [part.strip(" :;,-`") for part in parts]


@each
def test_messages_are_said(shipped: Shipped) -> None:
    """What a page says that the driver says stands in the driver."""
    section = shipped.page.read_text().partition("## What it says")[2]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("|")]
    told = [text for row in rows for text in re.findall(r"`([^`]+)`", row[1])]

    assert [] == _unsaid(told)
    assert 4 <= len(told)


def test_messages_under_faults_are_said() -> None:
    """So does what is said meanwhile."""
    rows = FAULTS.read_text().split("\n| ")[1:]
    told = [t for row in rows for t in re.findall(r"`([^`]+)`", row.split("|")[1])]

    assert [] == _unsaid(told)
    assert 30 <= len(told)


def _unsaid(told: list[str]) -> list[str]:
    """Return the pieces of messages that stand nowhere."""
    pieces = [piece for message in told for piece in _pieces(message)]
    texts = _texts().replace("`", "")
    return [one for one in pieces if len(one) >= SHORTEST and one not in texts]
