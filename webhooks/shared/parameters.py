"""Names that nobody knows, in what users wrote. Pure.

A name that is passed over in silence is a typing error that nobody finds: so drivers
refuse it, with the text that is made here.
"""

from collections.abc import Iterable, Mapping, Sequence

from lbcf.sdk import Fail


def unknown_parameter(parameters: Iterable[str], known: Sequence[str]) -> str:
    """Return what to say of parameters that are not known; empty: all are."""
    unknown = sorted(set(parameters) - set(known))
    if not unknown:
        return ""
    return f"parameters: {unknown[0]!r:.60} is unknown; known are {', '.join(known)}"


def wrong_field(
    fields: Mapping[str, str], needed: Sequence[str], known: Sequence[str]
) -> str:
    """Return what is wrong with the fields of a load balancer; empty: nothing is."""
    unknown = sorted(set(fields) - set(known))
    if unknown:
        return f"{unknown[0]!r:.60} is unknown"
    missing = [name for name in needed if not fields.get(name)]
    return f"{missing[0]} is missing" if missing else ""


def check_no_attributes(attributes: Mapping[str, str]) -> None:
    """Refuse attributes: what the load balancer is like is left to its operator.

    Raises:
        Fail: there is one.
    """
    if attributes:
        name = min(attributes)
        raise Fail(f"attributes: {name!r:.60} is unknown; this driver has none")
