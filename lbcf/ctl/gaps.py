"""What could not be read, in words: a right that is missing, a kind that is.

Before it: the API server said no. After it: `reading` notes it, and every report says it.
"""

from typing import Any, Final

import attrs

from lbcf.kube.errors import Forbidden, Unavailable
from lbcf.kube.kinds import Resource


_NOT_SERVED: Final = 404


@attrs.frozen
class Gap:
    """Something that we may not read.

    Attributes:
        resource: as in RBAC rules, with its group.
        namespace: empty for kinds of the whole cluster, `*` for all namespaces.
    """

    verb: str
    resource: str
    namespace: str

    def __str__(self) -> str:
        """Write it as a line for people: the verb, on what, where."""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        where = " in all namespaces" if self.namespace == "*" else where
        return f"may not {self.verb} {self.resource}{where}"


def gap_for(verb: str, resource: Resource[Any], namespace: str | None) -> Gap:
    """Say what right is missing."""
    name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    where = "" if not resource.namespaced else (namespace or "*")
    return Gap(verb, name, where)


def refused(error: Forbidden, verb: str, resource: Resource[Any], where: str) -> str:
    """Say what right is missing; or, in its own words, which rule for admission says no.

    The API server words all refusals of its authorizers alike: `cannot VERB resource`.
    """
    text = " ".join(str(error).split())
    return str(gap_for(verb, resource, where)) if f"cannot {verb} " in text else text


def is_unknown_kind(error: Unavailable) -> bool:
    """Tell whether the API server says that it does not know a kind at all."""
    return error.status == _NOT_SERVED


def unknown_kind(resource: Resource[Any]) -> str:
    """Say so, and what to do."""
    return f"the cluster knows no {resource.plural}: install manifests/crds"
