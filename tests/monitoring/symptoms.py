"""What whoever is on call meets, by what tells of it: a condition or Event, and an alert.

`tests.e2e.test_health`, and on real nodes `tests.lab.installed`, let each come about and ask
`kubectl lbcf status`;
`test_symptoms` has each alert fire. The table of docs/troubleshoot.md is made of this.
"""

import re

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from lbcf.core.reasons import Reason


PAGE: Final = Path("docs/troubleshoot.md")
_HEAD: Final = (
    "| what has happened | `status` names | told by | alert |\n|---|---|---|---|\n"
)
_TABLE: Final = re.compile(re.escape(_HEAD) + r"(?:\|.*\n)*")
_NOUNS: Final = {
    "bg": "group",
    "lb": "load balancer",
    "br": "record",
    "lease": "Lease",
}
_FRONT: Final = 'namespace="shop",load_balancer="front"'
_NAMED: Final = {"namespace": "shop", "load_balancer": "front"}
_TROUBLED: Final = f'lbcf_load_balancer_in_trouble{{{_FRONT},driver="shop/proxy"'


@attrs.frozen
class Symptom:
    """One trouble.

    Attributes:
        name: as people would say it.
        subject: kind of the object that `status` names, as kubectl takes it.
        reason: that `status` names.
        told_by: what is written into the cluster, in Markdown.
        alert: that fires if it lasts.
        series: of Prometheus while it lasts.
        values: of that series, as promtool takes them.
        labels: of the alert beside its severity.
    """

    name: str
    subject: str
    reason: Reason
    told_by: str
    alert: str
    series: str
    values: str = "1x90"
    labels: Mapping[str, str] = attrs.field(factory=dict)


SYMPTOMS: Final = (
    Symptom(
        "the pod is not selected",
        "bg",
        Reason.NOTHING_SELECTED,
        "condition Serving",
        "LbcfGroupsSelectNothing",
        'lbcf_groups{condition="Serving",status="False",reason="NothingSelected"}',
    ),
    Symptom(
        "there is no such load balancer",
        "bg",
        Reason.LOAD_BALANCER_NOT_FOUND,
        "condition Ready",
        "LbcfGroupsUndecided",
        'lbcf_groups{condition="Ready",status="False",reason="LoadBalancerNotFound"}',
        labels={"reason": "LoadBalancerNotFound"},
    ),
    Symptom(
        "the driver refuses a backend",
        "br",
        Reason.DRIVER_REFUSED,
        "condition Registered, and an Event",
        "LbcfRecordsNotRegistered",
        'lbcf_records{condition="Registered",status="False",reason="DriverRefused"}',
        labels={"reason": "DriverRefused"},
    ),
    Symptom(
        "a member was taken out by hand",
        "lb",
        Reason.MEMBERS_MISSING,
        "condition Drifted, and an Event",
        "LbcfMembersMissing",
        f'{_TROUBLED},condition="Drifted",reason="MembersMissing"}}',
        labels=_NAMED,
    ),
    Symptom(
        "the load balancer calls a member DOWN",
        "br",
        Reason.MEMBER_DOWN,
        "condition InService, and Event `MembersDown` on the group",
        "LbcfMembersDown",
        f"lbcf_members_down{{{_FRONT}}}",
        labels=_NAMED,
    ),
    Symptom(
        "removals are held",
        "bg",
        Reason.TOO_MANY_UNREADY,
        "condition RemovalsHeld, and an Event",
        "LbcfRemovalsHeld",
        'lbcf_removals_held{namespace="shop",group="web"}',
        labels={"namespace": "shop", "group": "web"},
    ),
    Symptom(
        "the load balancer lost its members in a reload, and has them again",
        "lb",
        Reason.MEMBERS_PUT_BACK,
        "condition Restored, and Events `LoadBalancerReset` and `MembersPutBack`",
        "LbcfLoadBalancerReset",
        'lbcf_load_balancer_resets_total{driver="shop/proxy"}',
        "0+1x90",
        labels={"driver": "shop/proxy"},
    ),
    Symptom(
        "the load balancer is down",
        "lb",
        Reason.DRIVER_REFUSED,
        "condition Reachable, and an Event",
        "LbcfLoadBalancerUnreachable",
        f'{_TROUBLED},condition="Reachable",reason="DriverRefused"}}',
        labels={**_NAMED, "driver": "shop/proxy", "reason": "DriverRefused"},
    ),
    Symptom(
        "the driver is gone, and a record cannot go",
        "br",
        Reason.DRIVER_UNREACHABLE,
        "conditions Drained and Deregistered, and an Event",
        "LbcfDeletionStuck",
        'lbcf_oldest_deletion_age_seconds{driver="shop/proxy"}',
        "0+60x90",
        labels={"driver": "shop/proxy"},
    ),
    Symptom(
        "the deregistrar is away",
        "lease",
        Reason.NO_LEADER,
        "an Event of its Lease, which nobody holds or renews",
        "LbcfDeregistrarHasNoLeader",
        'leader_election_master_status{name="lbcf-deregistrar",pod="a"}',
        "0x90",
    ),
)


def is_named(
    problems: Iterable[Mapping[str, Any]], symptom: Symptom, words: Iterable[str]
) -> bool:
    """Return whether `status` names a symptom, with what to do about it.

    Args:
        problems: of its answer in JSON.
        symptom: to be named.
        words: all of which the message or the remedy has.
    """
    return any(
        one.get("remedy")
        and all(word in f"{one['message']} {one['remedy']}" for word in words)
        for one in problems
        if one["reason"] == symptom.reason
        and one["subject"].startswith(f"{symptom.subject}/")
    )


def with_table(page: str) -> str:
    """Put the table in its place of the page."""
    return _TABLE.sub(_HEAD + "".join(map(_row, SYMPTOMS)), page)


def _row(one: Symptom) -> str:
    named = f"`{one.reason}` of a {_NOUNS[one.subject]}"
    link = f"[{one.alert}](runbooks.md#{one.alert.lower()})"
    return f"| {one.name} | {named} | {one.told_by} | {link} |\n"
