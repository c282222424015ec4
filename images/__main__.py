"""The command line: builds the images that are named, or all."""

import argparse
import sys

from pathlib import Path

from images.build import BuildError, unpack
from images.catalog import REFERENCES, make


def main() -> int:
    """Build; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m images", description=__doc__)
    known = ", ".join(REFERENCES)
    parser.add_argument("names", nargs="*", help=f"which: {known} (default: all)")
    parser.add_argument("--to", type=Path, default=Path("build/images"))
    parser.add_argument(
        "--unpack", type=Path, help="put the files of each into a folder there, too"
    )
    flags = parser.parse_args()
    if unknown := set(flags.names) - set(REFERENCES):
        parser.error(f"no image {', '.join(sorted(unknown))}; there are {known}")
    flags.to.mkdir(parents=True, exist_ok=True)
    try:
        for name in flags.names or REFERENCES:
            path = make(name, flags.to)
            if flags.unpack is not None:
                unpack(path, flags.unpack / path.stem)
            size = path.stat().st_size / 2**20
            told = f"{REFERENCES[name]}  {path}  {size:.0f} MiB"
            print(f"{told}  {path.with_suffix('.cdx.json')}")  # noqa: T201
    except BuildError as error:
        print(f"images: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


sys.exit(main())
