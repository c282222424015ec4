"""The command line: makes the folder."""

import argparse
import re
import sys

from pathlib import Path

import manifests.release

from images.build import BuildError
from images.catalog import REFERENCES
from manifests.helm.settings import RUNBOOK_BASE
from manifests.helm.source import SourceError
from manifests.release.folder import REGISTRY, FolderError, Places, make


def runbook_base(text: str) -> str:
    """Read what is put before the paths of runbooks.

    Raises:
        argparse.ArgumentTypeError: a browser could not open what comes of it.
    """
    if not re.fullmatch(RUNBOOK_BASE, text):
        raise argparse.ArgumentTypeError(
            f"{text!r}: write http:// or https://, and a slash at the end"
        )
    return text


def main() -> int:
    """Make the release; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m manifests.release",
        description=manifests.release.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = ", ".join(REFERENCES)
    parser.add_argument(
        "images", nargs="*", help=f"which images: {known} (default: all)"
    )
    parser.add_argument("--to", type=Path, default=Path("dist"))
    parser.add_argument(
        "--registry",
        default=REGISTRY,
        help="where you push the images; the manifests then name them there",
    )
    parser.add_argument(
        "--runbook-base",
        default="",
        type=runbook_base,
        metavar="URL",
        help="where your people read this repository, with a slash at the end, such as "
        "https://git.example.com/lbcf/blob/main/: alerts then link their runbooks there",
    )
    flags = parser.parse_args()
    if unknown := set(flags.images) - set(REFERENCES):
        parser.error(f"no image {', '.join(sorted(unknown))}; there are {known}")
    try:
        places = Places(flags.registry, flags.runbook_base)
        make(flags.to, places, flags.images or list(REFERENCES), print)
    except (BuildError, FolderError, SourceError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(f"release in {flags.to}")
    return 0


sys.exit(main())
