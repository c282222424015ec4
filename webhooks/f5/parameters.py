"""The parameters of a backend, checked before anything is sent. Pure.

All of them can be changed while a member is in; one that is not said any more goes
back to BIG-IP's own default.
"""

import re

from collections.abc import Mapping

import attrs

from webhooks.device.errors import InvalidInput
from webhooks.shared.parameters import unknown_parameter


_NUMBER = re.compile(r"[0-9]{1,10}")
_MONITOR = re.compile(r"default|none|/[A-Za-z0-9_./-]+( and /[A-Za-z0-9_./-]+)*")
_MONITOR_PATH = re.compile(r"/[^\s{}]+")
_NO_MONITOR = "/Common/none"
_RANGES = {
    "ratio": (1, 65535),
    "weight": (1, 65535),
    "connectionLimit": (0, 4294967295),
    "priorityGroup": (0, 65535),
}
_KNOWN = (*_RANGES, "monitor")


@attrs.frozen
class Options:
    """What a member is to be like.

    Attributes:
        ratio: its share, where the pool's method looks at ratios.
        connection_limit: 0: none.
        priority_group: of the groups with enough members up, the highest is used.
        monitor: `default` is the pool's; or paths, in the order that `normal_monitor`
            gives them.
    """

    ratio: int = 1
    connection_limit: int = 0
    priority_group: int = 0
    monitor: str = "default"

    @property
    def monitors(self) -> list[str]:
        """Paths of its own monitors."""
        return paths_of(self.monitor)

    def render(self) -> dict[str, object]:
        """Return it as fields of iControl."""
        return {
            "ratio": self.ratio,
            "connectionLimit": self.connection_limit,
            "priorityGroup": self.priority_group,
            "monitor": self.monitor,
        }


def parse_options(parameters: Mapping[str, str]) -> Options:
    """Read a backend's parameters; `weight` is another word for `ratio`.

    Raises:
        InvalidInput: an unknown parameter or a bad value; says what is taken.
    """
    unknown = unknown_parameter(parameters, _KNOWN)
    if unknown:
        raise InvalidInput(unknown)
    if "ratio" in parameters and "weight" in parameters:
        raise InvalidInput("parameters: ratio and weight are the same: say one of them")
    monitor = parameters.get("monitor", "default")
    if _MONITOR.fullmatch(monitor) is None:
        raise InvalidInput(
            "parameters: monitor must be default, none, or a path such as /Common/http "
            f"(several with ` and ` between), not {monitor!r:.60}"
        )
    share = "weight" if "weight" in parameters else "ratio"
    return Options(
        ratio=_number(parameters, share, "1"),
        connection_limit=_number(parameters, "connectionLimit", "0"),
        priority_group=_number(parameters, "priorityGroup", "0"),
        monitor=normal_monitor(monitor),
    )


def normal_monitor(text: str) -> str:
    """Return monitors in the one form in which they can be compared.

    Units write `/Common/none` for none, put a space behind, and keep no order of ours.
    """
    words = text.strip()
    if words == "none":
        return _NO_MONITOR
    if words == "default" or words.startswith("min "):
        return words
    return " and ".join(sorted(_MONITOR_PATH.findall(words)))


def paths_of(monitor: str) -> list[str]:
    """Return the paths of monitors that there are; none has none."""
    found = _MONITOR_PATH.findall(monitor)
    return [one for one in found if one != _NO_MONITOR]


def _number(parameters: Mapping[str, str], name: str, default: str) -> int:
    """Return a number of the parameter's range."""
    text = parameters.get(name, default)
    least, most = _RANGES[name]
    if _NUMBER.fullmatch(text) is None or not least <= int(text) <= most:
        raise InvalidInput(
            f"parameters: {name} must be a number from {least} to {most}, "
            f"not {text!r:.60}"
        )
    return int(text)
