"""Flags of the processes, read once into one frozen value."""

import argparse
import os

from datetime import timedelta
from pathlib import Path

import attrs

from lbcf.core.errors import LbcfError
from lbcf.core.model.names import SYSTEM_NAMESPACE
from lbcf.core.model.shards import MOST_SHARDS
from lbcf.drivers.access import ALLOW_ALL, DriverAllowlist
from lbcf.drivers.url_allowlist import AllowedUrl, parse_allowed_url
from lbcf.runtime.flags import BindAddress, parse_bind_address


MOST_RECORDS = 20_000
"""BackendRecords per namespace, where nothing is said: some 80 MiB in each process."""


class SettingsError(LbcfError):
    """A flag that cannot be used; the text names it and what it may be."""


@attrs.frozen
class Settings:
    """How one process is to run.

    Attributes:
        process: `controller`, `deregistrar` or `admission`.
        kubeconfig: a file; None: KUBECONFIG, or the pod's own service account.
        context: of the kubeconfig; None: its current one.
        namespace: where the Leases live.
        metrics: where to serve /metrics; None: nowhere.
        probes: where to serve /healthz and /readyz; None: nowhere.
        drain_gate: where the deregistrar answers pods that wait; None: nowhere.
        leader_elect: wait for the Lease before working.
        grace: how long calls under way may take once the process is told to end.
        list_period: between two readings of a load balancer's members.
        most_records: BackendRecords per namespace, 0 for any number.
        allowlist: which drivers are called, by their URLs and namespaces.
        dry_run: show what would be done, and write nothing.
        record_events: tell of each call about a record or load balancer by an Event.
        journal: file in which a run leaves what the next one in its place is to know;
            None: nowhere.
        shards: among how many leaders the work is divided.
    """

    process: str
    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str = SYSTEM_NAMESPACE
    metrics: BindAddress | None = None
    probes: BindAddress | None = None
    drain_gate: BindAddress | None = None
    leader_elect: bool = True
    log_level: str = "info"
    log_format: str = "json"
    grace: timedelta = timedelta(seconds=25)
    list_period: timedelta = timedelta(seconds=2)
    most_records: int = MOST_RECORDS
    allowlist: DriverAllowlist = ALLOW_ALL
    dry_run: bool = False
    record_events: bool = False
    journal: Path | None = None
    shards: int = 1


_PORTS = {
    "controller": (11029, 11028),
    "deregistrar": (11039, 11038),
    "admission": (11049, 11048),
}
"""Metrics and probes; they differ, so that all processes run on one host."""


def add_flags(parser: argparse.ArgumentParser, process: str) -> None:
    """Describe the flags of a process."""
    metrics, probes = _PORTS[process]
    add = parser.add_argument
    add("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, else in-cluster")
    add("--context", metavar="NAME", help="context of the kubeconfig")
    kept = (
        "the Secret of our own certificate" if process == "admission" else "the Leases"
    )
    add(
        "--namespace",
        default=os.environ.get("POD_NAMESPACE") or SYSTEM_NAMESPACE,
        help=f"of {kept} (default: $POD_NAMESPACE, else kube-system)",
    )
    add(
        "--metrics-bind-address",
        default=f":{metrics}",
        metavar="[HOST]:PORT",
        help="where to serve /metrics; 0: nowhere (default: %(default)s)",
    )
    add(
        "--health-probe-bind-address",
        default=f":{probes}",
        metavar="[HOST]:PORT",
        help="where to serve /healthz and /readyz; 0: nowhere (default: %(default)s)",
    )
    if process != "admission":
        add(
            "--leader-elect",
            default=True,
            action=argparse.BooleanOptionalAction,
            help="work only while holding the Lease (default: yes)",
        )
        add(
            "--record-events",
            action="store_true",
            help="an Event for each answer of a driver, as LBCF in Go has them",
        )
        add(
            "--shards",
            default=1,
            type=int,
            metavar="NUMBER",
            help="among how many leaders the work is divided, the same for the "
            "controller and the deregistrar (default: %(default)s)",
        )
    if process == "deregistrar":
        add(
            "--drain-gate-bind-address",
            default="0",
            metavar="[HOST]:PORT",
            help="where to answer pods that wait until no record names them, such as "
            ":11037; 0: nowhere (default: %(default)s)",
        )
    if process in ("controller", "deregistrar"):
        add(
            "--journal",
            type=Path,
            metavar="FILE",
            help="in which a process that is killed leaves what the next one in its place "
            "need not wait for; best in a volume of the pod, in memory (default: nowhere)",
        )
    add(
        "--log-level",
        default="info",
        metavar="LEVEL",
        help="debug, info, warning or error (default: %(default)s)",
    )
    add(
        "--log-format",
        default="json",
        choices=["json", "console"],
        help="default: %(default)s",
    )
    add(
        "--grace-period",
        default=25.0,
        type=float,
        metavar="SECONDS",
        help="for calls under way at SIGTERM (default: %(default)s)",
    )
    add(
        "--driver-url-allow",
        default=[],
        action="append",
        metavar="SCHEME://HOST[:PORT]",
        help="where drivers may be, such as https://*.drivers.svc; * stands for any "
        "text, without a port all are meant; what is beside us (loopback, link-local) "
        "must be named by its address; repeatable (default: anywhere else)",
    )
    add(
        "--driver-namespaces",
        default=[],
        action="append",
        metavar="NAME",
        help="call drivers of these namespaces alone, such as kube-system for the shared "
        "ones; repeatable (default: of all)",
    )
    if process == "controller":
        add(
            "--dry-run",
            action="store_true",
            help="write nothing, log what would be done, and call only drivers that "
            "take dryRun",
        )
        add(
            "--list-backends-period",
            default=2.0,
            type=float,
            metavar="SECONDS",
            help="between two readings of a load balancer's members (default: 2)",
        )
        add(
            "--max-records-per-namespace",
            default=MOST_RECORDS,
            type=int,
            metavar="NUMBER",
            help="BackendRecords that are made in a namespace at most; 0: any number "
            "(default: %(default)s)",
        )


