"""Reads the flags of `lbcf conformance`, and the pytest plugin's options, into a target."""

import argparse
import asyncio
import os
import shlex
import ssl

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import yarl

from lbcf.conformance.target import DEFAULT_ADDRESSES, Connect, Restart, Target
from lbcf.core.errors import LbcfError
from lbcf.core.model.operations import Operation
from lbcf.core.model.values import MemberKey
from lbcf.runtime.certificates import load_pair, trusting


_STANDARD_ERROR = 2
"""Its file descriptor, also where `sys.stderr` is something else."""


class WrongFlag(LbcfError):  # noqa: N818  (it says what happened)
    """A flag that cannot be used; the text names it and what it may be."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags to a parser."""

    def one(flag: str, metavar: str, text: str, default: str | None = None) -> None:
        parser.add_argument(flag, metavar=metavar, default=default, help=text)

    def many(flag: str, metavar: str, text: str) -> None:
        parser.add_argument(
            flag, action="append", metavar=metavar, default=[], help=text
        )

    parser.add_argument("url", metavar="URL", help="the driver's, without an operation")
    many("--lb-spec", "K=V", "of the load balancer that the kit may use; repeatable")
    text = "changes a key of the driver's lbInfo: one that is not there; repeatable"
    many("--gone-lb", "K=V", text)
    many("--parameters", "K=V", "of the backends; repeatable")
    parser.add_argument(
        "--member-key",
        choices=[key.value for key in MemberKey],
        default=MemberKey.ADDRESS.value,
        help="as the LoadBalancerDriver says (default: %(default)s)",
    )
    many(
        "--operations",
        "A,B",
        "that it declares: drainBackend, listBackends and the batches (ensureBackends "
        "and so on) are asked for only then, and what is named here must be served",
    )
    addresses = f"{DEFAULT_ADDRESSES[0]} to {DEFAULT_ADDRESSES[-1]}"
    text = f"that may be registered; repeatable (default: {addresses})"
    many("--address", "HOST:PORT", text)
    text = "kills the driver and starts it again; returns when it was started"
    one("--restart-command", "CMD", text)
    one(
        "--connections-command",
        "CMD",
        "lets the member $LBCF_BACKEND_ADDR of record $LBCF_RECORD_ID have "
        "$LBCF_CONNECTIONS connections",
    )
    one("--ca-file", "FILE", "authorities for https, as PEM")
    one("--cert-file", "FILE", "client certificate that is shown, as PEM")
    one("--key-file", "FILE", "its key (default: in the same file)")
    one("--token-file", "FILE", "bearer token that is sent along")
    one("--timeout", "SECONDS", "of a call (default: 10)", "10")
    one("--patience", "SECONDS", "how long a task may be Running (default: 20)", "20")
    many("--rule", "ID", "only this; repeatable")
    add = parser.add_argument
    add("--seed", type=int, default=1, help="same seed, same ids (default: 1)")
    add(
        "--load", type=int, default=0, metavar="N", help="then run N lifecycles as load"
    )
    one("--json", "FILE", "write the report as JSON")
    one("--junit", "FILE", "write the report as JUnit XML")


def read_target(chosen: argparse.Namespace) -> Target:
    """Return what the flags describe.

    Raises:
        WrongFlag: one of them cannot be used.
    """
    return Target(
        url=_url(chosen.url),
        lb_spec=_map("--lb-spec", chosen.lb_spec),
        gone=_map("--gone-lb", chosen.gone_lb),
        parameters=_map("--parameters", chosen.parameters),
        member_key=MemberKey(chosen.member_key),
        declared=_operations(chosen.operations),
        addresses=tuple(dict.fromkeys(chosen.address)) or DEFAULT_ADDRESSES,
        restart=_restart(chosen.restart_command),
        connect=read_connect(chosen.connections_command),
        seed=chosen.seed,
        timeout=_seconds("--timeout", chosen.timeout),
        patience=_seconds("--patience", chosen.patience),
        tls=_tls(chosen.ca_file, chosen.cert_file, chosen.key_file),
        token=_token(chosen.token_file),
    )


def _url(text: str) -> str:
    try:
        url = yarl.URL(text)
        if url.scheme in {"http", "https"} and url.host and not url.query_string:
            return text.rstrip("/")
    except ValueError:
        pass  # told below, with what was expected
    raise _wrong_value("URL", text, "http://HOST:PORT/PATH or https://...")


def _map(flag: str, pairs: Iterable[str]) -> dict[str, str]:
    read = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise _wrong_value(flag, pair, "KEY=VALUE")
        read[key] = value
    return read


def _operations(texts: Iterable[str]) -> frozenset[Operation]:
    names = [name.strip() for text in texts for name in text.split(",")]
    known = [operation.value for operation in Operation]
    for name in names:
        if name not in known:
            raise _wrong_value("--operations", name, f"of {', '.join(known)}")
    return frozenset(Operation(name) for name in names)


def _restart(command: str | None) -> Restart | None:
    if not command:
        return None
    return partial(_run, _words("--restart-command", command), {})


def read_connect(command: str | None) -> Connect | None:
    """Return what runs the command for a member."""
    if not command:
        return None
    words = _words("--connections-command", command)

    async def connect(address: str, record: str, connections: int) -> None:
        variables = {
            "LBCF_BACKEND_ADDR": address,
            "LBCF_RECORD_ID": record,
            "LBCF_CONNECTIONS": str(connections),
        }
        await _run(words, variables)

    return connect


async def _run(words: Sequence[str], variables: Mapping[str, str]) -> None:
    """Run a command to its end.

    Raises:
        OSError: it cannot be started, or failed.
    """
    # It writes to our standard error: a driver that it started would keep a pipe open.
    child = await asyncio.create_subprocess_exec(
        *words,
        env=os.environ | variables,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=_STANDARD_ERROR,  # standard output is the report's
    )
    status = await child.wait()
    if status:
        raise OSError(f"{words[0]} ended with status {status}")


def _words(flag: str, command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise _wrong_value(flag, command, "a command with its quotes closed") from error


def _seconds(flag: str, text: str) -> timedelta:
    try:
        seconds = float(text)
        if 0 < seconds <= timedelta(hours=1).total_seconds():
            return timedelta(seconds=seconds)
    except ValueError:
        pass  # told below, with what was expected
    raise _wrong_value(flag, text, "a number of seconds above 0, up to 3600")


def _tls(
    authorities: str | None, certificate: str | None, key: str | None
) -> ssl.SSLContext | None:
    """Return how https is verified; None: by the system's authorities."""
    if key and not certificate:
        raise WrongFlag(f"--key-file {key}: needs --cert-file")
    if not authorities and not certificate:
        return None
    try:
        context = ssl.create_default_context()
        if authorities:
            context = trusting(_content("--ca-file", authorities))
        if certificate:
            own_key = _content("--key-file", key) if key else b""
            load_pair(context, _content("--cert-file", certificate), own_key)
    except ValueError as error:
        raise WrongFlag(f"--ca-file, --cert-file, --key-file: {error}") from error
    return context


def _content(flag: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise WrongFlag(f"{flag} {path}: {error.strerror}") from error


def _token(path: str | None) -> str:
    """Read the first token of a file, which may be the driver's own."""
    if path is None:
        return ""
    text = _content("--token-file", path).decode("latin-1")
    token = next(iter(text.split()), "")
    if not token.isascii() or not token.isprintable() or not token:
        raise WrongFlag(f"--token-file {path}: there is no token in it")
    return token


def _wrong_value(flag: str, text: str, expected: str) -> WrongFlag:
    return WrongFlag(f"{flag} {text!r:.100}: write {expected}")
