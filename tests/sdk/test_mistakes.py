"""Mistakes of an author that would be silent otherwise: the SDK refuses them by name."""

import asyncio
import sys

from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from lbcf import sdk


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
            lambda: sdk.Running(injected_info=SECONDS),
            "Running.injected_info is a map of strings",
        ),
        (
            lambda: sdk.Running(active_connections="5"),  # type: ignore[arg-type]
            "Running.active_connections is a whole number from 0, not '5'",
        ),
        (
            lambda: sdk.Running(active_connections=-1),
            "Running.active_connections is a whole number from 0, not -1",
        ),
        (lambda: sdk.Succ(retry_after=5), "retry_after"),  # type: ignore[call-arg]
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
        timeout=5,
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
