"""Names of the code, as documents write them."""

import pkgutil

from lbcf.core.model import conditions


def exists(name: str) -> bool:
    """Whether a dotted name leads to a module, or to something in one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def condition_types() -> set[str]:
    """Every type of condition that our objects have."""
    return {
        value
        for name, value in vars(conditions).items()
        if name.isupper() and not name.startswith("_")
    }
