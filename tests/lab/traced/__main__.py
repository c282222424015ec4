"""Judges tapes again: `python -m tests.lab.traced FILE...`."""

import json
import sys

from pathlib import Path

from tests.lab.traced.judge import judge, told


def main(paths: list[str]) -> int:
    """Judge the tapes in files; answers the exit code."""
    wrong = 0
    for path in paths:
        verdict = judge(json.loads(Path(path).read_text(encoding="utf-8")))
        print(f"{path}: {told(verdict)}")
        wrong += verdict.refusal is not None
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
