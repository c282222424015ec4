"""Raw objects of the API server, which drivers are sent: their key, and what may be sent.

Go's decoder takes field names in any letter case; drivers that echo objects through
other libraries rely on it.
"""

from collections.abc import Mapping

from lbcf.core.model.values import ObjectKey


_ADDRESS_FIELDS = (
    ("metadata", "name"),
    ("spec", "providerID"),
    ("status", "addresses"),
)


def key_of_raw_object(raw: Mapping[str, object], namespace: str) -> ObjectKey | None:
    """Return an object's namespace and name; None where it has no name.

    Args:
        raw: the object, with field names in any letter case.
        namespace: its own where it does not say one.
    """
    metadata = _field(raw, "metadata")
    if not isinstance(metadata, Mapping):
        return None
    name = _field(metadata, "name")
    if not isinstance(name, str) or not name:
        return None
    said = _field(metadata, "namespace")
    return ObjectKey(said if isinstance(said, str) and said else namespace, name)


def node_address_fields(node: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a Node that an address is made of: name, addresses, providerID.

    Labels, annotations, images, volumes and versions of nodes are no tenant's business.
    """
    found: dict[str, object] = {"apiVersion": "v1", "kind": "Node"}
    for part, field in _ADDRESS_FIELDS:
        inner = node.get(part)
        if isinstance(inner, Mapping) and field in inner:
            found[part] = {field: inner[field]}
    return found


def _field(found: Mapping[str, object], name: str) -> object:
    return next((v for k, v in found.items() if k.casefold() == name), None)
