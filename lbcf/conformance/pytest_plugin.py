"""Turns each rule into a test: `pytest --lbcf-driver-url http://localhost:9000`.

Installed with lbcf (entry point `pytest11`); without the option it does nothing. A rule
that is not about the driver is skipped; one that is noted passes, with the note among
its captured sections. The options are the flags of `lbcf conformance`, with
`--lbcf-driver-` in front.
"""

import argparse
import asyncio

from pathlib import Path
from typing import TYPE_CHECKING

import pytest


if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr, TracebackStyle

    from lbcf.conformance.bench import Rule
    from lbcf.conformance.kit import Result
    from lbcf.conformance.target import Target

_PREFIX = "--lbcf-driver-"
_TEXTS = {
    "--lbcf-driver-member-key": "Address or Record",
    "--lbcf-driver-restart-command": "kills the driver and starts it again",
    "--lbcf-driver-connections-command": "makes connections of a member",
    "--lbcf-driver-ca-file": "authorities for https",
    "--lbcf-driver-cert-file": "client certificate",
    "--lbcf-driver-key-file": "its key",
    "--lbcf-driver-token-file": "bearer token",
    "--lbcf-driver-timeout": "seconds of a call",
    "--lbcf-driver-patience": "seconds that a task may be Running",
    "--lbcf-driver-seed": "of the ids",
}
_LISTS = {
    "--lbcf-driver-lb-spec": "K=V of the load balancer; repeatable",
    "--lbcf-driver-gone-lb": "K=V of one that is not there; repeatable",
    "--lbcf-driver-parameters": "K=V of the backends; repeatable",
    "--lbcf-driver-operations": "that the driver declares, with commas",
    "--lbcf-driver-address": "HOST:PORT that may be registered; repeatable",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; see `lbcf conformance --help` for what they mean."""
    group = parser.getgroup("lbcf", "conformance of a load-balancer driver")
    group.addoption(
        "--lbcf-driver-url", metavar="URL", help="turn each rule into a test"
    )
    for name, text in _TEXTS.items():
        group.addoption(name, help=text)
    for name, text in _LISTS.items():
        group.addoption(name, action="append", default=[], help=text)


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add a test for each rule where a driver is given."""
    if not config.getoption("--lbcf-driver-url"):
        return
    # Late: all others who have the plugin installed pay nothing for it.
    from lbcf.conformance.flags import WrongFlag  # noqa: PLC0415
    from lbcf.conformance.kit import CATALOGUE  # noqa: PLC0415

    try:
        target = _target(config)
    except WrongFlag as error:
        raise pytest.UsageError(str(error)) from error
    causes: dict[str, str] = {}
    items.extend(
        RuleItem.from_parent(
            session, name=rule.name, rule=rule, target=target, causes=causes
        )
        for rule in CATALOGUE
    )


def _target(config: pytest.Config) -> "Target":
    """Read the options as the command reads its flags.

    Raises:
        WrongFlag: one of them cannot be used.
    """
    from lbcf.conformance.flags import WrongFlag, add_flags, read_target  # noqa: PLC0415

    parser = argparse.ArgumentParser(exit_on_error=False)
    add_flags(parser)
    words: list[str] = [str(config.getoption("--lbcf-driver-url"))]
    for name in (*_TEXTS, *_LISTS):
        said = config.getoption(name)
        flag = name.replace(_PREFIX, "--")
        for value in said if isinstance(said, list) else [said]:
            words += [] if value is None else [f"{flag}={value}"]
    try:
        return read_target(parser.parse_args(words))
    except argparse.ArgumentError as error:
        raise WrongFlag(str(error)) from error


class RuleBroken(Exception):  # noqa: N818  (it says what happened)
    """A rule that the driver does not keep; the text is the report's."""


class RuleItem(pytest.Item):
    """One rule as a test."""

    def __init__(
        self,
        *,
        rule: "Rule",
        target: "Target",
        causes: dict[str, str],
        **more: object,
    ) -> None:
        super().__init__(**more)  # type: ignore[arg-type]  # pytest's own
        self._rule = rule
        self._target = target
        self._causes = causes

    def runtest(self) -> None:
        """Run the rule.

        Raises:
            RuleBroken: the driver does not keep it.
        """
        from lbcf.conformance.findings import Outcome  # noqa: PLC0415
        from lbcf.conformance.report import lines_of  # noqa: PLC0415

        result = self._result()
        text = "\n".join(lines_of(result))
        if result.outcome is Outcome.FAILED:
            raise RuleBroken(text)
        if result.outcome is Outcome.NOT_APPLICABLE:
            pytest.skip(result.text)
        if result.outcome is Outcome.NOTED:
            self.add_report_section("call", "noted", text)

    def _result(self) -> "Result":
        """Run the rule in an event loop of its own."""
        from lbcf.conformance.kit import examine  # noqa: PLC0415
        from lbcf.runtime.clock import SystemClock  # noqa: PLC0415

        (result,) = asyncio.run(
            examine(self._target, SystemClock(), [self._rule], causes=self._causes)
        )
        return result

    def repr_failure(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        style: "TracebackStyle | None" = None,
    ) -> "str | TerminalRepr":
        """Show what was seen, not the kit's own lines."""
        from lbcf.core.errors import LbcfError  # noqa: PLC0415

        if isinstance(excinfo.value, RuleBroken | LbcfError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Say what it is called."""
        return self.path, None, f"conformance: {self._rule.name}"
