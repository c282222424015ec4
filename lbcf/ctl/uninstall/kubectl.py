"""The cluster through the operator's own kubectl, and our names in it.

Everything of `lbcf.ctl.uninstall` reads and writes through here.
"""

import json
import re
import subprocess

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Final


Item = dict[str, Any]
"""An object of the API, as JSON."""

GROUP: Final = "lbcf.tkestack.io"
KINDS: Final = (
    "loadbalancerclasses",
    "backendgroups",
    "binds",
    "backendrecords",
    "loadbalancers",
    "loadbalancerdrivers",
)
LEADER_LEASES: Final = re.compile(r"lbcf-(controller|deregistrar)(-\d+)?")
"""Names of the Leases by which leaders are elected: of a process, and of its shards."""
NAMED_WORDS: Final = 4
"""So many words of a kubectl command are shown when it fails."""


LOGIN: Final[ContextVar[tuple[str, ...]]] = ContextVar("LOGIN", default=())
"""Flags of kubectl that say which cluster is meant, and as whom."""


class UninstallError(Exception):
    """It cannot go on; the text says why, and what to do."""


def kubectl(*words: str, stdin: str | None = None) -> str:
    """Run kubectl; return what it printed.

    Raises:
        UninstallError: it is not there, or it failed.
    """
    try:
        done = subprocess.run(
            ["kubectl", *LOGIN.get(), *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise UninstallError("there is no kubectl on PATH: install it") from None
    if done.returncode:
        raise UninstallError(
            f"kubectl {' '.join(words[:NAMED_WORDS])}: {done.stderr.strip()}"
        )
    return done.stdout


def items(kind: str, *where: str) -> list[Item]:
    """List objects."""
    answer = kubectl("get", kind, *where, "-o", "json", "--ignore-not-found")
    found: list[Item] = json.loads(answer)["items"] if answer.strip() else []
    return found


def known() -> list[str]:
    """Say which of our kinds the cluster has, in the order above."""
    listed = kubectl("get", "customresourcedefinitions", "-o", "name")
    return [kind for kind in KINDS if f"/{kind}.{GROUP}\n" in listed]


def full(kind: str) -> str:
    """Name a kind so that no other project's is meant."""
    return f"{kind}.{GROUP}"


def everywhere(kinds: Sequence[str]) -> list[Item]:
    """List objects of ours in all namespaces."""
    return items(",".join(full(kind) for kind in kinds), "-A") if kinds else []


def plural(item: Item) -> str:
    """Say how kubectl calls an object's kind."""
    kind = item["kind"].lower()
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


def name_of(item: Item) -> str:
    """Name an object for people, and for `kubectl`."""
    meta = item["metadata"]
    return f"{plural(item)}/{meta['name']} -n {meta['namespace']}"


def say(text: str) -> None:
    """Tell whoever watches."""
    print(text, flush=True)
