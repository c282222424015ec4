"""Writes the table of docs/metrics.md anew: `python -m tests.monitoring`."""

import asyncio

from tests.monitoring.page import PAGE, with_table
from tests.monitoring.registries import all_families


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(), asyncio.run(all_families())))
