"""`kubectl_complete-lbcf`: completes words, as kubectl asks executables of that name to.

kubectl calls it with the words behind `kubectl lbcf`, the unfinished one last (empty
where none has been begun). It answers with one completion in a line, a description behind
a tab, and in the last line `:` with the sum of cobra's directives (ShellCompDirective of
spf13/cobra). What the API server does not tell in time is not completed; nobody is told
why, since that would be written into the line that is being typed.
"""

import asyncio
import os
import sys

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import attrs
import msgspec
import yaml

from lbcf.core.errors import LbcfError
from lbcf.core.model.names import SYSTEM_NAMESPACE, home_of
from lbcf.core.model.resources import Meta
from lbcf.ctl.flags import COMMANDS, FLAGS, KINDS, Command, Kind
from lbcf.ctl.workloads import WORKLOADS
from lbcf.kube.client import KubeClient, connected
from lbcf.kube.connection import acting_as, connect
from lbcf.kube.errors import KubeError
from lbcf.kube.kinds import (
    BINDS,
    DRIVERS,
    GROUPS,
    LOAD_BALANCERS,
    NODES,
    PODS,
    RECORDS,
    SERVICES,
    Resource,
)
from lbcf.kube.list_watch import Selection
from lbcf.runtime import logs
from lbcf.runtime.clock import SystemClock
from lbcf.wire.metadata import ObjectMeta, decode


_NO_SPACE: Final = 2
_NO_FILES: Final = 4
_FILES: Final = 0
_LIMIT: Final = timedelta(seconds=3)
_NAME: Final = "kubectl-lbcf"


@attrs.frozen
class _Named:
    meta: Meta


class _Object(msgspec.Struct):
    metadata: ObjectMeta


_OBJECT = msgspec.json.Decoder(_Object)


def _parse_named(body: bytes) -> _Named:
    return _Named(decode(_OBJECT, body).metadata.to_meta())


NAMESPACES: Final[Resource[_Named]] = Resource(
    "", "v1", "namespaces", "Namespace", _parse_named, namespaced=False
)
RESOURCES: Final[Mapping[Kind, Resource[Any]]] = {
    Kind.POD: PODS,
    Kind.NODE: NODES,
    Kind.RECORD: RECORDS,
    Kind.GROUP: GROUPS,
    Kind.BIND: BINDS,
    Kind.LOAD_BALANCER: LOAD_BALANCERS,
    Kind.DRIVER: DRIVERS,
    Kind.SERVICE: SERVICES,
    **WORKLOADS,
}
"""How the objects of each kind are read; of them only their names are."""


@attrs.frozen
class Completions:
    """What may come next.

    Attributes:
        words: with their descriptions, which may be empty.
        directive: the sum of cobra's directives.
    """

    words: Mapping[str, str] = attrs.Factory(dict)
    directive: int = _NO_FILES

    def __str__(self) -> str:
        """Write them as kubectl reads them."""
        lines = [
            f"{word}\t{text}" if text else word for word, text in self.words.items()
        ]
        return "".join(f"{line}\n" for line in (*lines, f":{self.directive}"))


@attrs.frozen
class Typed:
    """The words before the unfinished one.

    Attributes:
        positional: without flags and their values.
        values: of flags, by their long names; the last one counts.
        pending: the flag whose value is being typed, empty: none is.
        groups: all values of --as-group.
    """

    positional: tuple[str, ...]
    values: Mapping[str, str]
    pending: str
    groups: tuple[str, ...]


def read_words(words: Sequence[str]) -> Typed:
    """Tell flags, their values and other words apart."""
    positional: list[str] = []
    values: dict[str, list[str]] = {}
    pending = ""
    for word in words:
        name, equals, value = word.partition("=")
        flag = FLAGS.get(name)
        if pending:
            values.setdefault(pending, []).append(word)
            pending = ""
        elif flag is not None and flag.takes_value and not equals:
            pending = flag.name
        elif flag is not None:
            values.setdefault(flag.name, []).append(value)
        elif not word.startswith("-"):
            positional.append(word)
    latest = {flag: given[-1] for flag, given in values.items()}
    groups = tuple(values.get("--as-group", ()))
    return Typed(tuple(positional), latest, pending, groups)


async def complete(words: Sequence[str], server: "ApiServer") -> Completions:
    """Return what may come next.

    Args:
        words: those behind `kubectl lbcf`, the unfinished one last.
        server: is asked for names.
    """
    *before, last = words or [""]
    typed = read_words(before)
    if typed.pending:
        return await _value(typed, last, server)
    command = COMMANDS.get(typed.positional[0]) if typed.positional else None
    if last.startswith("-"):
        return _matching(_flags_of(command), last)
    if not typed.positional:
        return _matching({name: one.text for name, one in COMMANDS.items()}, last)
    if command is not None and command.ways and not typed.positional[1:]:
        return _matching(dict.fromkeys(command.ways, ""), last)
    if command is None or not command.targets:
        return Completions()
    return await _target(command, typed.positional[1:], typed, last, server)


