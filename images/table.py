"""Which images there are. A new driver is one line here."""

from collections.abc import Mapping

import attrs

from lbcf import __version__


@attrs.frozen
class Image:
    """One image.

    Attributes:
        name: last part of its reference.
        start: arguments of the interpreter that start it.
        lock: of requirements/, what is installed: one for each extra of ours.
        modules: of `webhooks/`, files or folders, that it has beside `lbcf`.
    """

    name: str
    start: tuple[str, ...]
    lock: str = "image"
    modules: tuple[str, ...] = ()

    @property
    def reference(self) -> str:
        """Say under which name it is loaded."""
        return f"lbcf.local/{self.name}:{__version__}"


def _driver(name: str, *modules: str, lock: str = "image") -> Image:
    """Describe the image of a driver of ours, which is one folder where unsaid."""
    modules = ("__init__.py", *(modules or (name,)))
    return Image(f"lbcf-{name}", ("-m", f"webhooks.{name}"), lock, modules)


_MEMORY = (
    "memory.py",
    "memory_addresses.py",
    "memory_control.py",
    "memory_members.py",
    "shared",
)

ALLOCATOR: Mapping[str, str] = {"MALLOC_MMAP_THRESHOLD_": "131072"}
"""glibc gives a freed block of at least this size back to the system. Where the size is not
set, glibc raises it with each such block that is freed (mallopt(3)); then the pages of lists
leave holes, and a process that has read thousands of objects holds 5 MiB more (measured)."""

ENVIRONMENT: Mapping[str, str] = {
    "HOME": "/",
    "PATH": "/usr/local/bin",
    "LD_LIBRARY_PATH": "/usr/local/lib",
    "PYTHONUNBUFFERED": "1",
    "PYTHONSAFEPATH": "1",
    **ALLOCATOR,
}
"""What a container of ours has in its environment before its manifest adds to it."""

IMAGES: Mapping[str, Image] = {
    "lbcf": Image("lbcf", ("-m", "lbcf"), lock="image-admission"),
    "elbv2": _driver("elbv2", "elbv2", "shared", lock="image-elbv2"),
    "envoy": _driver("envoy", "envoy", "shared", lock="image-envoy"),
    "f5": _driver("f5", "f5", "device", "shared", lock="image-devices"),
    "haproxy": _driver("haproxy", "haproxy", "shared"),
    "memory": _driver("memory", *_MEMORY),
    "netscaler": _driver(
        "netscaler", "netscaler", "device", "shared", lock="image-devices"
    ),
}
