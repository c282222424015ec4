"""Why a command has no answer, or not a whole one: errors and missing rights."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from lbcf.core.errors import LbcfError
from lbcf.kube.errors import Conflict, Forbidden, NotFound, Unavailable
from lbcf.kube.kinds import Resource


class CtlError(LbcfError):
    """A command cannot be answered."""


class ObjectNotFound(CtlError):  # noqa: N818 - a name like kube's NotFound
    """The object of the question does not exist, or cannot be read."""


@attrs.frozen
class MissingRight:
    """A right that RBAC does not give to the caller.

    Attributes:
        resource: as in RBAC rules, with its group.
        namespace: empty for kinds of the whole cluster, `*` for all namespaces.
    """

    verb: str
    resource: str
    namespace: str

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        where = " in all namespaces" if self.namespace == "*" else where
        return f"may not {self.verb} {self.resource}{where}"


def missing_right(
    verb: str, resource: Resource[Any], namespace: str | None
) -> MissingRight:
    """Return the right that a refused request needs; no namespace: in all of them."""
    name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    where = "" if not resource.namespaced else (namespace or "*")
    return MissingRight(verb, name, where)


def refusal(error: Forbidden, verb: str, resource: Resource[Any], where: str) -> str:
    """Return the missing right, or the words of the admission rule that refused.

    The API server words all refusals of its authorizers alike: `cannot VERB resource`.
    """
    text = " ".join(str(error).split())
    right = missing_right(verb, resource, where)
    return str(right) if f"cannot {verb} " in text else text


def unknown_kind(resource: Resource[Any]) -> str:
    """Return the message for a kind whose CRD is not installed."""
    return f"the cluster knows no {resource.plural}: install manifests/crds"


@contextmanager
def worded(
    called: str, resource: Resource[Any], namespace: str, verb: str
) -> Iterator[None]:
    """Word what is wrong with a request about one object.

    Args:
        called: what people call the object.
        resource: its kind.
        namespace: empty for kinds of the whole cluster.
        verb: of RBAC, that the request needs.

    Raises:
        CtlError: there is no such object or kind, it is another one, or we may not.
    """
    where = f" in namespace {namespace}" if namespace else ""
    try:
        yield
    except NotFound as error:
        raise CtlError(f"there is no {called}{where}") from error
    except Forbidden as error:
        raise CtlError(refusal(error, verb, resource, namespace)) from error
    except Unavailable as error:
        if error.is_unknown_kind:
            raise CtlError(unknown_kind(resource)) from error
        raise
    except Conflict as error:
        raise CtlError(f"{called} has become another object: look again") from error
