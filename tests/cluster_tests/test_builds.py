"""Builds with Go: how far they are, and that they go on where they were interrupted."""

import io
import re
import subprocess
import uuid

from pathlib import Path

import attrs
import pytest

from tests.lab.cluster.binaries import build_programs, run_go
from tests.lab.cluster.errors import ClusterError
from tests.lab.cluster.progress import Counted, Progress, time_left


IMPORTS = 'package main\n\nimport "example.com/bad/two"\n\n'
BROKEN = IMPORTS + "func main() { println(two.It); nothing() }\n"
MENDED = IMPORTS + "func main() { println(two.It) }\n"


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@attrs.define
class Hands:
    """A clock that is set by hand."""

    now: float = 0.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


def a_module(folder: Path, *packages: str, main: str = "") -> str:
    """Write a program of these packages, none of which Go has ever compiled."""
    folder.mkdir()
    (folder / "go.mod").write_text(f"module example.com/{folder.name}\n\ngo 1.26\n")
    for name in packages:
        (folder / name).mkdir()
        text = f'package {name}\n\nconst It = "{uuid.uuid4()}"\n'
        (folder / name / "it.go").write_text(text)
    imports = "".join(f'import "example.com/{folder.name}/{p}"\n' for p in packages)
    uses = "; ".join(f"println({name}.It)" for name in packages)
    good = f"package main\n\n{imports}\nfunc main() {{ {uses} }}\n"
    (folder / "main.go").write_text(main or good)
    return str(folder)


def stop(_line: str) -> bool:
    """Interrupt whoever tells how far it is."""
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("passed", "done", "total", "expected"),
    [
        (4.0, 100, 200, ""),
        (60.0, 19, 200, ""),
        (60.0, 100, 1000, ", about 9 min left"),
        (60.0, 900, 1000, ", less than a minute left"),
    ],
)
def test_time_left_is_told_once_it_can_be(
    passed: float, done: int, total: int, expected: str
) -> None:
    """Not from the first few packages, which are small."""
    assert expected == time_left(passed, done, total)


def test_terminal_has_one_line_that_is_rewritten() -> None:
    """It is empty in the end; nothing goes to the log."""
    said: list[str] = []
    terminal = Terminal()
    progress = Progress(said.append, terminal, Hands())
    counted = Counted("compiled", 3, progress)
    for _ in range(2):
        counted.step()
    progress.end()

    lines = terminal.getvalue().split("\r\x1b[K")
    assert ["", "compiled: 1 of 3", "compiled: 2 of 3", ""] == lines
    assert [] == said


def test_log_has_a_line_now_and_then() -> None:
    """One in half a minute, with the time that is left."""
    said: list[str] = []
    clock = Hands()
    counted = Counted("compiled", 100, Progress(said.append, io.StringIO(), clock))
    for second in range(1, 71):
        clock.now = float(second)
        counted.step()

    assert [
        "compiled: 30 of 100, about 1 min left",
        "compiled: 60 of 100, about 1 min left",
    ] == said


@pytest.mark.cluster  # as it needs Go, which builds the cluster
def test_build_says_how_many_packages_there_are(tmp_path: Path) -> None:
    """Those that Go has not compiled yet; the program is whole."""
    said: list[str] = []
    first = a_module(tmp_path / "first", "one", "two")
    build_programs({first: "-s -w"}, tmp_path / "built", said.append)

    assert re.fullmatch(r"building first: [0-9]+ packages to compile", said[-1])
    done = subprocess.run([tmp_path / "built/first"], capture_output=True, check=True)
    assert 2 == len(done.stderr.splitlines())
    assert ["first"] == [path.name for path in (tmp_path / "built").iterdir()]


@pytest.mark.cluster  # as it needs Go, which builds the cluster
def test_what_was_built_before_a_failure_is_kept(tmp_path: Path) -> None:
    """The next try begins with what failed, and its packages are compiled already."""
    said: list[str] = []
    modules = {
        a_module(tmp_path / "good", "one"): "-s -w",
        a_module(tmp_path / "bad", "two", main=BROKEN): "-s -w",
    }
    with pytest.raises(ClusterError, match="undefined: nothing"):
        build_programs(modules, tmp_path / "built", said.append)
    kept = (tmp_path / "built/good").stat()

    (tmp_path / "bad/main.go").write_text(MENDED)
    said.clear()
    build_programs(modules, tmp_path / "built", said.append)

    compiled = "building bad: 1 packages to compile"
    assert ["good is built already", compiled] == said
    assert kept == (tmp_path / "built/good").stat()
    assert (tmp_path / "built/bad").exists()


@pytest.mark.cluster  # as it needs Go, which builds the cluster
def test_interrupted_build_goes_on(tmp_path: Path) -> None:
    """Go ends with whoever is interrupted, and keeps what it has compiled."""
    said: list[str] = []
    module = a_module(tmp_path / "long", "one", "two", "three")
    with pytest.raises(KeyboardInterrupt):
        run_go(["build", "-v", "./..."], "of it", folder=Path(module), on=stop)
    build_programs({module: "-s -w"}, tmp_path / "built", said.append)

    assert (tmp_path / "built/long").exists()
