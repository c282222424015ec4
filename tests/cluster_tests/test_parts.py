"""The small parts of the cluster: pids, ports, cache, audit log, image archives."""

import json
import os
import signal
import subprocess
import sys
import tarfile
import threading

from pathlib import Path
from typing import cast

import pytest

from tests.lab.cluster.audit import read_audit
from tests.lab.cluster.binaries import digest, made_once
from tests.lab.cluster.certificates import write_private
from tests.lab.cluster.layers import Layer, save_image
from tests.lab.cluster.pids import Pid
from tests.lab.cluster.ports import free_ports
from tests.patience import PATIENCE


def nothing_said(_: str) -> None:
    """Tell nobody."""


def fail_half_way(folder: Path) -> None:
    """A build that fails when half of the folder is there."""
    with made_once(folder, nothing_said) as fresh:
        assert fresh is not None
        (fresh / "half").touch()
        raise ZeroDivisionError


def test_file_is_there_while_another_one_is_written_in_its_place(
    tmp_path: Path,
) -> None:
    """Also where that fails: a process may be reading the kubeconfig it was started with."""
    path = tmp_path / "kubeconfig"
    write_private(path, b"first")
    with pytest.raises(TypeError):
        write_private(path, cast("bytes", "no bytes"))

    assert b"first" == path.read_bytes()
    assert 0o600 == path.stat().st_mode & 0o777


def test_reused_pid_is_not_hit() -> None:
    """A process is never signalled under the name of another with its pid."""
    own = Pid.of(os.getpid())
    assert own is not None
    other = Pid(own.number, own.started - 1)
    assert not other.alive()
    assert other.end(signal.SIGKILL, 0)  # or this test is dead


def test_ended_process_is_waited_for() -> None:
    """`end` returns when the process is gone."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as child:
        pid = Pid.of(child.pid)
        assert pid is not None
        assert pid.end(signal.SIGTERM, PATIENCE)
        assert not pid.alive()


def test_ports_are_different() -> None:
    """No port is given twice, though nobody listens on those of before."""
    given = [port for _ in range(20) for port in free_ports(50)]

    assert 1_000 == len(set(given))


def test_failed_build_is_not_kept(tmp_path: Path) -> None:
    """A folder of the cache is there as a whole or not at all."""
    folder = tmp_path / "made"
    with pytest.raises(ZeroDivisionError):
        fail_half_way(folder)
    assert ["made.lock"] == [path.name for path in tmp_path.iterdir()]


def test_second_builder_waits_and_takes_the_first_ones(tmp_path: Path) -> None:
    """Of two builders at once one builds; the other says that it waits."""
    folder, said, second = tmp_path / "made", [], []
    waiting = threading.Event()

    def say(step: str) -> None:
        said.append(step)
        waiting.set()

    def build_too() -> None:
        with made_once(folder, say) as fresh:
            second.append(fresh)

    with made_once(folder, nothing_said) as fresh:
        thread = threading.Thread(target=build_too)
        thread.start()
        assert waiting.wait(PATIENCE)
        assert fresh is not None
    thread.join(PATIENCE)
    assert [f"waiting for another build of {folder}"] == said
    assert [None] == second


def test_leftovers_of_a_killed_builder_go(tmp_path: Path) -> None:
    """What a killed builder left in the cache is removed by the next one."""
    (tmp_path / "made.new-abc").mkdir()
    with made_once(tmp_path / "made", nothing_said):
        pass
    assert {"made", "made.lock"} == {path.name for path in tmp_path.iterdir()}


def test_digest_follows_contents_and_words(tmp_path: Path) -> None:
    """Another content or another word is another folder in the cache."""
    source = tmp_path / "main.go"
    source.write_text("package main")
    first, worded = digest([source]), digest([source], "-s")
    source.write_text("package other")
    assert 3 == len({first, worded, digest([source])})


def test_half_written_event_is_left_out(tmp_path: Path) -> None:
    """The log may be read while the API server writes it."""
    event = {
        "user": {"username": "lbcf"},
        "verb": "patch",
        "objectRef": {"resource": "pods", "subresource": "status", "name": "web-1"},
        "responseStatus": {"code": 200},
    }
    log = tmp_path / "audit.log"
    log.write_text(f"{json.dumps(event)}\n{json.dumps(event)[:20]}")
    (read,) = read_audit(log, "lbcf")
    assert ("patch", "pods/status", 200) == (read.verb, read.resource, read.code)
    assert [] == read_audit(log, "other")


def test_same_files_make_the_same_image(tmp_path: Path) -> None:
    """An archive depends on nothing but what was put into it."""
    for name in ("one", "two"):
        layer = Layer()
        layer.add_base()
        layer.add_bytes("etc/motd", b"hello")
        save_image("lbcf.local/test:1", layer, tmp_path / name, Cmd=["true"])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_image_names_its_layer(tmp_path: Path) -> None:
    """The archive's manifest leads to the reference and to the layer's files."""
    layer = Layer()
    layer.add_bytes("opt/app/main.py", b"pass")
    layer.add_link("bin/app", "/opt/app/main.py")
    save_image("lbcf.local/test:1", layer, tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as archive:
        member = archive.extractfile("manifest.json")
        assert member is not None
        (manifest,) = json.load(member)
        inner = archive.extractfile(manifest["Layers"][0])
        with tarfile.open(fileobj=inner) as files:
            names = files.getnames()
    assert ["lbcf.local/test:1"] == manifest["RepoTags"]
    assert ["opt", "opt/app", "opt/app/main.py", "bin", "bin/app"] == names
