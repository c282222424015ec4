"""A record as the rules look at it, read from JSON without the code under test."""

from datetime import datetime
from typing import cast

import attrs

from lbcf.core.model.names import ANNOTATION_ABANDON
from tests.fakes.clock import EPOCH
from tests.kube.tiny_rules import Json, metadata_of
from tests.lab.sweep.balancer import target_of


@attrs.frozen
class Seen:
    """A record, as far as the rules go.

    Attributes:
        driver: by name, who is called.
        target: which pool of that driver's system its member is in.
        backend: what is registered, as `wishes` spells it.
        is_in: its Registered condition is True, whatever the generation.
        is_current: and of this generation.
        is_settled: and no ensure may be out.
        drain_seconds: how long it is to be drained, None: not at all.
        deadline: of the drain, as written: seconds of the API server's clock.
        drain_length: seconds from its start to its deadline, as written.
        is_let_go: a person has said why it is to go without its driver.
    """

    name: str
    uid: str
    group: str
    lb_name: str
    driver: str
    target: str
    address: str
    backend: str
    parameters: Json
    is_deleting: bool
    is_held: bool
    is_in: bool
    is_current: bool
    is_settled: bool
    drain_seconds: float | None
    deadline: float | None
    drain_length: float | None
    is_let_go: bool


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
    annotations = cast("Json", metadata.get("annotations") or {})
    return Seen(
        name=str(metadata["name"]),
        uid=str(metadata["uid"]),
        group=str(owners[0].get("name", "")),
        lb_name=str(spec["lbName"]),
        driver=str(spec["lbDriver"]),
        target=target_of(cast("Json", spec["lbInfo"])),
        address=str(spec.get("backendAddr") or status.get("backendAddr") or ""),
        backend=_backend(spec),
        parameters=cast("Json", spec.get("parameters") or {}),
        is_deleting=deleting,
        is_held=bool(metadata.get("finalizers")),
        is_in=is_in,
        is_current=current,
        is_settled=current and not status.get("ensuring") and not always,
        drain_seconds=_drain_seconds(spec),
        deadline=_second(drain.get("deadline")),
        drain_length=_drain_length(drain),
        is_let_go=bool(str(annotations.get(ANNOTATION_ABANDON, "")).strip()),
    )


def _backend(spec: Json) -> str:
    """Spell what is registered."""
    match spec:
        case {"podBackend": {"name": name, "uid": uid}}:
            return f"{name}/{uid}"
        case {"serviceBackend": {"nodePort": port, "nodeName": node}}:
            return f"node {node}:{port}"
        case {"nodeBackend": {"name": name, "port": {"port": port}}}:
            return f"node {name}:{port}"
        case {"staticAddr": str(address)}:
            return address
        case _:
            raise AssertionError(f"a record of what? {spec}")


def _drain_seconds(spec: Json) -> float | None:
    """Say how long a record is to be drained."""
    match spec:
        case {"drain": {"timeoutSeconds": int(seconds)}}:
            return float(seconds)
        case _:
            return None


def _drain_length(drain: Json) -> float | None:
    """Say how long a drain is as it is written."""
    began, ends = _second(drain.get("startedAt")), _second(drain.get("deadline"))
    return None if began is None or ends is None else ends - began


def _second(moment: object) -> float | None:
    """Read a moment."""
    if not isinstance(moment, str):
        return None
    return (datetime.fromisoformat(moment) - EPOCH).total_seconds()
