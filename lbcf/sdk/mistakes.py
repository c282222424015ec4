"""Refuses mistakes of an author that would have no effect: by name, before a call.

`lbcf.sdk.driver` asks: about the fields of a result when it is made, about the methods
of a class when it is defined.
"""

import difflib
import inspect

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta

import attrs

from lbcf.core.model.operations import SINGLE, Operation
from lbcf.core.model.values import MemberKey
from lbcf.wire.driver_answers import (
    LARGEST_COUNT,
    BackendState,
    Ingress,
    ListBackendsAnswer,
    ListedBackend,
    Status,
)
from lbcf.wire.driver_requests import MOST_ITEMS


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
            _check_arguments(driver, name, getattr(base, name))
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


def _check_arguments(driver: type, name: str, model: Callable[..., object]) -> None:
    """Refuse a method that cannot be called with what it is called with."""
    names = list(inspect.signature(model).parameters)[1:]
    bound = isinstance(inspect.getattr_static(driver, name), staticmethod | classmethod)
    given = names if bound else ["self", *names]
    try:
        inspect.signature(getattr(driver, name)).bind(*given)
    except TypeError as error:
        prefix = "async def" if name in _AWAITED else "def"
        raise TypeError(
            f"{driver.__name__}.{name} is called with {', '.join(names) or 'nothing'}: "
            f"write `{prefix} {name}({', '.join(['self', *names])})` ({error})"
        ) from None


# As the LoadBalancerDriver's CRD bounds these fields.
_MOST_CALLS = 10_000
_LONGEST_EFFECT = timedelta(hours=1)
_LONGEST_CALL = timedelta(minutes=1)
_LONGEST_GATHERING = timedelta(seconds=5)


def check_settings(driver: type, batch: type, base: type) -> None:
    """Refuse what a driver class says of itself where no manifest could carry it.

    Args:
        driver: the author's class.
        batch: the type of the setting `batch`.
        base: the SDK's class.

    Raises:
        TypeError: a setting has another type or value, or `timeouts` names what is no
            operation, or a method for many members is there without `batch`.
    """
    is_time = f"a timedelta from 0 to {_LONGEST_EFFECT}"
    for name, is_right, wanted in (
        ("member_key", _is_key, "sdk.MemberKey.ADDRESS or sdk.MemberKey.RECORD"),
        ("late_effect", lambda it: _is_time(it, _LONGEST_EFFECT), is_time),
        ("max_concurrent_calls", _is_count, f"a whole number from 1 to {_MOST_CALLS}"),
        ("batch_concurrency", _is_count, f"a whole number from 1 to {_MOST_CALLS}"),
        ("batch", lambda it: isinstance(it, batch), "sdk.Batch(max_items=100)"),
        ("summary", lambda it: isinstance(it, str), "a string"),
        ("timeouts", lambda it: isinstance(it, Mapping), "a map by sdk.Operation"),
    ):
        value = inspect.getattr_static(driver, name)
        # A property has its value only with the object.
        if not isinstance(value, property) and not is_right(value):
            raise _wrong_setting(driver, name, wanted, value)
    _check_timeouts(driver)
    _check_batch_methods(driver, base)


def check_setting_names(driver: type, base: type) -> None:
    """Refuse settings of a driver class that nothing would read.

    Raises:
        TypeError: one is nearly called as one that there is.
    """
    settings = _settings_of(base)
    for name in _settings_of(driver):
        meant = None if hasattr(base, name) else _setting_meant_by(name, settings)
        if meant is not None:
            raise TypeError(
                f"{driver.__name__}.{name}: no setting has this name, so that nothing "
                f"reads it: is {meant} meant? If it is your own, call it _{name}"
            )


def _settings_of(driver: type) -> list[str]:
    """Return the public names of a class that are values, and neither methods nor the object's."""
    public = (name for name in dir(driver) if not name.startswith("_"))
    return [name for name in public if _is_value(inspect.getattr_static(driver, name))]


def _is_value(found: object) -> bool:
    return not (inspect.isroutine(found) or inspect.isdatadescriptor(found))


def _setting_meant_by(name: str, settings: Iterable[str]) -> str | None:
    """Return the setting that is spelt nearly so, or that the name begins with."""
    spelt = {setting.replace("_", ""): setting for setting in settings}
    word = name.replace("_", "").lower()
    close = difflib.get_close_matches(word, spelt, 1, _SIMILARITY)
    begun = [one for one in spelt if word.startswith(one)]
    found = max([*close, *begun], key=len, default="")
    return spelt.get(found)


def _is_key(value: object) -> bool:
    return isinstance(value, MemberKey)


def _is_count(value: object) -> bool:
    return _is_whole(value, 1, _MOST_CALLS)


