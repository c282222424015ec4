"""What a run leaves for the one in its place, in a real file, across real kills."""

import subprocess
import sys

from pathlib import Path

import pytest

from lbcf.runtime import journal as module
from lbcf.runtime.journal import FileJournal, NoJournal


BOOT = "boot-1"


def begun(
    path: Path, run: str = "one", after: str = "", boot: str = BOOT
) -> FileJournal:
    """Begin to write."""
    journal = FileJournal(path, boot)
    journal.begin(run, after)
    return journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a journal may be."""
    return tmp_path / "journal"


def test_next_run_finds_what_was_written_last(path: Path) -> None:
    """Of each name the last value, and no name that was taken out."""
    one = begun(path)
    one.put("a", [1.5, None])
    one.put("b", [2.5, 3])
    one.put("a", [4.0, 5])
    one.put("b", None)

    assert {"a": [4.0, 5]} == FileJournal(path, BOOT).begin("two", "one")


def test_run_after_that_finds_both_of_theirs(path: Path) -> None:
    """What was found is the next run's own from then on."""
    begun(path).put("a", 1)
    begun(path, "two", "one").put("b", 2)

    assert {"a": 1, "b": 2} == FileJournal(path, BOOT).begin("three", "two")


@pytest.mark.parametrize(
    ("after", "boot"),
    [
        pytest.param("", BOOT, id="in nobody's place"),
        pytest.param("another", BOOT, id="in another one's place"),
        pytest.param("one", "boot-2", id="after a reboot"),
        pytest.param("one", "", id="in an unknown boot"),
    ],
)
def test_what_another_run_wrote_is_not_known(path: Path, after: str, boot: str) -> None:
    """Nor may whoever comes later take it for what this one knew."""
    begun(path).put("a", 1)

    assert FileJournal(path, boot).begin("two", after) is None
    assert FileJournal(path, BOOT).begin("three", "one") is None


@pytest.mark.parametrize(
    "spoiled", [b"", b"\n", b"{}\n", b'{"run":"one","boot":"boot-1"}\n[1,2]\n']
)
def test_what_cannot_be_read_is_not_known(path: Path, spoiled: bytes) -> None:
    """An empty file is not one of which nothing has to be known."""
    path.write_bytes(spoiled)

    assert FileJournal(path, BOOT).begin("two", "one") is None


def test_line_that_was_cut_off_counts_for_nothing(path: Path) -> None:
    """Whoever wrote it had not done yet what it was to tell."""
    begun(path).put("a", 1)
    with path.open("ab") as file:
        file.write(b'["b",')

    assert {"a": 1} == FileJournal(path, BOOT).begin("two", "one")


def test_file_is_written_anew_before_it_is_long(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that counts is in it still."""
    monkeypatch.setattr(module, "_MOST_LINES", 10)
    journal = begun(path)
    journal.put("kept", 1)
    for number in range(1000):
        journal.put("changing", number)

    assert len(path.read_bytes().splitlines()) < 20
    assert {"kept": 1, "changing": 999} == FileJournal(path, BOOT).begin("two", "one")


WRITER = """
import sys
from pathlib import Path
from lbcf.runtime.journal import FileJournal
journal = FileJournal(Path(sys.argv[1]), "boot-1")
journal.begin("one", "")
for number in range(10**9):
    journal.put("at", number)
    print(number, flush=True)
"""


def test_what_was_put_outlives_a_kill(path: Path) -> None:
    """However hard: each line is with the kernel before `put` returns."""
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for _ in range(500):
            writer.stdout.readline()
        writer.kill()
        told = [500, *map(int, writer.stdout.read().split(b"\n")[:-1])][-1]

    found = FileJournal(path, BOOT).begin("two", "one")
    assert found is not None
    number = found["at"]
    assert isinstance(number, int)
    assert number >= told - 1


FULL = """
import resource, sys
from pathlib import Path
from lbcf.runtime.journal import FileJournal
journal = FileJournal(Path(sys.argv[1]), "boot-1")
journal.begin("one", "")
journal.put("a", 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (60, 60))
journal.put("b", "x" * 100)
journal.put("c", 3)
"""


def test_journal_that_is_not_whole_is_nobodys(path: Path) -> None:
    """Where the disk is full, say, it is emptied: what is missing may be what counts."""
    # What is logged goes into a pipe: a file would be full, too.
    command = [sys.executable, "-c", FULL, str(path)]
    done = subprocess.run(command, capture_output=True, check=False)

    assert 0 == done.returncode, done.stderr
    assert b"" == path.read_bytes()
    assert FileJournal(path, BOOT).begin("two", "one") is None


def test_place_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    """A process with a wrong flag works as one without."""
    journal = FileJournal(tmp_path / "missing" / "journal", BOOT)

    assert journal.begin("one", "") is None
    journal.put("a", 1)
    assert [] == list(tmp_path.iterdir())


def test_no_journal_finds_nothing() -> None:
    """Nor does it keep anything."""
    journal = NoJournal()
    journal.put("a", 1)

    assert journal.begin("two", "one") is None
