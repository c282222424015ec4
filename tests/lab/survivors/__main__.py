"""The command line: mutate `lbcf.core` anew, and hold what lives against the list.

python -m tests.lab.survivors             all mutants, from the beginning
python -m tests.lab.survivors --compare   what the last run left, without another one
"""

import argparse
import shutil
import subprocess
import sys
import time

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files

from tests.lab.survivors.listed import LIST, Mutant, compare, mutant_of, read_list


KILLED, LATE, REJECTED = "killed", "timeout", "caught by type check"


def main() -> int:
    """Return 1 where one lives that is not listed, or an entry of the list is stale."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.survivors",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--compare", action="store_true", help="the last run's mutants")
    began = time.monotonic()
    if not parser.parse_args().compare:
        shutil.rmtree("mutants", ignore_errors=True)
        subprocess.run(["mutmut", "run"], check=True)

    statuses = dict(_statuses())
    ends = Counter(status for _, status in statuses.values())
    lives = [
        mutant_of(name, get_diff_for_mutant(name, path=path))
        for name, (path, status) in statuses.items()
        if status not in {KILLED, LATE, REJECTED}
    ]
    _tell(ends, lives)
    print(f"took {(time.monotonic() - began) / 60:.0f} min")
    return _judge(lives)


def _statuses() -> Iterator[tuple[str, tuple[Path, str]]]:
    """Each mutant's name, with its file and what became of it."""
    for path in walk_mutatable_files():
        data = SourceFileMutationData(path=path)
        data.load()
        for name, code in data.exit_code_by_key.items():
            yield name, (path, status_by_exit_code[code])


def _tell(ends: Counter[str], lives: list[Mutant]) -> None:
    wording = sum(mutant.is_wording for mutant in lives)
    others = ends.total() - ends[REJECTED] - wording
    killed = ends[KILLED] + ends[LATE]
    print(
        f"{ends.total()} mutants of lbcf.core: mypy rejects {ends[REJECTED]}, {wording} live "
        f"that change only wording; of the other {others}, tests kill {killed} "
        f"({100 * killed / others:.1f} %), {ends[LATE]} of them by time-out"
    )


def _judge(lives: list[Mutant]) -> int:
    """Print what differs from the list."""
    difference = compare(lives, read_list(LIST.read_text()))
    for head, mutants in (
        ("lives; kill it with a test, or list it with a reason", difference.unlisted),
        ("does not live; take it off the list", difference.stale),
    ):
        for mutant in mutants:
            print(f"\n{head}:\n{mutant}")
    return int(bool(difference.unlisted or difference.stale))


sys.exit(main())
