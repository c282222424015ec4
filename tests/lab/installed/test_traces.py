"""What a pod of the driver is given beside its image is enough to note its calls."""

import os
import shutil
import subprocess
import sys

from pathlib import Path

from tests.lab.installed.install import ROOT
from tests.lab.installed.traces import PROGRAM


def test_the_driver_is_run_with_these_files_alone(tmp_path: Path) -> None:
    """They import nothing else of the tests, which no image has."""
    for name in PROGRAM:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, path)
    (tmp_path / "webhooks").symlink_to(ROOT / "webhooks")
    words = ("-m", "tests.lab.traced.recording", "-", "webhooks.memory", "--help")

    done = subprocess.run(
        (sys.executable, *words),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, done.stderr
    assert "--bind-address" in done.stdout
