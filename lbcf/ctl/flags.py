"""The command line of `kubectl lbcf`: sub-commands, flags, and references to objects."""

import argparse
import re

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import attrs

from lbcf import __version__
from lbcf.core.model.names import bind_group_key, home_of
from lbcf.core.model.values import ObjectKey
from lbcf.runtime.flags import OneLineParser


EPILOG = (
    "Exit status: 0 all is well, or the question is answered; 1 status found something "
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
    Kind.DEPLOYMENT: ("deploy", "deployments"),
    Kind.STATEFUL_SET: ("sts", "statefulsets"),
    Kind.REPLICA_SET: ("rs", "replicasets"),
    Kind.DAEMON_SET: ("ds", "daemonsets"),
}
_KINDS = {
    spelling: kind
    for kind, others in _SPELLINGS.items()
    for spelling in (kind.value, *others)
}


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
    kind = _KINDS.get(word.lower())
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
        raise argparse.ArgumentTypeError(f"{text!r}: no object has that name: {forms}")
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

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, help=text, description=text, epilog=EPILOG, parents=[common]
        )

    status = command(
        "status", "What is wrong, then groups, load balancers, drivers, leaders."
    )
    _add_watch(status)
    why = command("why", "Each check of an object with its verdict, and what is next.")
    _add_target(why, tuple(Kind))
    drains = command("drains", "The records on their way out, and whom they wait for.")
    _add_watch(drains)
    plan = command("plan", "What the controller would write for a group now.")
    _add_target(plan, (Kind.GROUP, Kind.BIND))
    abandon = command("abandon", "Let go of a deleted object without its driver.")
    _add_target(abandon, (Kind.RECORD, Kind.LOAD_BALANCER))
    abandon.add_argument("--reason", required=True, help="is kept in the annotation")
    abandon.add_argument("--yes", action="store_true", help="do not ask")
    return parser


def _add_watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-w", "--watch", action="store_true", help="tell of each change until Ctrl-C"
    )


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
    scope.add_argument("-n", "--namespace", help="default: the context's")
    scope.add_argument(
        "-A", "--all-namespaces", action="store_true", help="ask about all of them"
    )
    common.add_argument("--kubeconfig", help="default: KUBECONFIG, ~/.kube/config")
    common.add_argument("--context", help="of the kubeconfig; default: its current one")
    common.add_argument(
        "--as",
        dest="user",
        metavar="USER",
        help="ask as this user; needs `impersonate`",
    )
    common.add_argument(
        "--as-group",
        dest="groups",
        metavar="GROUP",
        action="append",
        help="and as a member of this group; may be given again",
    )
    common.add_argument(
        "-o", "--output", choices=("table", "json"), help="how to write; default: table"
    )