def _flags_of(command: Command | None) -> Mapping[str, str]:
    own = () if command is None else command.flags
    return {
        flag.name: flag.text
        for flag in FLAGS.values()
        if flag.is_common or flag.name in own
    }


async def _value(typed: Typed, last: str, server: "ApiServer") -> Completions:
    match typed.pending:
        case "--output":
            return _matching({"table": "", "json": ""}, last)
        case "--namespace":
            found = await server.names(typed, NAMESPACES, None)
            return _matching(dict.fromkeys(found, ""), last)
        case "--context":
            return _matching(dict.fromkeys(contexts_of(typed), ""), last)
        case "--kubeconfig" | "--to":
            return Completions(directive=_FILES)
        case _:
            return Completions()


async def _target(
    command: Command,
    before: tuple[str, ...],
    typed: Typed,
    last: str,
    server: "ApiServer",
) -> Completions:
    """Complete KIND/NAME, or KIND and NAME as two words."""
    word, slash, _ = last.partition("/")
    kind = (
        KINDS.get((word if slash else before[0]).lower()) if slash or before else None
    )
    if kind in command.targets and len(before) <= (0 if slash else 1):
        if command.of_new:
            return Completions()
        prefix = f"{word}/" if slash else ""
        found = await server.objects(typed, kind, is_ending=command.of_deleted)
        return _matching({f"{prefix}{name}": "" for name in found}, last)
    if before or slash:
        return Completions()
    kinds = {f"{one}/": "" for one in command.targets}
    return attrs.evolve(_matching(kinds, last), directive=_NO_SPACE + _NO_FILES)


def _matching(words: Mapping[str, str], last: str) -> Completions:
    return Completions({w: text for w, text in words.items() if w.startswith(last)})


def contexts_of(typed: Typed) -> list[str]:
    """Return the names of the contexts of the kubeconfig that is meant."""
    chosen = typed.values.get("--kubeconfig") or os.environ.get("KUBECONFIG")
    paths = (chosen or str(Path.home() / ".kube" / "config")).split(os.pathsep)
    names: list[str] = []
    for path in filter(None, paths):
        try:
            whole = yaml.safe_load(Path(path).expanduser().read_text("utf-8"))
            names += [str(one["name"]) for one in whole["contexts"]]
        except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
            continue
    return sorted(set(names))


class ApiServer:
    """Whom names are asked for; of what cannot be asked for there are none."""

    async def objects(self, typed: Typed, kind: Kind, *, is_ending: bool) -> list[str]:
        """Return the names of a kind; `is_ending`: only of those that are deleted."""
        resource = RESOURCES[kind]
        names = await self.names(
            typed, resource, typed.values.get("--namespace"), is_ending=is_ending
        )
        if kind not in {Kind.LOAD_BALANCER, Kind.DRIVER}:
            return names
        shared = await self.names(
            typed, resource, SYSTEM_NAMESPACE, is_ending=is_ending
        )
        known = [n for n in shared if home_of(n, "").namespace == SYSTEM_NAMESPACE]
        return sorted({*names, *known})

    async def names(
        self,
        typed: Typed,
        resource: Resource[Any],
        namespace: str | None,
        *,
        is_ending: bool = False,
    ) -> list[str]:
        """Return the names of the objects in a namespace; None: in the context's."""
        values = typed.values
        try:
            found = await connect(values.get("--kubeconfig"), values.get("--context"))
            if "--as" in values:
                headers = acting_as(values["--as"], typed.groups)
                found = attrs.evolve(found, headers=headers)
            place = Selection(namespace or found.namespace)
            async with connected(
                found, SystemClock(), user_agent=_NAME, limit=_LIMIT
            ) as client:
                return await _listed(client, resource, place, is_ending=is_ending)
        except LbcfError:
            return []


async def _listed(
    client: KubeClient, resource: Resource[Any], place: Selection, *, is_ending: bool
) -> list[str]:
    named: Resource[_Named] = attrs.evolve(resource, parse=_parse_named)
    selection = place if resource.namespaced else Selection()
    try:
        page = await client.list(named, selection)
    except KubeError:
        return []
    metas: Iterable[Meta] = (one.meta for one in page.objects)
    return sorted(
        meta.key.name
        for meta in metas
        if meta.deleting_since is not None or not is_ending
    )


def main() -> int:
    """Complete what stands on the command line; never fails."""
    logs.configure("error", "console")
    sys.stdout.write(str(asyncio.run(complete(sys.argv[1:], ApiServer()))))
    return 0
