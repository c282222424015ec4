"""Writes the project of a new driver: `kubectl lbcf new driver/NAME`.

The files `*.tmpl` beside this one are its templates: each becomes a file of the project,
with NAME, namespace, port and the name of the class put in. No cluster is needed.
"""

import re

from importlib.resources import files
from pathlib import Path
from string import Template

import attrs

from lbcf import __version__
from lbcf.core.model.names import SYSTEM_NAMESPACE
from lbcf.ctl.errors import CtlError


PORT = 9100

_SUFFIX = ".tmpl"
_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,48}[a-z0-9])?")
"""A name of Services (RFC 1035), short enough for what is called after it."""


@attrs.frozen
class NewProject:
    """A project that was written.

    Attributes:
        files: of the project, as they are called in the folder.
    """

    folder: str
    files: tuple[str, ...]


def write_project(name: str, namespace: str, folder: Path) -> NewProject:
    """Write a driver's project into a folder, which is made where there is none.

    Raises:
        CtlError: the name or the namespace cannot be used, a file of the project is there
            already, or cannot be written. Nothing that was there is changed.
    """
    _check_names(name, namespace)
    words = {
        "name": name,
        "namespace": namespace,
        "port": str(PORT),
        "class_name": "".join(map(str.capitalize, name.split("-"))) + "Driver",
        "version": __version__,
    }
    texts = {
        template.name.removesuffix(_SUFFIX): Template(template.read_text("utf-8"))
        for template in files(__name__).iterdir()
        if template.name.endswith(_SUFFIX)
    }
    for file in sorted(texts):
        if (folder / file).exists():
            raise CtlError(f"{folder / file} is there already: say --to another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            with (folder / file).open("x", encoding="utf-8") as opened:
                opened.write(text.substitute(words))
    except OSError as error:
        raise CtlError(f"{folder}: {error.strerror}") from error
    return NewProject(str(folder), tuple(sorted(texts)))


def _check_names(name: str, namespace: str) -> None:
    for what, text in (("driver", name), ("namespace", namespace)):
        if not _LABEL.fullmatch(text):
            raise CtlError(
                f"{what} {text!r}: write up to 50 small letters, digits and -, a letter first"
            )
    if name.startswith("lbcf-") != (namespace == SYSTEM_NAMESPACE):
        raise CtlError(
            f"driver {name!r} in namespace {namespace}: names begin with lbcf- in "
            f"{SYSTEM_NAMESPACE}, and nowhere else"
        )
