"""The page on `kubectl lbcf`: all commands, flags and kinds are on it."""

import argparse

from lbcf.ctl.flags import Kind, parser_for
from tests.docs.pictures import PAGE


TEXT = PAGE.read_text("utf-8")


def _commands() -> dict[str, argparse.ArgumentParser]:
    """Return the sub-commands by name."""
    [actions] = [
        action
        for action in parser_for("x")._actions  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
    ]
    return dict(actions.choices)


def test_every_command_has_a_row() -> None:
    """By its name, at the beginning."""
    assert [] == [name for name in _commands() if f"\n| `{name}" not in TEXT]


def test_every_flag_is_explained() -> None:
    """No flag is known only to those who read the code."""
    flags = {
        flag
        for command in _commands().values()
        for action in command._actions  # noqa: SLF001
        for flag in action.option_strings
    }

    assert [] == [flag for flag in sorted(flags - {"-h", "--help"}) if flag not in TEXT]


def test_every_kind_is_named() -> None:
    """As the commands take it."""
    assert [] == [kind for kind in Kind if f"{kind}/NAME" not in TEXT]
