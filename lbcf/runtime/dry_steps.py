"""What a process in dry run would have done: a log event and a count for each step.

`lbcf.kube.dry_run` and `lbcf.drivers.dry_run` tell it.
"""

import structlog

from prometheus_client import CollectorRegistry, Counter


_log = structlog.get_logger(__name__)


class DrySteps:
    """Tells of steps that were not taken, or only for show."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._steps = Counter(
            "lbcf_dry_run_steps_total",
            "Steps of a dry run, by what would have been done and to what.",
            ["step", "target"],
            registry=registry,
        )

    def tell(self, step: str, target: str, **facts: object) -> None:
        """Tell of one step.

        Args:
            step: such as `would_create`; the log event is `dry_run.` and this.
            target: a plural of the API, or a driver's operation.
            facts: for the log.
        """
        self._steps.labels(step, target).inc()
        _log.info(f"dry_run.{step}", target=target, **facts)
