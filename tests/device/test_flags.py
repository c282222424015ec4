"""The command line that drivers of appliances share."""

import argparse

from datetime import timedelta
from pathlib import Path

import pytest

from webhooks.device.devices import Device
from webhooks.device.errors import InvalidInput
from webhooks.device.flags import Ground, add_flags, read_flags


def _read(*argv: str) -> Ground:
    """Read a command line."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_flags(parser)
    return read_flags(parser.parse_args(argv))


def test_flags_become_values(tmp_path: Path) -> None:
    """What is said is what is used."""
    ground = _read(
        "--allow-devices=https://10.1.1.*",
        "--allow-devices=f5.example.com",
        f"--credentials={tmp_path}",
        "--save-period=30",
        "--answer-timeout=2",
    )

    ground.allowed.check(Device("10.1.1.1"))
    ground.allowed.check(Device("f5.example.com"))
    assert tmp_path == ground.secrets.folder
    assert timedelta(seconds=30) == ground.save_period
    assert timedelta(seconds=2) == ground.limits.patience
    assert ground.tls.context.check_hostname


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--allow-devices", "https://10.1.1.1/path"),
        ("--credentials", "/nowhere"),
        ("--save-period", "0"),
        ("--answer-timeout", "nan"),
        ("--device-ca-file", "/nowhere"),
    ],
)
def test_wrong_flags_are_named(tmp_path: Path, flag: str, text: str) -> None:
    """A flag that cannot be used says so in one line."""
    good = {"--allow-devices": "10.1.1.1", "--credentials": str(tmp_path)}
    said = [f"{name}={value}" for name, value in (good | {flag: text}).items()]

    with pytest.raises(InvalidInput, match=flag if "allow" not in flag else "HOST"):
        _read(*said)
