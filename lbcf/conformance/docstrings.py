"""Reads docstrings: the text of what they describe, and a sentence per name.

`lbcf.conformance.openapi` and the pages that are made of code take descriptions from
here.
"""

import inspect
import re

from collections.abc import Mapping


_SECTION = re.compile(r"^(?:Attributes|Raises|Args|Returns):$", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+): (.*(?:\n        .*)*)", re.MULTILINE)


def docstring(described: object) -> str:
    """Return the docstring of a class or function itself; empty: it has none."""
    return inspect.cleandoc(described.__doc__ or "")


def text_of(described: object) -> str:
    """Return what a docstring says before its first section."""
    return _SECTION.split(docstring(described))[0].strip()


def entries(described: object, section: str) -> Mapping[str, str]:
    """Return the sentences of one section of a docstring, by the names they are about."""
    text = docstring(described).partition(f"{section}:\n")[2]
    found = _ENTRY.findall(_SECTION.split(text)[0])
    return {name: " ".join(sentence.split()) for name, sentence in found}


def fields(kind: type) -> Mapping[str, str]:
    """Return the sentences on a class' fields, those of its base types included."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        found |= entries(base, "Attributes")
    return found
