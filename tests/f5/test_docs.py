"""What the documentation and the examples say is what the driver takes."""

import argparse
import re

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.manifests.documents import EXAMPLES, ROOT
from webhooks.device.devices import AllowedDevices
from webhooks.f5.__main__ import add_flags
from webhooks.f5.load_balancers import parse_identity


PAGE = ROOT / "docs" / "f5.md"
EXAMPLE = EXAMPLES / "driver-f5.yaml"


def _load_balancers(text: str) -> Iterator[dict[str, str]]:
    """Give the lbSpec of each LoadBalancer of a YAML text."""
    for document in yaml.safe_load_all(text):
        if document["kind"] == "LoadBalancer":
            yield document["spec"]["lbSpec"]


def _blocks(path: Path) -> str:
    """Return the YAML blocks of a page."""
    return "\n---\n".join(re.findall(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL))


@pytest.mark.parametrize(
    "text", [EXAMPLE.read_text(), _blocks(PAGE)], ids=["example", "page"]
)
def test_load_balancers_are_taken(text: str) -> None:
    """Each is one that the driver can find, on units that the page allows."""
    found = [parse_identity(fields) for fields in _load_balancers(text)]

    assert 1 == len(found)
    for device in found[0].devices:
        AllowedDevices(("https://10.1.1.*",)).check(device)


def test_all_flags_are_told() -> None:
    """The page names each flag, and none that is not there."""
    parser = argparse.ArgumentParser(add_help=False)
    add_flags(parser)
    known = {flag for action in parser._actions for flag in action.option_strings}  # noqa: SLF001
    common = {"--bind-address", "--log-level", "--log-format", "--grace-period"}
    table = re.findall(r"^\| `(--[^|]*)\|", PAGE.read_text(), re.MULTILINE)

    assert known | common == set(re.findall(r"--[a-z-]+", " ".join(table)))
