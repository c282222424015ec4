"""A record as the rules look at it, read from JSON without the code under test."""

from typing import cast

import attrs

from tests.kube.tiny_rules import Json, metadata_of


@attrs.frozen
class Seen:
    """A record, as far as the rules go.

    Attributes:
        is_in: its Registered condition is True, whatever the generation.
        is_current: and of this generation.
        is_settled: and no ensure may be out.
    """

    name: str
    uid: str
    group: str
    lb_name: str
    lb_info: Json
    address: str
    backend: Json
    parameters: Json
    is_deleting: bool
    is_held: bool
    is_in: bool
    is_current: bool
    is_settled: bool
    drains: bool
    deadline: str


def see(whole: Json) -> Seen:
    """Read a record."""
    metadata, spec = metadata_of(whole), cast("Json", whole["spec"])
    status = cast("Json", whole.get("status") or {})
    deleting = bool(metadata.get("deletionTimestamp"))
    owners = cast("list[Json]", metadata.get("ownerReferences") or [{}])
    registered: Json = next(
        (
            c
            for c in cast("list[Json]", status.get("conditions") or [])
            if c["type"] == "Registered"
        ),
        {},
    )
    generation = cast("int", metadata["generation"]) - deleting
    is_in = registered.get("status") == "True"
    current = is_in and registered.get("observedGeneration") == generation
    always = cast("Json", spec.get("ensurePolicy") or {}).get("policy") == "Always"
    drain = cast("Json", status.get("drain") or {})
    return Seen(
        name=str(metadata["name"]),
        uid=str(metadata["uid"]),
        group=str(owners[0].get("name", "")),
        lb_name=str(spec["lbName"]),
        lb_info=cast("Json", spec["lbInfo"]),
        address=str(spec.get("backendAddr") or status.get("backendAddr") or ""),
        backend=cast(
            "Json", spec.get("podBackend") or {"staticAddr": spec.get("staticAddr")}
        ),
        parameters=cast("Json", spec.get("parameters") or {}),
        is_deleting=deleting,
        is_held=bool(metadata.get("finalizers")),
        is_in=is_in,
        is_current=current,
        is_settled=current and not status.get("ensuring") and not always,
        drains="drain" in spec,
        deadline=str(drain.get("deadline") or ""),
    )
