"""What to do about a reason: its sentence of docs/troubleshoot.md, or one that fits better.

A better one names what the condition's writer did not: the object to change, the role to
bind, the URL that was asked.
"""

import re

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import attrs

from lbcf.core.lifecycle.orphans import why_not
from lbcf.core.model.conditions import DEREGISTERED, DRAINED, Condition
from lbcf.core.model.names import bind_of
from lbcf.core.model.resources import LoadBalancerDriver
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.ctl.report import Line, Mark, condition_line


_SAYS_NOTHING: Final = ("nothing", "wait", "read its words", "the message says", "...")
"""Beginnings of sentences that add nothing to the message beside them."""

_LINK: Final = re.compile(r"\[([^]]*)\]\(([^)]*)\)")
_OPERATION: Final = re.compile(r"(\w+) of driver ")
_HTTPS: Final = "https://"
_LEAVING: Final = frozenset({DRAINED, DEREGISTERED})
"""Conditions of a record that cannot go before its driver has answered."""
MEND_REFUSAL: Final = "mend what the driver's words name: it is asked again by itself"
_NO_TLS: Final = "no TLS connection came about"


@attrs.frozen
class Trouble:
    """What is to be remedied.

    Attributes:
        key: of the object whose condition it is.
        condition: that reports a failure.
        driver: that is called for the object; None: none is, or it was not read.
    """

    key: ObjectKey
    condition: Condition
    driver: LoadBalancerDriver | None = None


def remedy_of(trouble: Trouble) -> str:
    """Return what to do, empty where the message says it, or nobody knows."""
    special = _SPECIAL.get(trouble.condition.reason)
    text = "" if special is None else special(trouble)
    return text or _general(trouble.condition.reason)


def remedied_line(trouble: Trouble, now: datetime, mark: Mark | None = None) -> Line:
    """Return the line of a condition, with what to do about it if it says no.

    Args:
        trouble: the condition, and what it is about.
        now: the moment.
        mark: None: as the condition itself says.
    """
    line = condition_line(trouble.condition, now, mark)
    if line.mark is not Mark.NO:
        return line
    return attrs.evolve(line, remedy=remedy_of(trouble))


def _general(reason: str) -> str:
    known = {member.value: member.do for member in Reason}
    text = known.get(reason, "")
    if text.startswith(_SAYS_NOTHING):
        return ""
    return _LINK.sub(_plain_link, text).replace("`", "")


def _plain_link(found: re.Match[str]) -> str:
    label, target = found.groups()
    page = target if not target.startswith("#") else f"troubleshoot.md{target}"
    where = f"docs/{page}"
    return where if label.endswith(".md") else f"{label} ({where})"


def _patch_group(patch: str) -> Callable[[Trouble], str]:
    """Make what lets held removals through, by a patch of a group or Bind."""

    def remedy(trouble: Trouble) -> str:
        bind = bind_of(trouble.key)
        kind, key = ("bg", trouble.key) if bind is None else ("bind", bind)
        where = f"{kind} {key.name} -n {key.namespace}"
        return (
            "look at the pods and their nodes; to let the removals through: "
            f"kubectl patch {where} --type merge -p '{patch}'"
        )

    return remedy


def _unread_secret(trouble: Trouble) -> str:
    place = trouble.driver.meta.key.namespace if trouble.driver else "its driver's"
    return (
        "bind the ClusterRole lbcf-driver-secrets to our ServiceAccounts in namespace "
        f"{place}: docs/security.md#our-processes"
    )


def _refusal(trouble: Trouble) -> str:
    if trouble.driver is None:
        return ""
    key = trouble.driver.meta.key
    command = f"kubectl lbcf why driver/{key.name} -n {key.namespace}"
    return f"{MEND_REFUSAL}; what else it refuses: {command}"


def _unreachable(trouble: Trouble) -> str:
    found = _plain_behind_https(trouble) or _general(trouble.condition.reason)
    if trouble.condition.type not in _LEAVING:
        return found
    what = f"br/{trouble.key.name} -n {trouble.key.namespace}"
    command = f"kubectl lbcf abandon {what} --reason TEXT"
    return f"{found} Where it never comes back: {command}"


def _plain_behind_https(trouble: Trouble) -> str:
    driver = trouble.driver
    if driver is None or _NO_TLS not in trouble.condition.message:
        return ""
    if not driver.url.startswith(_HTTPS):
        return ""
    return (
        f"does anything speak TLS at {driver.url}? If it speaks plain HTTP, write "
        "spec.url with http://"
    )


def _tls_behind_http(trouble: Trouble) -> str:
    driver = trouble.driver
    if driver is None or driver.url.startswith(_HTTPS):
        return ""
    return f"if TLS is spoken at {driver.url}, write spec.url with https://"


def _wrong_path(trouble: Trouble) -> str:
    driver, found = trouble.driver, _OPERATION.search(trouble.condition.message)
    if driver is None or found is None:
        return ""
    asked = f"POST {driver.url.rstrip('/')}/{found[1]}"
    if "status 404" in trouble.condition.message:
        return f"it was {asked}: is the path in spec.url right?"
    plain = (
        _tls_behind_http(trouble) if "status 400" in trouble.condition.message else ""
    )
    return f"it was {asked}; {plain or 'the driver log says more'}"


def _orphans(trouble: Trouble) -> str:
    if bind_of(trouble.key) is not None or (
        trouble.driver is not None and why_not(trouble.driver)
    ):
        return (
            "was a record abandoned, or its finalizer taken off, and does no other cluster "
            "use this load balancer? Then take them out there, by hand"
        )
    where = f"lb/{trouble.key.name} -n {trouble.key.namespace}"
    return (
        "was a record abandoned, or its finalizer taken off, and does no other cluster use "
        f"this load balancer? Then: kubectl lbcf remove-orphans {where}"
    )


_UNPROTECTED: Final = '{"spec":{"protection":{"maxUnreadyPercent":null}}}'
_UNJUDGED: Final = '{"spec":{"deregisterPolicy":"IfNotReady","deregisterWebhook":null}}'
_SPECIAL: Final[Mapping[str, Callable[[Trouble], str]]] = {
    Reason.TOO_MANY_UNREADY: _patch_group(_UNPROTECTED),
    Reason.NOT_JUDGED: _patch_group(_UNJUDGED),
    Reason.MEMBERS_ORPHANED: _orphans,
    Reason.DRIVER_SECRET_UNREAD: _unread_secret,
    Reason.DRIVER_REFUSED: _refusal,
    Reason.DRIVER_UNREACHABLE: _unreachable,
    Reason.DRIVER_BAD_ANSWER: _tls_behind_http,
    Reason.DRIVER_CONNECTION_LOST: _tls_behind_http,
    Reason.DRIVER_BAD_STATUS: _wrong_path,
}
