"""Who needs a driver, in words: as long as somebody does, it cannot go.

`drivers` writes this into the condition of a driver that is being deleted; `kubectl lbcf
why driver/NAME` says it beforehand.
"""

from collections.abc import Collection

from lbcf.controller.view import View
from lbcf.core.model import names
from lbcf.core.model.binds import Bind
from lbcf.core.model.resources import BackendGroup, BackendRecord, LoadBalancer
from lbcf.core.model.values import ObjectKey
from lbcf.kube.kinds import HasMeta
from lbcf.kube.store import Store


_NAMED = 3


def needs_of(view: View, driver: ObjectKey) -> list[str]:
    """Say who needs a driver; what cannot be read may need it."""
    found = {
        "LoadBalancer": _keys(view.load_balancers.by_index("driver", driver)),
        "BackendGroup": _keys(view.groups.by_index("judge", driver)),
        "BackendRecord": _keys(view.records.by_index("driver", driver)),
        "unreadable LoadBalancer": _unreadable(view.load_balancers, driver),
        "unreadable BackendGroup": _unreadable(view.groups, driver),
        "unreadable Bind": _unreadable(view.binds, driver),
        "unreadable BackendRecord": _unreadable(view.records, driver),
    }
    return [_told(kind, keys) for kind, keys in found.items() if keys]


def _keys(users: Collection[HasMeta]) -> list[ObjectKey]:
    """Say who they are."""
    return [user.meta.key for user in users]


def _unreadable(
    store: Store[LoadBalancer]
    | Store[BackendGroup]
    | Store[Bind]
    | Store[BackendRecord],
    driver: ObjectKey,
) -> list[ObjectKey]:
    """Find what cannot be read, from where the driver can be used."""
    serves_all = names.home_of(driver.name, "") == driver
    return [key for key in store.unreadable if serves_all or key[0] == driver.namespace]


def _told(kind: str, keys: list[ObjectKey]) -> str:
    """Say how many there are, and the first few by name."""
    shown = ", ".join(str(key) for key in sorted(keys)[:_NAMED])
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    return f"{kind}{'s' if len(keys) > 1 else ''} {shown}{more}"
