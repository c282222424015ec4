"""The command line: makes the folder."""

import argparse
import sys

from pathlib import Path

import manifests.release

from images.build import BuildError
from images.table import IMAGES
from manifests.helm.source import SourceError
from manifests.release.folder import REGISTRY, FolderError, make


def main() -> int:
    """Make the release; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m manifests.release",
        description=manifests.release.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = ", ".join(IMAGES)
    parser.add_argument(
        "images", nargs="*", help=f"which images: {known} (default: all)"
    )
    parser.add_argument("--to", type=Path, default=Path("dist"))
    parser.add_argument(
        "--registry",
        default=REGISTRY,
        help="where you push the images; the manifests then name them there",
    )
    flags = parser.parse_args()
    if unknown := set(flags.images) - set(IMAGES):
        parser.error(f"no image {', '.join(sorted(unknown))}; there are {known}")
    try:
        make(flags.to, flags.registry, flags.images or list(IMAGES), print)
    except (BuildError, FolderError, SourceError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(f"release in {flags.to}")
    return 0


sys.exit(main())
