"""Whether another run of a process has ended, asked of the kernel about real processes."""

import json
import os
import subprocess
import sys

from collections.abc import Iterator

import attrs
import pytest

from lbcf.runtime.process_identity import ProcessIdentity, SystemWitness


TELL = (
    "import attrs, json, sys\n"
    "from lbcf.runtime.process_identity import SystemWitness\n"
    "print(json.dumps(attrs.asdict(SystemWitness('pod-1/controller').own)), flush=True)\n"
    "sys.stdin.read()\n"
)
"""A program that says who it is, and runs until its standard input ends."""


@attrs.frozen
class Child:
    """A process that said who it is."""

    program: "subprocess.Popen[str]"
    identity: ProcessIdentity


def started(*prefix: str) -> Child:
    """Start a process that says who it is."""
    program = subprocess.Popen(
        [*prefix, sys.executable, "-c", TELL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    told = program.stdout.readline()
    return Child(program, ProcessIdentity(**json.loads(told)))


@pytest.fixture(name="child")
def _child() -> Iterator[Child]:
    """A process beside this one."""
    child = started()
    yield child
    child.program.kill()
    child.program.communicate()


def test_process_that_runs_has_not_ended(child: Child) -> None:
    """It is found by its pid and its start."""
    assert child.program.pid == child.identity.pid
    assert not SystemWitness().has_ended(child.identity)


def test_process_that_was_killed_has_ended(child: Child) -> None:
    """Also before its parent has asked for its status: a zombie runs nothing."""
    child.program.kill()
    os.waitid(os.P_PID, child.program.pid, os.WEXITED | os.WNOWAIT)

    assert SystemWitness().has_ended(child.identity)

    child.program.wait()
    assert SystemWitness().has_ended(child.identity)


def test_another_process_with_the_same_pid_is_another(child: Child) -> None:
    """The pid was given again: who had it before has ended."""
    earlier = attrs.evolve(child.identity, started=child.identity.started - 1)

    assert SystemWitness().has_ended(earlier)


def test_container_is_started_again_only_after_its_end(child: Child) -> None:
    """In another PID namespace only the container's name proves something."""
    elsewhere = attrs.evolve(child.identity, pid_namespace=1)

    assert SystemWitness("pod-1/controller").has_ended(elsewhere)
    assert not SystemWitness("pod-2/controller").has_ended(elsewhere)
    assert not SystemWitness().has_ended(attrs.evolve(elsewhere, container=""))


def test_process_beside_this_one_in_its_container_is_looked_up(child: Child) -> None:
    """Whoever runs a second one by hand in the container has not ended the first."""
    assert not SystemWitness("pod-1/controller").has_ended(child.identity)


def test_process_of_another_machine_is_unknown(child: Child) -> None:
    """Equal pids elsewhere mean nothing."""
    away = attrs.evolve(child.identity, boot="another", container="")

    assert not SystemWitness().has_ended(away)


@pytest.mark.nodes
def test_process_in_a_namespace_of_its_own_is_unknown() -> None:
    """From outside of its PID namespace nobody can say by the pid."""
    child = started("unshare", "--pid", "--fork", "--mount-proc")
    try:
        assert 1 == child.identity.pid
        assert not SystemWitness().has_ended(child.identity)
    finally:
        child.program.communicate("")
