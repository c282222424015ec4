"""Text of others, fit for a terminal, a condition and a log.

`lbcf.wire.driver` reads drivers' words through it, `lbcf.ctl` and `lbcf.runtime.logs`
whatever else people see. A tenant's driver could move the cursor, rename the window or turn
the direction of a line around, and so show an operator what is not there.
"""

import re
import unicodedata


_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]"
)
"""Control sequences and strings of terminals (ECMA-48, 5.4 to 5.6)."""

_JOINERS = frozenset("\u200c\u200d")
"""Format characters that scripts and emoji need, and that only join or part."""

_SPACED = frozenset({"Zl", "Zp"})
_DROPPED = frozenset({"Cc", "Cf", "Co", "Cn"})


def plain(text: str) -> str:
    """Return a text in one line, without anything but what is seen of it.

    Control sequences, control, bidirectional and other format characters go; whatever
    ends a line becomes a space.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_seen, _SEQUENCES.sub("", text)))


def is_plain(text: str) -> bool:
    """Return whether nothing is hidden in a text."""
    return plain(text) == text


def _seen(char: str) -> str:
    """Return what is seen of a character."""
    category = unicodedata.category(char)
    if category == "Cs":
        return "\ufffd"  # half a surrogate is no character
    if char in "\t\n\v\f\r\x85" or category in _SPACED:
        return " "
    if category in _DROPPED and char not in _JOINERS:
        return ""
    return char
