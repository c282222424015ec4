"""Words that may come next, as kubectl asks for them: directives, names, flags."""

import argparse

from pathlib import Path
from typing import Any

import pytest
import yaml

from lbcf.ctl.completion import (
    RESOURCES,
    ApiServer,
    Completions,
    Typed,
    complete,
    read_words,
)
from lbcf.ctl.flags import COMMANDS, FLAGS, Kind, parser_for
from lbcf.kube.kinds import Resource


class Names(ApiServer):
    """Knows a few objects, whoever asks."""

    async def names(
        self,
        typed: Typed,
        resource: Resource[Any],
        namespace: str | None,
        *,
        is_ending: bool = False,
    ) -> list[str]:
        """Return made-up names, which say what was asked for."""
        if namespace == "kube-system":
            return ["lbcf-shared", "other"]
        ending = "-ending" if is_ending else ""
        place = namespace or typed.values.get("--context") or "here"
        return [f"{resource.plural}-{place}{ending}"]


async def asked(*words: str) -> Completions:
    """Complete the last of these words."""
    return await complete(words, Names())


async def test_commands_are_told_with_what_they_answer() -> None:
    """As kubectl writes them: a tab before the description, the directive last."""
    assert set(COMMANDS) == set((await asked("")).words)
    text = COMMANDS["drains"].text
    assert f"drains\t{text}\n:4\n" == str(await asked("drains"))


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("why", "p"), ["pod/"]),
        (("why", "-n", "x", "p"), ["pod/"]),
        (("why", "pod/"), ["pod/pods-here"]),
        (("why", "pod/x"), []),
        (("-n", "x", "why", "po/"), ["po/pods-x"]),
        (("why", "--namespace=x", "pod", ""), ["pods-x"]),
        (("why", "pod", "pods"), ["pods-here"]),
        (("why", "pod/a", ""), []),
        (("why", "pod", "a", ""), []),
        (("why", "lb/"), ["lb/lbcf-shared", "lb/loadbalancers-here"]),
        (("plan", ""), ["bg/", "bind/"]),
        (("plan", "br/"), []),
        (("abandon", "br/"), ["br/backendrecords-here-ending"]),
        (("remove-orphans", ""), ["lb/"]),
        (("remove-orphans", "--y"), ["--yes"]),
        (("status", ""), []),
        (("status", "-n", ""), ["namespaces-here"]),
        (("status", "-o", "j"), ["json"]),
        (("status", "--w"), ["--watch"]),
        (("plan", "--w"), []),
        (("nonsense", ""), []),
        (("status", "--as", ""), []),
    ],
)
async def test_words_that_may_come_next(
    words: tuple[str, ...], found: list[str]
) -> None:
    """Only what can stand there."""
    assert found == list((await asked(*words)).words)


async def test_kind_is_followed_by_its_name_at_once() -> None:
    """No blank comes behind the slash; a file is completed as the shell does it."""
    assert 6 == (await asked("why", "d")).directive
    assert 4 == (await asked("why", "pod/")).directive
    assert 0 == (await asked("status", "--kubeconfig", "")).directive


async def test_contexts_are_those_of_the_kubeconfig(tmp_path: Path) -> None:
    """Of the one that is named; one that cannot be read has none."""
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump({"contexts": [{"name": "b"}, {"name": "a"}]}))
    words = ("status", "--kubeconfig", str(path), "--context", "")

    assert ["a", "b"] == list((await asked(*words)).words)
    path.write_text("{")
    assert [] == list((await asked(*words)).words)


async def test_server_that_cannot_be_asked_completes_nothing(tmp_path: Path) -> None:
    """And writes nothing into the line that is being typed."""
    words = ("why", "--kubeconfig", str(tmp_path / "none"), "pod/")

    assert ":4\n" == str(await complete(words, ApiServer()))


def test_every_flag_and_kind_is_known() -> None:
    """Those of the parser, with or without a value as there."""
    [actions] = [
        action
        for action in parser_for("x")._actions  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
    ]
    parsed = {
        (name, flag, action.nargs != 0)
        for name, command in actions.choices.items()
        for action in command._actions  # noqa: SLF001
        for flag in action.option_strings
        if flag not in {"-h", "--help"}
    }
    known = {
        (name, word, flag.takes_value)
        for name, command in COMMANDS.items()
        for word, flag in FLAGS.items()
        if flag.is_common or flag.name in command.flags
    }

    assert parsed == known
    assert set(Kind) == set(RESOURCES)


def test_values_of_flags_are_no_words() -> None:
    """The last one counts; a flag without a value takes none."""
    typed = read_words(
        ["-n", "a", "-A", "why", "--namespace=b", "--as-group", "g", "-o"]
    )

    assert ("why",) == typed.positional
    assert "b" == typed.values["--namespace"]
    assert (("g",), "--output") == (typed.groups, typed.pending)
