"""The command line of `kubectl lbcf`: sub-commands, targets, flags.

Before it: words. After it: `command` reads what they ask for.
"""

import argparse
import re

from collections.abc import Sequence
from enum import StrEnum

import attrs

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


_SPELLINGS = {
    Kind.POD: ("po", "pods"),
    Kind.NODE: ("no", "nodes"),
    Kind.RECORD: ("backendrecord", "backendrecords"),
    Kind.GROUP: ("backendgroup", "backendgroups"),
    Kind.BIND: ("binds",),
    Kind.LOAD_BALANCER: ("loadbalancer", "loadbalancers"),
    Kind.DRIVER: ("drivers", "lbd", "loadbalancerdriver", "loadbalancerdrivers"),
}
_KINDS = {
    spelling: kind
    for kind, others in _SPELLINGS.items()
    for spelling in (kind.value, *others)
}


_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
"""Names of objects (RFC 1123 subdomains), without what the API server says better."""
_BIND_S_NAME = re.compile(rf"(bind/{_NAME.pattern}/)?{_NAME.pattern}")


@attrs.frozen
class Target:
    """An object that a command is about."""

    kind: Kind
    name: str

    def key(self, namespace: str) -> ObjectKey:
        """Say where it is; a Bind, where it is among the groups."""
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


def read_target(text: str, allowed: Sequence[Kind]) -> Target:
    """Read KIND/NAME.

    Raises:
        argparse.ArgumentTypeError: it is not of that form, or of another kind.
    """
    word, _, name = text.partition("/")
    kind = _KINDS.get(word.lower())
    if kind is None or kind not in allowed or not name:
        forms = ", ".join(f"{one}/NAME" for one in allowed)
        raise argparse.ArgumentTypeError(f"{text!r}: write one of {forms}")
    form = _BIND_S_NAME if kind is Kind.LOAD_BALANCER else _NAME
    # In a path a slash leads to a part of an object: `br/x/status` is no record.
    if not form.fullmatch(name):
        forms = "lb/NAME or lb/bind/BIND/NAME" if form is _BIND_S_NAME else "KIND/NAME"
        raise argparse.ArgumentTypeError(f"{text!r}: no object has that name: {forms}")
    return Target(kind, name)


def parser_for(program: str) -> argparse.ArgumentParser:
    """Describe the command line.

    Args:
        program: how it was called, such as `kubectl lbcf`.
    """
    parser = OneLineParser(
        prog=program,
        description="Say what lbcf does, and why: what is wrong, who is waited for.",
        epilog=EPILOG,
    )
    # What is said before the sub-command holds unless it is said again behind it.
    _add_common(parser)
    common = OneLineParser(add_help=False, argument_default=argparse.SUPPRESS)
    _add_common(common)
    parser.set_defaults(output="table")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, told: str) -> argparse.ArgumentParser:
        """Add a sub-command."""
        return commands.add_parser(
            name, help=told, description=told, epilog=EPILOG, parents=[common]
        )

    command("status", "What is wrong, then groups, load balancers, drivers, leaders.")
    why = command("why", "Each check of an object with its verdict, and what is next.")
    _add_target(why, tuple(Kind))
    drains = command("drains", "The records on their way out, and whom they wait for.")
    drains.add_argument(
        "-w", "--watch", action="store_true", help="tell of each change until Ctrl-C"
    )
    plan = command("plan", "What the controller would write for a group now.")
    _add_target(plan, (Kind.GROUP, Kind.BIND))
    abandon = command("abandon", "Let go of a deleted object without its driver.")
    _add_target(abandon, (Kind.RECORD, Kind.LOAD_BALANCER))
    abandon.add_argument("--reason", required=True, help="is kept in the annotation")
    abandon.add_argument("--yes", action="store_true", help="do not ask")
    return parser


def _add_target(parser: argparse.ArgumentParser, allowed: Sequence[Kind]) -> None:
    """Take one object of some kinds."""

    def target(text: str) -> Target:
        """Read one."""
        return read_target(text, allowed)

    parser.add_argument(
        "target",
        type=target,
        metavar="KIND/NAME",
        help=", ".join(f"{kind}/NAME" for kind in allowed),
    )


def _add_common(common: argparse.ArgumentParser) -> None:
    """Take what all sub-commands take."""
    place = common.add_mutually_exclusive_group()
    place.add_argument("-n", "--namespace", help="default: the context's")
    place.add_argument(
        "-A", "--all-namespaces", action="store_true", help="ask about all of them"
    )
    common.add_argument("--kubeconfig", help="default: KUBECONFIG, ~/.kube/config")
    common.add_argument("--context", help="of the kubeconfig; default: its current one")
    common.add_argument(
        "-o",
        "--output",
        choices=("table", "json"),
        help="how to write; default: table",
    )
