"""Runs SPIN over `lifecycle.pml`: the built protocol, and weaker ones by their switches.

SPIN and the model share no code; they agree or one of them is wrong.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile

from dataclasses import dataclass
from pathlib import Path


SOURCE = Path(__file__).with_name("lifecycle.pml")
_COMPILE = ("gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=8000")
_DEPTH = 2_000_000

_LASTING = ("gcc", "-O2", "-w", "-DNFAIR=3", "-DCOLLAPSE", "-DMEMLIM=8000")
LIVE = "-DLASTING"
"""The switch for liveness: <>[] desired under weak fairness, in place of safety alone."""

BUILT = (
    (LIVE,),
    ("-DTWO", "-DTWO_ENDS"),
    ("-DADDRESS",),
    ("-DADDRESS", "-DTWO"),
    ("-DADDRESS", "-DFREES"),
    ("-DADDRESS", "-DFREES", "-DTIMED"),
)
WEAKER = (
    (LIVE, "-DONCE"),
    (LIVE, "-DRECOUNT"),
    (LIVE, "-DADDRESS", "-DREASK"),
    (LIVE, "-DADDRESS", "-DNOEXPIRY"),
    (LIVE, "-DADDRESS", "-DNOTURNS"),
    ("-DWAIT=2",),
    ("-DNOMARKS",),
    ("-DUNMARKED",),
    ("-DFORGET",),
    ("-DEARLYENDS",),
    ("-DTWO", "-DCLEARSTAR"),
    ("-DADDRESS", "-DTWO", "-DNOTAKEOVER"),
    ("-DADDRESS", "-DNOLOCK"),
    ("-DADDRESS", "-DTAKEOVER=1"),
    ("-DADDRESS", "-DNOCAS"),
    ("-DADDRESS", "-DFREES", "-DNOANSWER"),
    ("-DADDRESS", "-DFREES", "-DSAMENAME"),
    ("-DADDRESS", "-DFREES", "-DTIMED", "-DOVER=0"),
)


@dataclass(frozen=True)
class Verdict:
    """What SPIN says.

    Attributes:
        errors: how many it found; it stops at the first.
        states: how many it stored.
        complete: it left nothing out.
        seconds: as it says.
    """

    errors: int
    states: int
    complete: bool
    seconds: float


def missing() -> list[str]:
    """Return the programs that are not there."""
    return [name for name in ("spin", "gcc") if shutil.which(name) is None]


@functools.cache
def check(switches: tuple[str, ...]) -> Verdict:
    """Check one form of the protocol; a second time it is known.

    Raises:
        CalledProcessError: the source cannot be compiled.
    """
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(SOURCE, folder)
        _run(folder, "spin", "-a", *switches, SOURCE.name)
        lasts = LIVE in switches
        _run(folder, *(_LASTING if lasts else _COMPILE), "-o", "pan", "pan.c")
        fairly = ("-a", "-f") if lasts else ()
        text = _run(folder, "./pan", f"-m{_DEPTH}", "-E", "-n", *fairly)
    return Verdict(
        errors=int(_found(r"errors: (\d+)", text)),
        states=int(_found(r"(\d+) states, stored", text)),
        complete="not completed" not in text and "too small" not in text,
        seconds=float(_found(r"elapsed time ([\d.]+)", text)),
    )


def _run(folder: str, *command: str) -> str:
    """Run a program to its end."""
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def _found(pattern: str, text: str) -> str:
    """Return what a pattern finds, 0 where it finds nothing."""
    match = re.search(pattern, text)
    return match.group(1) if match else "0"


def show() -> int:
    """Print all verdicts; answers how many did not come out as they should."""
    wrong = 0
    for switches in BUILT + WEAKER:
        verdict = check(switches)
        holds = verdict.complete and not verdict.errors
        text = "holds" if holds else "refuted" if verdict.errors else "NOT TO THE END"
        print(
            f"spin {text:22} {verdict.states:>9,} states {verdict.seconds:6.1f} s  "
            f"{' '.join(switches)}",
            flush=True,
        )
        wrong += holds != (switches in BUILT) or not (holds or verdict.errors)
    return wrong
