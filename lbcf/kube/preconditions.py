"""Lets a patch name the version it was made for, so that no other is changed by it.

`client.patch` uses it. The server answers 409 where the resourceVersion that the changed
object would have is not the one it has. The uid goes with it for a namesake that would
have the same one after a restore of etcd: alone it gets a 422 (measured on Kubernetes
1.36).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from lbcf.core.model.resources import Meta


Body = Mapping[str, object]
"""A JSON object that is to be sent."""

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"


def merge_cas(body: Body, cas: Meta | None) -> Body:
    """Let a merge patch name what it is about; what else it says stays."""
    if cas is None:
        return body
    given = body.get("metadata", {})
    named = {"uid": cas.uid, "resourceVersion": cas.resource_version}
    rest = given if isinstance(given, Mapping) else {}
    return {**body, "metadata": {**rest, **named}}


def json_cas(operations: Sequence[Body], cas: Meta | None) -> Sequence[Body]:
    """Let a JSON patch name what it is about.

    Writing the two fields makes the server compare them and answer 409; a `test` that
    fails would come back as 422, as if the patch were wrong.
    """
    if cas is None:
        return operations
    fields = (("uid", cas.uid), ("resourceVersion", cas.resource_version))
    named = [
        {"op": "replace", "path": f"/metadata/{name}", "value": value}
        for name, value in fields
    ]
    return [*named, *operations]
