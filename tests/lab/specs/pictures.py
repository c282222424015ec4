"""Differential and recovery: scenes in words that are the same in every namespace.

What history decides beside the specs is open, and not compared. No I/O.
"""

import json

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import attrs

from tests.lab.specs.meaning import (
    Body,
    Member,
    Scene,
    condition,
    is_plain,
    is_refused,
    owner_of,
    place_of,
    remembers,
    wants,
)


_AT_REST: Final = {
    *(("RemovalsHeld", "False"), ("DrainedByHand", "False"), ("Drifted", "False")),
    *(("Serving", "True"), ("InService", "True"), ("Restored", "True")),
    *(("Orphaned", "False"), ("DrainGated", "Unknown")),
    # It is damped: for minutes after some falls it says what was.
    *(("Reachable", word) for word in ("True", "False", "Unknown")),
}
"""Conditions that say no more than if they had never been set."""


@attrs.frozen
class Picture:
    """A scene in words that are the same in every namespace.

    Attributes:
        told: by `Kind/name`, what is said and registered.
        open: of whom the specs alone do not decide what becomes.
    """

    told: Mapping[str, Any]
    open: frozenset[str]


def picture(scene: Scene) -> Picture:
    """Draw a picture of a scene."""
    by_record = {member.record: member for member in scene.members}
    told: dict[str, Any] = {}
    unclear: set[str] = set()
    sought = Counter(place_of(scene, record) for _, record in scene.of("BackendRecord"))
    for key, body in scene.objects.items():
        kind = key.partition("/")[0]
        if kind == "BackendRecord":
            continue
        told[key] = {"conditions": _shown_conditions(body)}
        if "svc" in key and kind != "Service":
            told[key]["spec"] = body["spec"]
        if kind in {"BackendGroup", "Bind"}:
            told[key]["records"] = sorted(
                json.dumps(
                    _shown_record(
                        r, by_record, is_shared=sought[place_of(scene, r)] > 1
                    ),
                    sort_keys=True,
                )
                for _, r in scene.of("BackendRecord")
                if owner_of(r) == key
            )
        if _is_open(scene, key, body):
            unclear.add(_renamed(key, scene.tokens))
    shown = json.loads(_renamed(json.dumps(told), scene.tokens))
    return Picture(shown, frozenset(unclear))


def _is_open(scene: Scene, key: str, body: Body) -> bool:
    """Whether history decides beside the spec."""
    has_class = any(True for _ in scene.of("LoadBalancerClass"))
    if "deletionTimestamp" in body["metadata"] or ("svc" in key and not has_class):
        return True
    match key.partition("/")[0]:
        case "LoadBalancer":
            return is_refused(body["spec"]) or not is_plain(
                scene, body["spec"]["lbDriver"]
            )
        case "LoadBalancerDriver":
            return not is_plain(scene, key.partition("/")[2])
        case "BackendGroup" | "Bind":
            held = condition(body, "RemovalsHeld").get("status") == "True"
            verdict = wants(scene, body)
            is_open = verdict is None or verdict.is_ready is not True
            return held or is_open or remembers(body["spec"])
        case "Service":
            return any(
                _is_open(scene, k, o)
                for k, o in scene.objects.items()
                if "svc" in k and k != key
            )
        case _:
            return False


def _shown_conditions(body: Body) -> dict[str, str]:
    status = body.get("status", {})
    found = {
        c["type"]: f"{c['status']} {c.get('reason')}"
        for c in status.get("conditions", [])
        if (c["type"], c["status"]) not in _AT_REST
    }
    for entry in status.get("loadBalancerStatuses", []):
        found |= {
            f"{entry['name']}.{kind}": told
            for kind, told in _shown_conditions({"status": entry}).items()
        }
    return found


def _shown_record(
    record: Body, members: Mapping[str, Member], *, is_shared: bool
) -> Body:
    # Where its address was found is as it was when it was made; the member's tells.
    own = {"nodeUID", "backendAddr"}
    spec = {k: v for k, v in record["spec"].items() if k not in own}
    if "podBackend" in spec:
        spec["podBackend"] = {**spec["podBackend"], "uid": ""}
    member = members.get(record["metadata"]["uid"])
    at = member and [member.address, dict(member.parameters), member.is_active]
    seen = _shown_conditions(record)
    if is_shared:
        # Which of two that want one address has it is chance.
        return {"spec": spec}
    return {"spec": spec, "conditions": seen, "member": at}


def _renamed(text: str, tokens: Mapping[str, str]) -> str:
    for name, told in tokens.items():
        text = text.replace(name, told)
    return text


def differences(one: Picture, other: Picture) -> list[str]:
    """What is not the same in two pictures, but for what is open in either."""
    unclear = one.open | other.open
    keys = (one.told.keys() | other.told.keys()) - unclear
    found = []
    for key in sorted(keys):
        mine, theirs = one.told.get(key, {}), other.told.get(key, {})
        for part in sorted(mine.keys() | theirs.keys()):
            here, there = mine.get(part), theirs.get(part)
            if part == "records" and here and there:
                here, there = (
                    [*(Counter(here) - Counter(there)).elements()],
                    [*(Counter(there) - Counter(here)).elements()],
                )
            if here != there:
                found.append(f"{key} {part}: {here} in the one, {there} in the other")
    return found
