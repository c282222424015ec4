"""The parameters of a backend, checked before anything is sent.

Nothing of HAProxy's `default-server` reaches a server that is added at run time, so
all that it shall have is said each time.
"""

import re

from collections.abc import Mapping

import attrs

from webhooks.haproxy.errors import InvalidInput
from webhooks.shared.parameters import unknown_parameter


HEAVIEST = 256
_MOST_CONNECTIONS = 1_000_000
_MOST_CHECKS = 100

_NUMBER = re.compile(r"[0-9]{1,9}")
_TIME = re.compile(r"[1-9][0-9]{0,5}(ms|s)?|[1-9][0-9]{0,3}m")
"""Short enough for HAProxy, whose times end at 2^31 milliseconds."""
_CHECK_TIMES = {"inter": "2s", "fastinter": "", "downinter": "200ms"}
"""How often is checked; `downinter` is how long a new member waits for its checks."""
_CHECK_COUNTS = {"rise": "1", "fall": "3"}
_KNOWN = (
    "weight", "check", *_CHECK_TIMES, *_CHECK_COUNTS, "maxconn", "slowstart",
)  # fmt: skip


@attrs.frozen
class Options:
    """What a member is to be like.

    Attributes:
        weight: 0 to 256; the only one that can be changed while it is there.
        check: whether HAProxy checks it and sends nothing while the checks fail.
        fixed: all others, as HAProxy's keywords.
    """

    weight: int = 1
    check: bool = True
    fixed: str = ""


def parse_options(parameters: Mapping[str, str]) -> Options:
    """Read a backend's parameters.

    Raises:
        InvalidInput: an unknown parameter or a bad value; says what is taken.
    """
    unknown = unknown_parameter(parameters, _KNOWN)
    if unknown:
        raise InvalidInput(unknown)
    check = _parsed_switch(parameters.get("check", "true"))
    words = [*_check_words(parameters, check), *_limit_words(parameters)]
    return Options(
        weight=_parsed_number(parameters, "weight", "1", 0, HEAVIEST),
        check=check,
        fixed=" ".join(words),
    )


def _parsed_switch(text: str) -> bool:
    if text not in {"true", "false"}:
        raise InvalidInput(f"parameters: check must be true or false, not {text!r:.60}")
    return text == "true"


def _check_words(parameters: Mapping[str, str], check: bool) -> list[str]:
    """Return the keywords of the health check."""
    said = [name for name in (*_CHECK_TIMES, *_CHECK_COUNTS) if name in parameters]
    if not check:
        if said:
            raise InvalidInput(f"parameters: {said[0]} means nothing with check: false")
        return []
    words = ["check"]
    for name, default in _CHECK_TIMES.items():
        text = _parsed_time(parameters, name, default)
        words += [name, text] if text else []
    for name, default in _CHECK_COUNTS.items():
        words += [name, str(_parsed_number(parameters, name, default, 1, _MOST_CHECKS))]
    return words


def _limit_words(parameters: Mapping[str, str]) -> list[str]:
    """Return the keywords that limit what is sent; none where nothing is said."""
    words: list[str] = []
    if "maxconn" in parameters:
        most = _parsed_number(parameters, "maxconn", "", 1, _MOST_CONNECTIONS)
        words += ["maxconn", str(most)]
    if "slowstart" in parameters:
        words += ["slowstart", _parsed_time(parameters, "slowstart", "")]
    return words


def _parsed_time(parameters: Mapping[str, str], name: str, default: str) -> str:
    """Return a time of HAProxy: a number and ms, s or m; milliseconds where unsaid."""
    text = parameters.get(name, default)
    if name in parameters and _TIME.fullmatch(text) is None:
        raise InvalidInput(
            f"parameters: {name} must be a time such as 500ms, 2s or 1m, "
            f"not {text!r:.60}"
        )
    return text


def _parsed_number(
    parameters: Mapping[str, str], name: str, default: str, least: int, most: int
) -> int:
    """Return a number of that range."""
    text = parameters.get(name, default)
    if _NUMBER.fullmatch(text) is None or not least <= int(text) <= most:
        raise InvalidInput(
            f"parameters: {name} must be a number from {least} to {most}, "
            f"not {text!r:.60}"
        )
    return int(text)


def check_change(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Let pass a change of parameters that can be made to members that are there.

    Raises:
        InvalidInput: more than the weight would change.
    """
    old, new = parse_options(before), parse_options(after)
    if (old.check, old.fixed) != (new.check, new.fixed):
        raise InvalidInput(
            "parameters: only weight can be changed while members are registered "
            f"(now `{old.fixed}`, wanted `{new.fixed}`)"
        )
