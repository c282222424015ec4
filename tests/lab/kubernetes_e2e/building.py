"""The tests of Kubernetes, and agnhost, built from its module into the cache."""

import subprocess

from pathlib import Path

from tests.lab.cluster.binaries import (
    SOURCES,
    VERSION,
    Say,
    cache_folder,
    check_go,
    digest,
    made_once,
    run_go,
)
from tests.lab.cluster.commands import find_program
from tests.lab.cluster.images import shared_libraries
from tests.lab.cluster.layers import Layer, save_image
from tests.lab.cluster.packages import PACKAGES, install_packages


AGNHOST = "k8s.io/kubernetes/test/images/agnhost"
IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.63.0"
"""As test/utils/image of that version names it."""
TOOLS = {
    "curl": "curl",
    "dash": "dash",
    "netcat-openbsd": "nc.openbsd",
    "wget": "wget",
}
"""Packages whose programs the tests run in pods.

The shell is none of busybox, which prefers what it has itself: its nc knows other flags, and
its wget, being static, crashes when it looks a name up.
"""
_FLAGS = ("-trimpath", "-ldflags=-s -w")


def built(say: Say) -> Path:
    """Return the folder of `e2e.test` and `agnhost`, built now if need be.

    Raises:
        MissingError: there is no Go.
        ClusterError: the build failed.
    """
    module = SOURCES / "e2e"
    folder = cache_folder() / f"e2e-{digest(module.iterdir(), *_FLAGS)}"
    with made_once(folder, say) as fresh:
        if fresh is not None:
            check_go()
            say(f"building the tests of Kubernetes {VERSION}, once: 10 minutes")
            test = ("test", "-c", *_FLAGS, "-o", str(fresh / "e2e.test"), ".")
            run_go(test, "of the tests", folder=module)
            pods = ("build", *_FLAGS, "-o", str(fresh / "agnhost"), AGNHOST)
            run_go(pods, "of agnhost", folder=module)
    return folder


def image(folder: Path, say: Say) -> Path:
    """Make the image of the tests' pods: agnhost, a shell, curl, nc and wget.

    Args:
        folder: for the archive; the programs are where they were built.
        say: told what takes time.
    """
    install_packages(say, PACKAGES | TOOLS)
    layer = Layer()
    layer.add_base()
    layer.add_file(built(say) / "agnhost", "agnhost")
    layer.add_file(_program("busybox"), "bin/busybox")
    tools = {name: _program(TOOLS[name]) for name in ("curl", "wget")}
    tools |= {"nc": _program("nc.openbsd"), "sh": _program("dash")}
    for name, path in tools.items():
        layer.add_file(path, f"bin/{name}")
    for shared in shared_libraries(tools.values()):
        layer.add_file(shared)
    listed = subprocess.run(
        [_program("busybox"), "--list"], capture_output=True, check=True
    )
    for name in listed.stdout.decode().split():
        layer.add_link(f"bin/{name}", "/bin/busybox")
    archive = folder / "agnhost.tar"
    save_image(
        IMAGE,
        layer,
        archive,
        Entrypoint=["/agnhost"],
        Cmd=["pause"],
        Env=["PATH=/bin"],
    )
    return archive


def _program(name: str) -> Path:
    """Return where a program of an installed package is."""
    found = find_program(name)
    assert found is not None, name
    return Path(found).resolve()
