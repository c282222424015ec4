"""The command line, and what the demo reads from HAProxy and plans for kills."""

from pathlib import Path

import pytest

from tests.lab.demo import manifests
from tests.lab.demo.envoy import read_member
from tests.lab.demo.errors import DemoError
from tests.lab.demo.haproxy import parse_snapshot, write_configuration
from tests.lab.demo.kills import interval
from tests.lab.demo.options import Options, parse
from tests.lab.demo.proxy import Member


ANSWER = """\
Name: HAProxy
Pid: 4711

# pxname,svname,qcur,scur,status,addr,
pods,lbcf-a,1,2,UP,198.19.1.3:8080,
pods,lbcf-b,0,0,DOWN 1/2,198.19.1.4:8080,
pods,lbcf-c,0,1,DRAIN,198.19.1.5:8080,

"""


def test_defaults() -> None:
    """Without arguments the demo has three nodes and the drain is on."""
    assert Options() == parse([])


def test_switches() -> None:
    """Each switch arrives."""
    found = parse(
        ["--no-drain", "--json", "--keep", "--use-kubeconfig", "--drain-node", "n1"]
    )

    expected = Options(
        drain=False,
        gates=False,
        json=True,
        keep=True,
        foreign=True,
        drain_nodes=("n1",),
    )
    assert expected == found
    assert Options(gates=False) == parse(["--no-gates"])
    assert Options(driver="envoy") == parse(["--driver", "envoy"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--nodes", "1"], "--nodes must be at least 2"),
        (["--rate", "0"], "--rate must be between"),
        (["--seconds", "0"], "--seconds must be between"),
        (["--drain-node", "n1"], "--drain-node goes with --use-kubeconfig"),
        (["--campaign", "--use-kubeconfig"], "--campaign kills the API server"),
    ],
)
def test_refuses_nonsense(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong arguments end the program with a line that says what is wrong."""
    with pytest.raises(SystemExit, match="2"):
        parse(arguments)

    assert expected in capsys.readouterr().err


def test_reads_members() -> None:
    """A snapshot has the worker, each server and its sessions with the queued ones."""
    found = parse_snapshot(ANSWER)

    assert ("4711", 1) == (found.worker, found.serving)
    first = Member("lbcf-a", "198.19.1.3:8080", "UP", 3)
    assert first == found.members[0]


@pytest.mark.parametrize(
    ("health", "listens", "status"),
    [
        ("HEALTHY", True, "UP"),
        ("DRAINING", True, "DRAIN"),
        ("HEALTHY", False, "no lis"),
    ],
)
def test_reads_members_of_envoy(health: str, listens: bool, status: str) -> None:
    """None serves before Envoy listens, and none that drains."""
    where = {"address": "198.19.1.3", "port_value": 8080}
    host = {
        "address": {"socket_address": where},
        "health_status": {"eds_health_status": health},
        "stats": [{"name": "rq_active", "value": "3"}, {"name": "rq_error"}],
    }

    found = read_member(host, listens=listens)

    assert ("198.19.1.3:8080", 3) == (found.address, found.sessions)
    assert found.status.startswith(status)
    assert (status == "UP") is found.serving


def test_reads_an_empty_backend() -> None:
    """A backend without servers is no error."""
    assert () == parse_snapshot("Pid: 1\n\n# pxname,svname,\n\n").members


def test_refuses_another_answer() -> None:
    """Text that is not the answer is an error, not an empty backend."""
    with pytest.raises(DemoError, match="No such"):
        parse_snapshot("No such proxy\n")


def test_hides_no_failure(tmp_path: Path) -> None:
    """HAProxy is configured to neither retry nor redispatch."""
    path = tmp_path / "haproxy.cfg"
    write_configuration(path, tmp_path / "s", "127.0.0.1:1")

    text = path.read_text()
    assert "retries 0" in text
    assert "redispatch" not in text


def test_refuses_a_long_socket_path(tmp_path: Path) -> None:
    """A path that no unix socket can have is told before HAProxy fails on it."""
    with pytest.raises(DemoError, match="TMPDIR"):
        write_configuration(tmp_path / "c", tmp_path / ("s" * 100), "127.0.0.1:1")


@pytest.mark.parametrize("seconds", [1, 60, 90, 600])
def test_kills_fit_into_the_script(seconds: float) -> None:
    """Kills come every few seconds, and often enough where there is time for it."""
    every = interval(seconds, 10)

    assert 4.0 <= every <= 6.0
    assert seconds < 60 or seconds / every >= 10


def applied(options: Options) -> str:
    """What the demo applies."""
    place = manifests.Place("ns", "http://127.0.0.1:1", {}, {}, "198.18.0.1:1")
    return manifests.render(
        [
            *manifests.web_app(place, options),
            *manifests.load_balancing(place, options),
        ]
    )


@pytest.mark.parametrize("drain", [True, False])
def test_no_drain_switches_it_off(drain: bool) -> None:
    """Without the drain the group does not wait; nor does the app in foreign clusters."""
    assert drain is ('"enabled": true' in applied(Options(drain=drain)))
    foreign = applied(Options(drain=drain, gates=False, foreign=True))
    assert drain is ('"preStop"' in foreign)


@pytest.mark.parametrize("gates", [True, False])
def test_app_ends_at_once(gates: bool) -> None:
    """It has no hook of its own; only its labels tell the one from the other."""
    text = applied(Options(gates=gates))

    assert '"AT_ONCE"' in text
    assert '"preStop"' not in text
    assert '"minReadySeconds": 0' in text
    for label in manifests.gate_labels():
        assert gates is (f'"{label}"' in text)
