"""The wire of ELBv2: forms in, XML out, both as AWS' Query protocol has them."""

from collections.abc import Mapping
from xml.etree import ElementTree as ET

from tests.elbv2.state import ApiError, Description


NAMESPACE = "http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/"

Value = "str | Mapping[str, Value] | Sequence[Value]"


def members(form: Mapping[str, str], name: str) -> list[dict[str, str]]:
    """Return a list of structures: `NAME.member.1.Key=...`; "" keys a plain value."""
    found: dict[int, dict[str, str]] = {}
    for key, value in form.items():
        parts = key.split(".")
        if parts[:2] == [name, "member"]:
            rest = ".".join(parts[3:])
            found.setdefault(int(parts[2]), {})[rest] = value
    return [found[number] for number in sorted(found)]


def targets(form: Mapping[str, str]) -> list[Description]:
    """Return the targets that a call names."""
    return [
        Description(
            one["Id"],
            int(one["Port"]) if "Port" in one else None,
            one.get("AvailabilityZone", ""),
        )
        for one in members(form, "Targets")
    ]


def rendered(action: str, result: Mapping[str, object], request_id: str) -> bytes:
    """Return the body of a success."""
    root = ET.Element(f"{action}Response", xmlns=NAMESPACE)
    _fill(ET.SubElement(root, f"{action}Result"), result)
    _fill(ET.SubElement(root, "ResponseMetadata"), {"RequestId": request_id})
    return ET.tostring(root)


def rendered_error(error: ApiError, request_id: str) -> bytes:
    """Return the body of an error."""
    root = ET.Element("ErrorResponse", xmlns=NAMESPACE)
    kind = "Sender" if error.status < 500 else "Receiver"
    said = {"Type": kind, "Code": error.code, "Message": str(error)}
    _fill(ET.SubElement(root, "Error"), said)
    _fill(root, {"RequestId": request_id})
    return ET.tostring(root)


def _fill(parent: ET.Element, values: Mapping[str, object]) -> None:
    """Add values as elements; those of a list are each a `member`."""
    for name, value in values.items():
        if isinstance(value, list):
            child = ET.SubElement(parent, name)
            for one in value:
                _fill(child, {"member": one})
        elif isinstance(value, Mapping):
            _fill(ET.SubElement(parent, name), value)
        else:
            ET.SubElement(parent, name).text = str(value)
