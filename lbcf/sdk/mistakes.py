"""Refuses mistakes of an author that would have no effect: by name, before a call.

`lbcf.sdk.driver` asks: about the fields of a result when it is made, about the methods
of a class when it is defined.
"""

import difflib
import inspect

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

import attrs

from lbcf.core.model.operations import Operation
from lbcf.wire.driver_answers import Ingress


METHODS: Mapping[Operation, str] = {
    operation: operation.name.lower() for operation in Operation
}
"""An operation's method has the name of its constant, in small letters."""

_AWAITED = frozenset({*METHODS.values(), "start", "stop"})
_NOT_AWAITED = frozenset({"routes", "register_series"})

_MISTAKEN = {"register_backend": METHODS[Operation.ENSURE_BACKEND]}
"""Names that resemble another operation more than the one that is meant."""

_SIMILARITY = 0.8
"""Of difflib's ratio: `drain_backends` has 0.96 of `drain_backend`, `list_pools` 0.57."""


def check_methods(driver: type, base: type) -> None:
    """Refuse methods of a driver class that would never be called, or in vain.

    Raises:
        TypeError: one is misspelt, is awaited and cannot be, or the other way round;
            the text names it and what to write.
    """
    for name, method in _own_methods(driver, base):
        if name in METHODS.values() or hasattr(base, name):
            _check_kind(driver, name, method)
        elif meant := _meant_by(name):
            raise TypeError(
                f"{driver.__name__}.{name}: no operation has this name, so that it is "
                f"never called: is {meant} meant? If it is a helper, call it "
                f"_{name}"
            )


def _own_methods(
    driver: type, base: type
) -> Iterator[tuple[str, Callable[..., object]]]:
    """Return the public ones that are not the base's own, mix-ins included."""
    for name in dir(driver):
        if name.startswith("_"):
            continue
        method = getattr(driver, name)
        if inspect.isroutine(method) and method is not getattr(base, name, None):
            yield name, method


def _check_kind(driver: type, name: str, method: Callable[..., object]) -> None:
    """Refuse a method that is awaited and cannot be, and one that is not and must be."""
    # Decorators may well be plain functions that return what the method returned.
    is_awaitable = inspect.iscoroutinefunction(inspect.unwrap(method))
    if name in _AWAITED and not is_awaitable:
        text = f"is awaited: write `async def {name}`"
    elif name in _NOT_AWAITED and is_awaitable:
        text = f"is not awaited: write `def {name}`"
    else:
        return
    raise TypeError(f"{driver.__name__}.{name} {text}")


def _meant_by(name: str) -> str | None:
    """Return the operation's method that is spelt nearly so."""
    if name in _MISTAKEN:
        return _MISTAKEN[name]
    spelt = {method.replace("_", ""): method for method in METHODS.values()}
    word = name.replace("_", "").lower()
    close = difflib.get_close_matches(word, spelt, 1, _SIMILARITY)
    return spelt[close[0]] if close else None


def check_delay(owner: object, value: object) -> None:
    """Refuse a `retry_after` that is not a timedelta.

    Raises:
        TypeError: it is something else, such as a number.
    """
    if value is not None and not isinstance(value, timedelta):
        wanted = f"a timedelta, such as timedelta(seconds={_number(value)})"
        raise _wrong(owner, "retry_after", wanted, value)


_KINDS: Mapping[str, tuple[type, str]] = {"in_service": (bool, "a bool")}


def check_fields(result: attrs.AttrsInstance) -> None:
    """Refuse fields of a result that no answer could carry.

    Raises:
        TypeError: one has another type than it is declared with.
    """
    for field in attrs.fields(type(result)):
        value = getattr(result, field.name)
        if value is None:
            continue
        if field.name == "retry_after":
            check_delay(result, value)
        elif field.name == "active_connections":
            _check_count(result, value)
        elif field.name == "ingress":
            _check_ingress(result, value)
        elif field.name.endswith("_info"):
            _check_map(result, field.name, value)
        else:
            kind, told = _KINDS.get(field.name, (str, "a string"))
            if not isinstance(value, kind):
                raise _wrong(result, field.name, told, value)


def _check_ingress(owner: object, value: object) -> None:
    listed = value if isinstance(value, list | tuple) else [None]
    if not all(isinstance(one, Ingress) for one in listed):
        raise _wrong(owner, "ingress", "a list of sdk.Ingress", value)


def _check_count(owner: object, value: object) -> None:
    if not isinstance(value, int) or value < 0:
        raise _wrong(owner, "active_connections", "a whole number from 0", value)


def _check_map(owner: object, name: str, value: object) -> None:
    if not isinstance(value, Mapping) or not all(
        isinstance(one, str) for pair in value.items() for one in pair
    ):
        raise _wrong(owner, name, "a map of strings to strings", value)


def _wrong(owner: object, name: str, wanted: str, value: object) -> TypeError:
    return TypeError(f"{type(owner).__name__}.{name} is {wanted}, not {value!r:.80}")


def _number(value: object) -> object:
    return value if isinstance(value, int | float) else 5
