"""Names of the code, as documents write them."""

import pkgutil


def exists(name: str) -> bool:
    """Whether a dotted name leads to a module, or to something in one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True
