"""The command line of `kubectl lbcf`: sub-commands, flags, and references to objects."""

import argparse
import re

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import attrs

from lbcf import __version__
from lbcf.core.model.names import bind_group_key, home_of
from lbcf.core.model.values import ObjectKey
from lbcf.ctl.uninstall.run import WAYS, WHAT_WAYS_DO, add_flags
from lbcf.runtime.flags import OneLineParser


EPILOG = (
    "Exit status: 0 all is well, or the question is answered; 1 status or check found something "
    "wrong; 2 wrong usage, no such object, or the API server cannot be asked."
)


class Kind(StrEnum):
    """What a command can be asked about."""

    POD = "pod"
    NODE = "node"
    RECORD = "br"
    GROUP = "bg"
    BIND = "bind"
    LOAD_BALANCER = "lb"
    DRIVER = "driver"
    SERVICE = "svc"
    DEPLOYMENT = "deployment"
    STATEFUL_SET = "statefulset"
    REPLICA_SET = "replicaset"
    DAEMON_SET = "daemonset"


_SPELLINGS = {
    Kind.POD: ("po", "pods"),
    Kind.NODE: ("no", "nodes"),
    Kind.RECORD: ("backendrecord", "backendrecords"),
    Kind.GROUP: ("backendgroup", "backendgroups"),
    Kind.BIND: ("binds",),
    Kind.LOAD_BALANCER: ("loadbalancer", "loadbalancers"),
    Kind.DRIVER: ("drivers", "lbd", "loadbalancerdriver", "loadbalancerdrivers"),
    Kind.SERVICE: ("service", "services"),
    Kind.DEPLOYMENT: ("deploy", "deployments"),
    Kind.STATEFUL_SET: ("sts", "statefulsets"),
    Kind.REPLICA_SET: ("rs", "replicasets"),
    Kind.DAEMON_SET: ("ds", "daemonsets"),
}
KINDS: Final[Mapping[str, Kind]] = {
    spelling: kind
    for kind, others in _SPELLINGS.items()
    for spelling in (kind.value, *others)
}
"""The kinds by each of their spellings."""


_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
"""RFC 1123 subdomains, loosely: the API server words the rest better."""
_LOAD_BALANCER_NAME = re.compile(rf"(bind/{_NAME.pattern}/)?{_NAME.pattern}")


@attrs.frozen
class ObjectReference:
    """An object as named on the command line: KIND/NAME."""

    kind: Kind
    name: str

    def key(self, namespace: str) -> ObjectKey:
        """Return its key; of a Bind, its key among the groups."""
        key = ObjectKey(namespace, self.name)
        match self.kind:
            case Kind.NODE:
                return ObjectKey("", self.name)
            case Kind.BIND:
                return bind_group_key(key)
            case Kind.LOAD_BALANCER | Kind.DRIVER:
                return home_of(self.name, namespace)
            case _:
                return key


def parse_reference(text: str, allowed: Sequence[Kind]) -> ObjectReference:
    """Parse KIND/NAME.

    Raises:
        argparse.ArgumentTypeError: it has another form, or the kind is not allowed.
    """
    word, _, name = text.partition("/")
    kind = KINDS.get(word.lower())
    if kind is None or kind not in allowed or not name:
        forms = ", ".join(f"{one}/NAME" for one in allowed)
        raise argparse.ArgumentTypeError(f"{text!r}: write one of {forms}")
    form = _LOAD_BALANCER_NAME if kind is Kind.LOAD_BALANCER else _NAME
    # In a path a slash leads to a part of an object: `br/x/status` is no record.
    if not form.fullmatch(name):
        forms = (
            "lb/NAME or lb/bind/BIND/NAME"
            if form is _LOAD_BALANCER_NAME
            else "KIND/NAME"
        )
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid name: write {forms}, in small letters, digits, - and ."
        )
    return ObjectReference(kind, name)


class _ReferenceAction(argparse.Action):
    """Takes KIND/NAME, or KIND and NAME as two words."""

    def __init__(self, *, allowed: Sequence[Kind], **more: Any) -> None:
        super().__init__(nargs="+", **more)
        self._allowed = allowed

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,  # noqa: ARG002 - argparse passes it
    ) -> None:
        """Store the reference, or end the process with what is wrong."""
        try:
            reference = parse_words(values, self._allowed)
        except argparse.ArgumentTypeError as error:
            parser.error(f"argument {self.metavar}: {error}")
        setattr(namespace, self.dest, reference)


