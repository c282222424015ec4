"""What pages have people install is there: this folder, or the wheel of a release.

No index has the package: `pip install lbcf` would fail, or bring somebody else's.
"""

import re
import shlex
import tomllib

from collections.abc import Iterator
from pathlib import Path

import pytest

from lbcf import __version__


PAGES = (Path("README.md"), Path("CONTRIBUTING.md"), *sorted(Path("docs").glob("*.md")))
OURS = {".", f"./lbcf-{__version__}-py3-none-any.whl"}
EXTRAS = set(
    tomllib.loads(Path("pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
)
LOCKED = set(
    re.findall(r"^([\w.-]+)==", Path("requirements/dev.txt").read_text(), re.MULTILINE)
)
NAMING = {"README.md", "api.md", "install.md", "kubectl.md", "operate.md", "envoy.md"}
"""Pages with such lines, among others."""

_LINE = re.compile(r"pip install\s+([^`#]+?)(?=`|#|$)", re.MULTILINE)
_EXTRA = re.compile(r"\[([\w,]+)\]$")


def installed_by(page: Path) -> Iterator[str]:
    """Give each thing that lines of a page install."""
    for line in _LINE.findall(page.read_text()):
        yield from (word for word in shlex.split(line) if not word.startswith("-"))


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_lines_install_what_is_there(page: Path) -> None:
    """With extras that there are; other people's packages by a name that we use, too."""
    for thing in installed_by(page):
        extras = _EXTRA.search(thing)
        asked = set(extras[1].split(",")) if extras else set()

        assert _EXTRA.sub("", thing) in OURS | LOCKED, f"{page}: pip install {thing}"
        assert asked <= EXTRAS, f"{page}: pip install {thing}"


def test_lines_are_found() -> None:
    """However they are written: in a block, in a sentence, over two lines."""
    assert {page.name for page in PAGES if list(installed_by(page))} >= NAMING
