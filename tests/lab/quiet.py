"""What a lab prints on a terminal: its own figures, not what the drivers in it log."""

import logging

import structlog


def log_warnings_only() -> None:
    """Let nothing of this process be logged but what is wrong."""
    wrapper = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=wrapper)