def parse_words(words: Sequence[str], allowed: Sequence[Kind]) -> ObjectReference:
    """Parse KIND/NAME, or KIND and NAME as two words, as kubectl takes them.

    Raises:
        argparse.ArgumentTypeError: it has another form, or the kind is not allowed.
    """
    match words:
        case [word]:
            return parse_reference(word, allowed)
        case [kind, name] if "/" not in kind:
            return parse_reference(f"{kind}/{name}", allowed)
        case _:
            raise argparse.ArgumentTypeError(
                f"{' '.join(words)!r} is more than one object: write one KIND/NAME"
            )


@attrs.frozen
class Command:
    """A sub-command.

    Attributes:
        text: what it answers, in a sentence.
        targets: the kinds that it can be asked about; empty: it is asked about none.
        flags: its own ones, by their long names.
        of_deleted: it is meant for objects that are being deleted.
        of_new: it is meant for what does not exist yet.
        ways: words of which one follows in the place of an object.
    """

    text: str
    targets: tuple[Kind, ...] = ()
    flags: tuple[str, ...] = ()
    of_deleted: bool = False
    of_new: bool = False
    ways: tuple[str, ...] = ()


COMMANDS: Final[Mapping[str, Command]] = {
    "status": Command(
        "What is wrong, then groups, load balancers, drivers, leaders.",
        flags=("--watch",),
    ),
    "check": Command("Whether the installation is whole, part by part."),
    "why": Command(
        "Each check of an object with its verdict, and what is next.", tuple(Kind)
    ),
    "drains": Command(
        "The records on their way out, and whom they wait for.", flags=("--watch",)
    ),
    "plan": Command(
        "What the controller would write for a group now.", (Kind.GROUP, Kind.BIND)
    ),
    "drain": Command(
        "Take it out of service, drained, until undrain.",
        (Kind.POD, Kind.NODE, Kind.GROUP, Kind.BIND),
        ("--reason", "--wait"),
    ),
    "undrain": Command(
        "Put back what drain took out.",
        (Kind.POD, Kind.NODE, Kind.GROUP, Kind.BIND),
        ("--wait",),
    ),
    "abandon": Command(
        "Let go of a deleted object without its driver.",
        (Kind.RECORD, Kind.LOAD_BALANCER),
        ("--reason", "--yes"),
        of_deleted=True,
    ),
    "remove-orphans": Command(
        "Have members taken out whose records do not exist.",
        (Kind.LOAD_BALANCER,),
        ("--wait", "--yes"),
    ),
    "new": Command(
        "Write the project of a driver: code, tests, image, manifests.",
        (Kind.DRIVER,),
        ("--to",),
        of_new=True,
    ),
    "uninstall": Command(
        "Take lbcf out of the cluster, drained, or with members left where they are.",
        flags=("--timeout", "--abandon", "--objects-only"),
        ways=tuple(WAYS),
    ),
}
"""All sub-commands, by name."""


@attrs.frozen
class Flag:
    """A flag, as it is completed.

    Attributes:
        name: the long one.
        text: what it is for.
        takes_value: another word follows it.
        is_common: each sub-command has it.
    """

    name: str
    text: str
    takes_value: bool = True
    is_common: bool = True


_NAMESPACE = Flag(
    "--namespace",
    "default: the context's; of new: default; of uninstall: lbcf-system",
)
_EVERYWHERE = Flag(
    "--all-namespaces",
    "with status, drains and why node/NAME: of all of them",
    takes_value=False,
)
_OUTPUT = Flag("--output", "how to write; default: table")
_KUBECONFIG = Flag("--kubeconfig", "default: KUBECONFIG, ~/.kube/config")
_CONTEXT = Flag("--context", "of the kubeconfig; default: its current one")
_USER = Flag("--as", "ask as this user; needs `impersonate`")
_GROUP = Flag("--as-group", "and as a member of this group; may be given again")
_WATCH = Flag("--watch", "tell of each change until Ctrl-C", False, False)
_REASON = Flag("--reason", "is kept in the annotation", is_common=False)
_WAIT = Flag("--wait", "tell who is waited for until nobody is", False, False)
_YES = Flag("--yes", "do not ask", False, False)
_TIMEOUT = Flag(
    "--timeout", "seconds for each kind to go; default: 600", is_common=False
)
_ABANDON = Flag("--abandon", "after them: let go without drivers", is_common=False)
_OBJECTS = Flag("--objects-only", "leave Deployments and CRDs", False, False)
_TO = Flag("--to", "the folder that is made; default: NAME", is_common=False)

