"""Mistakes of an author that would be silent otherwise: the SDK refuses them by name."""

import asyncio
import sys

from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from lbcf import sdk
from tests.sdk.services import PlainDriver


SECONDS: Any = 5

MISSPELT = """\
from lbcf import sdk

class Switchboard(sdk.Driver):
    async def ensure_backand(self, request: object) -> sdk.Succ:
        return sdk.Succ()

    async def deregister_backend(self, request: object) -> sdk.Succ:
        return sdk.Succ()

sdk.run(Switchboard, default_port=9100)
"""


def listed(**fields: Any) -> sdk.ListedBackend:
    """Return an entry of listBackends with these fields."""
    usual = {"backend_addr": "10.0.0.1:80", "state": sdk.BackendState.ACTIVE}
    return sdk.ListedBackend(**{**usual, **fields})


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            lambda: sdk.Running(retry_after=SECONDS),
            "Running.retry_after is a timedelta, such as timedelta(seconds=5), not 5",
        ),
        (lambda: sdk.RetryAfter(SECONDS), "RetryAfter.retry_after is a timedelta"),
        (lambda: sdk.Fail("no", SECONDS), "Fail.retry_after is a timedelta"),
        (lambda: sdk.Succ(msg=SECONDS), "Succ.msg is a string, not 5"),
        (lambda: sdk.Succ(lock_key=SECONDS), "Succ.lock_key is a string"),
        (
            lambda: sdk.Succ(ingress=["10.0.0.1"]),  # type: ignore[list-item]
            "Succ.ingress is a list of sdk.Ingress, not ['10.0.0.1']",
        ),
        (lambda: sdk.Succ(backend_addr=SECONDS), "Succ.backend_addr is a string"),
        (
            lambda: sdk.Succ(lb_info={"id": SECONDS}),
            "Succ.lb_info is a map of strings to strings, not {'id': 5}",
        ),
        (
            lambda: sdk.Succ(in_service="false"),  # type: ignore[arg-type]
            "Succ.in_service is a bool, not 'false'",
        ),
        (
            lambda: sdk.Succ(injected_info=SECONDS),
            "Succ.injected_info is a map of strings",
        ),
        (lambda: sdk.Running(injected_info={}), "injected_info"),  # type: ignore[call-arg]
        (
            lambda: sdk.Running(active_connections="5"),  # type: ignore[arg-type]
            "Running.active_connections is a whole number from 0, not '5'",
        ),
        (
            lambda: sdk.Running(active_connections=-1),
            "Running.active_connections is a whole number from 0, not -1",
        ),
        (lambda: sdk.Succ(retry_after=5), "retry_after"),  # type: ignore[call-arg]
        (
            lambda: listed(state="Actve"),
            "ListedBackend.state is a BackendState, such as",
        ),
        (
            lambda: listed(active_connections="3"),
            "ListedBackend.active_connections is a",
        ),
        (lambda: listed(active_connections=-3), "whole number from 0, not -3"),
        (lambda: listed(active_connections=True), "whole number from 0, not True"),
        (lambda: listed(reason=SECONDS), "ListedBackend.reason is a string, not 5"),
        (
            lambda: listed(record_id=None),
            "ListedBackend.record_id is a string, not None",
        ),
        (
            lambda: sdk.ListBackendsAnswer(epoch=SECONDS),
            "ListBackendsAnswer.epoch is a string, not 5",
        ),
        (
            lambda: sdk.ListBackendsAnswer(backends=["10.0.0.1:80"]),  # type: ignore[list-item]
            "ListBackendsAnswer.backends is a list of ListedBackend; '10.0.0.1:80' is none",
        ),
        (lambda: sdk.Batch(max_items=0), "Batch.max_items is a whole number from 1 to"),
        (lambda: sdk.Batch(max_items=5000), "from 1 to 1000, not 5000"),
        (
            lambda: sdk.Batch(max_items="5"),  # type: ignore[arg-type]
            "Batch.max_items is a whole number from 1 to 1000, not '5'",
        ),
        (
            lambda: sdk.Batch(max_delay=SECONDS),
            "Batch.max_delay is a timedelta from 0 to",
        ),
    ],
)
def test_results_take_no_other_types(made: Any, said: str) -> None:
    """Whatever an answer could not carry is refused where it is written."""
    with pytest.raises(TypeError) as refused:
        made()

    assert said in str(refused.value)