def read_settings(process: str, flags: argparse.Namespace) -> Settings:
    """Make settings of parsed flags.

    Raises:
        SettingsError: a value that cannot be used.
    """
    dry_run = getattr(flags, "dry_run", False)
    elects = getattr(flags, "leader_elect", False) and not dry_run
    return Settings(
        process=process,
        kubeconfig=_kubeconfig(flags.kubeconfig),
        context=flags.context,
        namespace=flags.namespace,
        metrics=_address("--metrics-bind-address", flags.metrics_bind_address),
        probes=_address("--health-probe-bind-address", flags.health_probe_bind_address),
        drain_gate=_address(
            "--drain-gate-bind-address", getattr(flags, "drain_gate_bind_address", "0")
        ),
        # A Lease would be written.
        leader_elect=elects,
        log_level=flags.log_level,
        log_format=flags.log_format,
        grace=_seconds("--grace-period", flags.grace_period),
        list_period=_seconds(
            "--list-backends-period", getattr(flags, "list_backends_period", 2.0)
        ),
        most_records=_count(
            "--max-records-per-namespace",
            getattr(flags, "max_records_per_namespace", MOST_RECORDS),
        ),
        allowlist=DriverAllowlist(
            allowed_urls=tuple(map(_allowed_url, flags.driver_url_allow)),
            namespaces=frozenset(flags.driver_namespaces),
        ),
        dry_run=dry_run,
        record_events=getattr(flags, "record_events", False),
        journal=getattr(flags, "journal", None),
        shards=_shards(getattr(flags, "shards", 1), elects=elects),
    )


def _shards(number: int, *, elects: bool) -> int:
    """Check the number of shards: which one a process has, its Lease says."""
    if not 1 <= number <= MOST_SHARDS:
        raise SettingsError(f"--shards {number}: must be from 1 to {MOST_SHARDS}")
    if number > 1 and not elects:
        raise SettingsError(
            f"--shards {number}: needs leader election, and so no --dry-run"
        )
    return number


def _allowed_url(text: str) -> AllowedUrl:
    try:
        return parse_allowed_url(text)
    except ValueError as error:
        raise SettingsError(f"--driver-url-allow {text!r:.100}: {error}") from error


def _kubeconfig(flag: str | None) -> Path | None:
    """Return the kubeconfig to read, None inside a pod."""
    named = flag or os.environ.get("KUBECONFIG")
    if not named:
        return None
    path = Path(named).expanduser()
    if not path.is_file():
        raise SettingsError(f"--kubeconfig {named}: no such file")
    return path


def _address(flag: str, text: str) -> BindAddress | None:
    try:
        return parse_bind_address(text)
    except ValueError as error:
        raise SettingsError(f"{flag} {text}: {error}") from error


def _count(flag: str, number: int) -> int:
    if number < 0:
        raise SettingsError(f"{flag} {number}: must be 0 (any number) or more")
    return number


def _seconds(flag: str, number: float) -> timedelta:
    if not 0 < number <= 3600:  # noqa: PLR2004 - an hour is longer than any use of it
        raise SettingsError(f"{flag} {number:g}: must be above 0 and at most 3600")
    return timedelta(seconds=number)
