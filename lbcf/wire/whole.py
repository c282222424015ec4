"""What of a whole object is read, or told, where drivers are sent them.

Go's decoder takes field names in any letter case; drivers that echo objects through
other libraries rely on it.
"""

from collections.abc import Mapping

from lbcf.core.model.values import ObjectKey


_PLACE = (("metadata", "name"), ("spec", "providerID"), ("status", "addresses"))


def key_of_whole(whole: Mapping[str, object], namespace: str) -> ObjectKey | None:
    """Say an object's namespace and name; None where it has no name.

    Args:
        whole: the object, with field names in any letter case.
        namespace: its own where it does not say one.
    """
    metadata = _field(whole, "metadata")
    if not isinstance(metadata, Mapping):
        return None
    name = _field(metadata, "name")
    if not isinstance(name, str) or not name:
        return None
    said = _field(metadata, "namespace")
    return ObjectKey(said if isinstance(said, str) and said else namespace, name)


def place_of_node(node: Mapping[str, object]) -> dict[str, object]:
    """Keep of a Node what an address is made of: its name, addresses and providerID.

    Labels, annotations, images, volumes and versions of nodes are no tenant's business.
    """
    found: dict[str, object] = {"apiVersion": "v1", "kind": "Node"}
    for part, field in _PLACE:
        inner = node.get(part)
        if isinstance(inner, Mapping) and field in inner:
            found[part] = {field: inner[field]}
    return found


def _field(found: Mapping[str, object], name: str) -> object:
    """Find a field by its name in any letter case."""
    return next((v for k, v in found.items() if k.casefold() == name), None)
