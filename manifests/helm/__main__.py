"""The command line: writes the chart."""

import argparse
import sys

from pathlib import Path

import manifests.helm

from manifests.helm import chart, source, templates


def main() -> int:
    """Write the chart; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m manifests.helm",
        description=manifests.helm.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--to", type=Path, default=Path("build/chart"))
    flags = parser.parse_args()
    try:
        chart.write(templates.make(source.read()), flags.to)
    except source.SourceError as error:
        print(f"chart: {error}", file=sys.stderr)
        return 1
    print(f"chart in {flags.to}")
    return 0


sys.exit(main())
