"""The narrow import: little is loaded, and the library stays whole for others."""

import subprocess
import sys


SCRIPT = """
import sys
from lbcf.kube.library import library
parts = library()
models = [name for name in sys.modules if name.startswith("kubernetes_asyncio.client.m")]
assert not models, models
assert "kubernetes_asyncio" not in sys.modules, "an empty package was left"
import kubernetes_asyncio
assert kubernetes_asyncio.client.Configuration is parts.configuration
assert kubernetes_asyncio.client.CoreV1Api
parts.config.load_incluster_config, parts.config.load_kube_config
"""


def test_parts_come_without_the_models_and_the_whole_can_follow() -> None:
    """In an executor of its own, for what was imported cannot be taken back."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )

    assert (0, "") == (done.returncode, done.stderr)


def test_whole_library_serves_where_it_is_loaded_already() -> None:
    """The parts are then those of the whole."""
    script = (
        "import sys, kubernetes_asyncio as k\n"
        "from lbcf.kube.library import library\n"
        "assert library().configuration is k.client.Configuration\n"
        "assert sys.modules['kubernetes_asyncio'] is k"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert (0, "") == (done.returncode, done.stderr)
