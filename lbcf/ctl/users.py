"""Who uses a load balancer or a driver, in a few words.

Before it: indexes of the view. After it: `balancers` and `drivers`.
"""

from collections.abc import Collection, Iterable

from lbcf.core.model.resources import BackendRecord
from lbcf.core.model.values import ObjectKey
from lbcf.ctl.problems import subject


_NAMED = 5


def named(subjects: Iterable[str]) -> str:
    """Name the first few of many."""
    found = sorted(subjects)
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return (", ".join(found[:_NAMED]) or "none") + more


def called(kind: str, user: ObjectKey, used: ObjectKey) -> str:
    """Name a user, with its namespace where that is another one."""
    away = f" in {user.namespace}" if user.namespace != used.namespace else ""
    return f"{subject(kind, user)}{away}"


def counted(records: Collection[BackendRecord]) -> str:
    """Count records by how far they are."""
    leaving = sum(1 for record in records if record.is_deleting)
    inside = sum(1 for r in records if r.is_registered and not r.is_deleting)
    rest = len(records) - leaving - inside
    return f"{inside} registered, {rest} not yet, {leaving} on their way out"