def test_results_take_what_answers_carry() -> None:
    """All fields at their proper types; a delay below zero is none, as ever."""
    going_on = sdk.Running(retry_after=timedelta(seconds=-1), active_connections=0)
    done = sdk.Succ(
        msg="m", lb_info={"a": "b"}, injected_info={}, lock_key="k", ingress=[]
    )

    assert timedelta(seconds=-1) == going_on.retry_after
    assert {"a": "b"} == done.lb_info


async def _ensure(_self: object, _request: object) -> sdk.Succ:
    """Be done."""
    return sdk.Succ()


def _sync(_self: object, _request: object) -> sdk.Succ:
    """Be done without a loop."""
    return sdk.Succ()


def a_class(**methods: object) -> type[sdk.Driver]:
    """Return a driver class with these methods beside those that it must have."""
    most = {"ensure_backend": _ensure, "deregister_backend": _ensure}
    return type("Mine", (sdk.Driver,), most | methods)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("ensure_backand", "ensure_backend"),
        ("ensureBackend", "ensure_backend"),
        ("register_backend", "ensure_backend"),
        ("drain_backnd", "drain_backend"),
        ("deregsiter_backend", "deregister_backend"),
        ("list_backend", "list_backends"),
        ("generate_backend_address", "generate_backend_addr"),
        ("create_loadbalancer", "create_load_balancer"),
        ("health", "healthz"),
    ],
)
def test_a_misspelt_operation_is_named(wrong: str, right: str) -> None:
    """It would never be called; the error names it and what is meant."""
    with pytest.raises(TypeError) as refused:
        a_class(**{wrong: _ensure})

    assert f"Mine.{wrong}" in str(refused.value)
    assert f"is {right} meant?" in str(refused.value)


@pytest.mark.parametrize("name", ["ensure_backend", "healthz", "start", "stop"])
def test_a_method_that_cannot_be_awaited_is_named(name: str) -> None:
    """It would fail at each call."""
    with pytest.raises(TypeError, match=f"Mine.{name} .*`async def {name}`"):
        a_class(**{name: _sync})


@pytest.mark.parametrize("name", ["routes", "register_series"])
def test_a_method_that_is_not_awaited_is_named(name: str) -> None:
    """It would have no effect."""
    with pytest.raises(TypeError, match=f"Mine.{name} .*`def {name}`"):
        a_class(**{name: _ensure})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (
            "member_key",
            "Record",
            "is sdk.MemberKey.ADDRESS or sdk.MemberKey.RECORD, not",
        ),
        ("late_effect", 10, "is a timedelta from 0 to 1:00:00, not 10"),
        ("late_effect", timedelta(hours=2), "is a timedelta from 0 to 1:00:00, not"),
        ("max_concurrent_calls", 0, "is a whole number from 1 to 10000, not 0"),
        ("batch_concurrency", "8", "is a whole number from 1 to 10000, not '8'"),
        ("batch", True, "is sdk.Batch(max_items=100), not True"),
        ("summary", 5, "is a string, not 5"),
        ("timeouts", 5, "is a map by sdk.Operation, not 5"),
        (
            "timeouts",
            {sdk.Operation.ENSURE_BACKEND: 5},
            "['ensureBackend'] is a timedelta above 0, up to 0:01:00, not 5",
        ),
        (
            "timeouts",
            {"ensureBackand": timedelta(seconds=5)},
            "['ensureBackand']: no such operation: is 'ensureBackend' meant?",
        ),
        (
            "timeouts",
            {sdk.Operation.ENSURE_BACKENDS: timedelta(seconds=5)},
            "of a batch is that of the operation on one member, 'ensureBackend'",
        ),
    ],
)
def test_settings_that_no_manifest_could_carry(
    name: str, value: object, said: str
) -> None:
    """They would show when the manifest is applied at last, or never."""
    with pytest.raises(TypeError) as refused:
        a_class(**{name: value})

    assert f"Mine.{name}" in str(refused.value)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("late_effect_seconds", "late_effect"),
        ("lateEffect", "late_effect"),
        ("timeout", "timeouts"),
        ("memberkey", "member_key"),
        ("max_concurent_calls", "max_concurrent_calls"),
        ("batches", "batch"),
        ("batch_concurency", "batch_concurrency"),
    ],
)
def test_a_misspelt_setting_is_named(wrong: str, right: str) -> None:
    """Nothing would read it."""
    with pytest.raises(TypeError) as refused:
        a_class(**{wrong: 5})

    assert f"Mine.{wrong}: no setting has this name" in str(refused.value)
    assert f"is {right} meant?" in str(refused.value)