def _is_whole(value: object, least: int, most: int) -> bool:
    return (
        isinstance(value, int)
        and not isinstance(value, bool)
        and least <= value <= most
    )


def _is_time(value: object, most: timedelta) -> bool:
    return isinstance(value, timedelta) and timedelta() <= value <= most


def _check_timeouts(driver: type) -> None:
    timeouts = inspect.getattr_static(driver, "timeouts")
    for operation, time in () if isinstance(timeouts, property) else timeouts.items():
        name = f"timeouts[{str(operation)!r}]"
        if operation not in set(Operation):
            close = difflib.get_close_matches(str(operation), list(Operation), 1)
            hint = f": is '{close[0]}' meant?" if close else ""
            raise TypeError(f"{driver.__name__}.{name}: no such operation{hint}")
        if operation in SINGLE:
            one = SINGLE[operation]
            raise TypeError(
                f"{driver.__name__}.{name}: the time-out of a batch is that of the "
                f"operation on one member, {one.value!r}"
            )
        if not _is_time(time, _LONGEST_CALL) or not time:
            wanted = f"a timedelta above 0, up to {_LONGEST_CALL}"
            raise _wrong_setting(driver, name, wanted, time)


def _check_batch_methods(driver: type, base: type) -> None:
    """Refuse a method for many members that no caller would ever use."""
    batch = inspect.getattr_static(driver, "batch")
    if getattr(batch, "max_items", None) != 1:
        return
    for name in _OF_MANY:
        if getattr(driver, name) is not getattr(base, name):
            raise TypeError(
                f"{driver.__name__}.{name} is never called: `batch` is not set, so that no "
                "manifest declares one: write batch = sdk.Batch(max_items=100)"
            )


_OF_MANY = tuple(METHODS[operation] for operation in SINGLE)


def _wrong_setting(driver: type, name: str, wanted: str, value: object) -> TypeError:
    return TypeError(f"{driver.__name__}.{name} is {wanted}, not {value!r:.80}")


def check_batch(owner: object, max_items: object, max_delay: object) -> None:
    """Refuse a batch that no LoadBalancerDriver may declare.

    Raises:
        TypeError: it has another type or value than the field may have.
    """
    if not _is_whole(max_items, 1, MOST_ITEMS):
        wanted = f"a whole number from 1 to {MOST_ITEMS}"
        raise _wrong(owner, "max_items", wanted, max_items)
    if not _is_time(max_delay, _LONGEST_GATHERING):
        wanted = f"a timedelta from 0 to {_LONGEST_GATHERING}"
        raise _wrong(owner, "max_delay", wanted, max_delay)


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


_KINDS: Mapping[str, tuple[type, str]] = {
    "in_service": (bool, "a bool"),
    "state": (BackendState, "a BackendState, such as BackendState.ACTIVE"),
    "status": (Status, "a Status, such as Status.SUCC"),
}
"""Of all other fields it is `str`, or a function below says it."""


def check_fields(result: attrs.AttrsInstance) -> None:
    """Refuse fields of a result that no answer could carry.

    Raises:
        TypeError: one has another type than it is declared with.
    """
    for field in attrs.fields(type(result)):
        value = getattr(result, field.name)
        if value is not None:
            _check_field(result, field.name, value)


def check_listed(listed: ListedBackend | ListBackendsAnswer) -> None:
    """Refuse fields of a list, or of a member in it, that no answer could carry.

    Raises:
        TypeError: one has another type than it is declared with.
    """
    for name in listed.__struct_fields__:
        _check_field(listed, name, getattr(listed, name))


def _check_field(owner: object, name: str, value: object) -> None:
    if name == "retry_after":
        check_delay(owner, value)
    elif name == "active_connections":
        _check_count(owner, value)
    elif name == "ingress":
        _check_ingress(owner, value)
    elif name == "backends":
        _check_backends(owner, value)
    elif name.endswith("_info"):
        _check_map(owner, name, value)
    else:
        kind, told = _KINDS.get(name, (str, "a string"))
        if not isinstance(value, kind):
            raise _wrong(owner, name, told, value)


def _check_backends(owner: object, value: object) -> None:
    wanted = "a list of ListedBackend"
    if not isinstance(value, list | tuple):
        raise _wrong(owner, "backends", wanted, value)
    for one in value:
        if not isinstance(one, ListedBackend):
            text = f"{type(owner).__name__}.backends is {wanted}; {one!r:.80} is none"
            raise TypeError(text)


def _check_ingress(owner: object, value: object) -> None:
    listed = value if isinstance(value, list | tuple) else [None]
    if not all(isinstance(one, Ingress) for one in listed):
        raise _wrong(owner, "ingress", "a list of sdk.Ingress", value)


def _check_count(owner: object, value: object) -> None:
    if not _is_whole(value, 0, LARGEST_COUNT):
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
