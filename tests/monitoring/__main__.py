"""Writes what is made of the code: the table of docs/metrics.md, and the dashboard."""

import asyncio

from tests.monitoring import dashboard
from tests.monitoring.page import PAGE, with_table
from tests.monitoring.registries import all_families


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(), asyncio.run(all_families())))
    dashboard.PAGE.write_text(dashboard.rendered())