def test_fields_of_the_author_s_own() -> None:
    """What a property or a slot is called has nothing to do with the settings."""
    made = a_class(timeout=property(lambda _self: 5), pool="mine", _timeout=5)

    assert issubclass(made, sdk.Driver)


async def _nothing(_self: object) -> sdk.Succ:
    """Take no request."""
    return sdk.Succ()


@pytest.mark.parametrize("name", ["ensure_backend", "list_backends"])
def test_a_method_without_its_request_is_named(name: str) -> None:
    """It would fail at each call."""
    with pytest.raises(TypeError, match=rf"`async def {name}\(self, request\)`"):
        a_class(**{name: _nothing})


def test_a_method_for_many_is_called_only_with_a_batch() -> None:
    """The manifest declares none, so that nobody ever sends one."""
    with pytest.raises(TypeError, match=r"Mine\.ensure_backends is never called"):
        a_class(ensure_backends=_ensure)

    assert issubclass(a_class(ensure_backends=_ensure, batch=sdk.Batch()), sdk.Driver)


def test_settings_that_only_the_object_has() -> None:
    """A property is asked for its value when there is a driver."""
    made = a_class(late_effect=property(lambda _self: timedelta(seconds=3)))

    assert issubclass(made, sdk.Driver)


class Needy(PlainDriver):
    """Cannot be made without an argument."""

    def __init__(self, region: str) -> None:
        super().__init__()
        self.region = region


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        (PlainDriver(), "write run(PlainDriver, ...), not PlainDriver()"),
        ("PlainDriver", "run takes a driver class, not 'PlainDriver'"),
        (Needy, "write run(lambda flags: Needy(...), ...)"),
        (lambda: PlainDriver(), "it is called with the flags alone"),  # noqa: PLW0108
        (lambda _flags: None, "a maker of None, which is no sdk.Driver"),
    ],
)
def test_what_cannot_be_run(driver: Any, said: str) -> None:
    """One line says what to write."""
    with pytest.raises(TypeError) as refused:
        sdk.run(driver, default_port=9100, argv=[])

    assert said in str(refused.value)


def test_methods_of_the_author_s_own() -> None:
    """Helpers, private names, wrapped methods, mix-ins and settings are let be."""

    @wraps(_ensure)
    def wrapped(*arguments: object) -> object:
        return _ensure(*arguments)

    made = a_class(
        ensure_backend=wrapped,
        remove_member=_sync,
        _ensure_backends=_sync,
        list_pools=_sync,
        region="north",
    )

    assert issubclass(made, sdk.Driver)


def test_a_mix_in_counts() -> None:
    """What a class has from others is looked at, too."""

    class Mixed:
        """A part of drivers."""

        drain_backend = _sync

    with pytest.raises(TypeError, match=r"Mine\.drain_backend"):
        type("Mine", (Mixed, sdk.Driver), {})


async def test_a_misspelt_driver_does_not_start(tmp_path: Path) -> None:
    """The process ends before it serves anything; its last line says why."""
    module = tmp_path / "switchboard.py"
    module.write_text(MISSPELT)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, module, "--bind-address", "127.0.0.1:0"),
        cwd=Path(__file__).parents[2],
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await process.communicate()

    assert 1 == process.returncode
    assert "TypeError: Switchboard.ensure_backand" in told.decode().splitlines()[-1]
