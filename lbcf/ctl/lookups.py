"""Says why an object that was asked about has not been found.

Before it: `reading` has listed its kind. After it: `command` writes the line. There may
be none, it may not be readable, or we may not read it: three answers, and never the
first one where it is one of the others.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from lbcf.controller.view import View
from lbcf.core.model.names import bind_of
from lbcf.core.model.values import ObjectKey
from lbcf.core.reasons import Reason
from lbcf.ctl.errors import Unknown
from lbcf.ctl.flags import Kind
from lbcf.ctl.gaps import unknown_kind
from lbcf.ctl.problems import subject
from lbcf.ctl.reading import Reading
from lbcf.ctl.verdicts import Line, Mark
from lbcf.kube.kinds import BINDS, DRIVERS, GROUPS, LOAD_BALANCERS, RECORDS, Resource
from lbcf.kube.store import Store


_HELD: Final[Mapping[Kind, tuple[Resource[Any], Callable[[View], Store[Any]]]]] = {
    Kind.GROUP: (GROUPS, lambda view: view.groups),
    Kind.BIND: (BINDS, lambda view: view.binds),
    Kind.RECORD: (RECORDS, lambda view: view.records),
    Kind.LOAD_BALANCER: (LOAD_BALANCERS, lambda view: view.load_balancers),
    Kind.DRIVER: (DRIVERS, lambda view: view.drivers),
}


def not_found(reading: Reading, kind: Kind, key: ObjectKey) -> Unknown:
    """Say why something was not found; of what a Bind has, its Bind tells."""
    # A Bind is looked for among the groups, where its key says that it is one.
    word = Kind.GROUP if kind is Kind.BIND else kind
    called = subject(word, key)
    bind = bind_of(key)
    resource, store_of = _HELD[kind if bind is None else Kind.BIND]
    unreadable = store_of(reading.view).unreadable.get(bind or key)
    gap = reading.gap(resource, key.namespace)
    if gap is not None:
        return Unknown(f"{called}: {gap}")
    if resource.plural in reading.missing:
        return Unknown(f"{called}: {unknown_kind(resource)}")
    if unreadable is not None:
        return Unknown(f"{called} cannot be understood: {unreadable}")
    return Unknown(f"there is no {called} in namespace {key.namespace}")


def unread_lines(
    reading: Reading, namespace: str, *kinds: Resource[Any]
) -> Iterator[Line]:
    """Say of which kinds we may not read what there is in a namespace."""
    for kind in kinds:
        gap = reading.gap(kind, namespace)
        if gap is not None:
            yield Line(Mark.UNKNOWN, kind.plural, f"we {gap}", Reason.NOT_READ)


def unclear_groups(reading: Reading, namespace: str) -> Iterator[Line]:
    """Say which groups and Binds there may be that nobody can go by.

    Args:
        reading: what was read.
        namespace: where, empty for all that was asked about.
    """
    yield from unread_lines(reading, namespace, GROUPS, BINDS)
    view = reading.view
    for kind, store in (("bg", view.groups), ("bind", view.binds)):
        for key, told in sorted(store.unreadable.items()):
            if namespace in {"", key.namespace}:
                text = f"cannot be understood: {told}"
                yield Line(Mark.UNKNOWN, subject(kind, key), text, Reason.UNREADABLE)