FLAGS: Final[Mapping[str, Flag]] = {
    "-n": _NAMESPACE,
    "-A": _EVERYWHERE,
    "-o": _OUTPUT,
    "-w": _WATCH,
    **{
        flag.name: flag
        for flag in (
            *(_NAMESPACE, _EVERYWHERE, _OUTPUT, _KUBECONFIG, _CONTEXT),
            *(_USER, _GROUP, _WATCH, _REASON, _WAIT, _YES, _TO),
            *(_TIMEOUT, _ABANDON, _OBJECTS),
        )
    },
}
"""All flags, by each of their names."""


def parser_for(program: str) -> argparse.ArgumentParser:
    """Build the parser.

    Args:
        program: how it was called, such as `kubectl lbcf`.
    """
    parser = OneLineParser(
        prog=program,
        description="Say what lbcf does, and why: what is wrong, who is waited for.",
        epilog=EPILOG,
    )
    # Flags may stand before the sub-command; those behind it win, since there the
    # defaults are suppressed.
    _add_common(parser)
    version = f"{program} {__version__}"
    parser.add_argument("--version", action="version", version=version)
    common = OneLineParser(add_help=False, argument_default=argparse.SUPPRESS)
    _add_common(common)
    parser.set_defaults(output="table")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    for name, one in COMMANDS.items():
        parsed = commands.add_parser(
            name, help=one.text, description=one.text, epilog=EPILOG, parents=[common]
        )
        if one.targets:
            _add_target(parsed, one.targets)
        if one.ways:
            parsed.add_argument("way", choices=one.ways, help=WHAT_WAYS_DO)
            add_flags(parsed)
        else:
            for flag in one.flags:
                _OWN_FLAGS[flag](parsed)
    return parser


def _add_watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-w", _WATCH.name, action="store_true", help=_WATCH.text)


def _add_reason(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(_REASON.name, required=True, help=_REASON.text)


def _add_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(_WAIT.name, action="store_true", help=_WAIT.text)


def _add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(_YES.name, action="store_true", help=_YES.text)


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(_TO.name, type=Path, metavar="FOLDER", help=_TO.text)


_OWN_FLAGS: Final[Mapping[str, Callable[[argparse.ArgumentParser], None]]] = {
    _WATCH.name: _add_watch,
    _REASON.name: _add_reason,
    _WAIT.name: _add_wait,
    _YES.name: _add_yes,
    _TO.name: _add_folder,
}


def _add_target(parser: argparse.ArgumentParser, allowed: Sequence[Kind]) -> None:
    parser.add_argument(
        "target",
        action=_ReferenceAction,
        allowed=allowed,
        metavar="KIND/NAME",
        help=", ".join(f"{kind}/NAME" for kind in allowed),
    )


def _add_common(common: argparse.ArgumentParser) -> None:
    scope = common.add_mutually_exclusive_group()
    scope.add_argument("-n", _NAMESPACE.name, help=_NAMESPACE.text)
    scope.add_argument(
        "-A", _EVERYWHERE.name, action="store_true", help=_EVERYWHERE.text
    )
    common.add_argument(_KUBECONFIG.name, help=_KUBECONFIG.text)
    common.add_argument(_CONTEXT.name, help=_CONTEXT.text)
    common.add_argument(_USER.name, dest="user", metavar="USER", help=_USER.text)
    common.add_argument(
        _GROUP.name, dest="groups", metavar="GROUP", action="append", help=_GROUP.text
    )
    common.add_argument(
        "-o", _OUTPUT.name, choices=("table", "json"), help=_OUTPUT.text
    )
