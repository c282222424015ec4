"""Writes what is made of the code: tables of pages, and the dashboard."""

import asyncio

from tests.monitoring import dashboard, page, symptoms, troubleshoot
from tests.monitoring.registries import all_families


if __name__ == "__main__":
    page.PAGE.write_text(
        page.with_table(page.PAGE.read_text(), asyncio.run(all_families()))
    )
    dashboard.PAGE.write_text(dashboard.rendered())
    troubleshoot.PAGE.write_text(
        symptoms.with_table(troubleshoot.with_tables(troubleshoot.PAGE.read_text()))
    )
