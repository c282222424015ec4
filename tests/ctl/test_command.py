"""The command line before it has an API server: one line, and exit status 2."""

import subprocess
import sys

from pathlib import Path
from typing import Any

import pytest
import yaml

from lbcf import __version__
from lbcf.core.model.values import ObjectKey
from lbcf.ctl.flags import Kind, ObjectReference, parser_for
from lbcf.kube.client import KubeClient
from lbcf.kube.kinds import DRIVERS, GROUPS, LOAD_BALANCERS
from tests.builders import NAMESPACE
from tests.ctl.readings import line_facts, text_of
from tests.ctl.servers import Guarded, put, run_command
from tests.e2e import objects
from tests.kube.tiny_api import TinyApi
from tests.lab.cluster.ports import free_ports


def run(*words: str) -> tuple[int, str, str]:
    """Run a command; returns exit status, output and errors."""
    done = subprocess.run(
        [sys.executable, "-m", "lbcf", "ctl", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def a_kubeconfig(folder: Path) -> str:
    """Write a kubeconfig that leads nowhere."""
    server = f"http://127.0.0.1:{free_ports(1)[0]}"
    whole = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(whole))
    return str(path)


def test_nobody_listens(tmp_path: Path) -> None:
    """What could not be reached is in the line."""
    status, out, err = run("status", "--kubeconfig", a_kubeconfig(tmp_path))

    assert (2, "", 1) == (status, out, len(err.splitlines())), err
    assert err.startswith("lbcf ctl: the API server cannot be asked: ")
    assert "127.0.0.1" in err


def test_file_is_missing() -> None:
    """The path is in the line, without what would steer the terminal."""
    told = "kubeconfig /no/such: no such file; pass --kubeconfig or set KUBECONFIG"
    path = "/no\x1b[2J/\u202esuch"

    assert (2, "", f"lbcf ctl: {told}\n") == run("status", "--kubeconfig", path)


def test_flags_may_stand_before_the_command() -> None:
    """As they do with kubectl; what is said behind it is said later."""
    flags = parser_for("x").parse_args(["-n", "a", "-o", "json", "status"])
    later = parser_for("x").parse_args(
        ["-n", "a", "-o", "json", "status", "-n", "b", "-o", "table"]
    )
    bare = parser_for("x").parse_args(["drains"])

    assert ("a", "json", False) == (flags.namespace, flags.output, flags.all_namespaces)
    assert ("b", "table") == (later.namespace, later.output)
    assert (None, "table", False) == (bare.namespace, bare.output, bare.all_namespaces)


def test_namespace_and_all_of_them_are_not_both_meant() -> None:
    """Wherever the two flags stand."""
    status, _, err = run("-n", "x", "status", "-A")

    told = "lbcf ctl: -n and -A were both given: which of them is meant?\n"
    assert (2, told) == (status, err)


def test_all_namespaces_go_with_no_object(tmp_path: Path) -> None:
    """An object is in one of them."""
    words = ("why", "pod/a", "-A", "--kubeconfig", a_kubeconfig(tmp_path))
    status, _, err = run(*words)

    assert (2, "lbcf ctl: -A goes with status, drains and why node/NAME alone\n") == (
        status,
        err,
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("why", "KIND/NAME"),
        ("why br/x/status", "is not a valid name: write KIND/NAME"),
        ("why pod/../x", "is not a valid name"),
        ("why lb/bind/x", "lb/NAME or lb/bind/BIND/NAME"),
        ("why pod", "write one of pod/NAME, node/NAME, br/NAME"),
        ("why secret/x", "write one of"),
        ("why secret x", "write one of"),
        ("why pod a b", "'pod a b' is more than one object: write one KIND/NAME"),
        ("why pod/a pod/b", "is more than one object"),
        ("why lb bind/x", "lb/NAME or lb/bind/BIND/NAME"),
        ("plan br/x", "write one of bg/NAME, bind/NAME"),
        ("abandon br/x", "--reason"),
        ("status -A -n x", "not allowed"),
        ("explain", "invalid choice"),
    ],
)
def test_wrong_usage_is_told_in_a_line(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what would be right."""
    with pytest.raises(SystemExit) as ended:
        parser_for("kubectl lbcf").parse_args(words.split())

    err = capsys.readouterr().err
    assert (2, 1) == (ended.value.code, len(err.splitlines()))
    assert err.startswith("kubectl lbcf")
    assert told in err


@pytest.mark.parametrize(
    ("text", "kind", "key"),
    [
        ("pod/a", Kind.POD, ObjectKey("shop", "a")),
        ("pod a", Kind.POD, ObjectKey("shop", "a")),
        ("pods a", Kind.POD, ObjectKey("shop", "a")),
        ("lb bind/b/front", Kind.LOAD_BALANCER, ObjectKey("shop", "bind/b/front")),
        ("po/a", Kind.POD, ObjectKey("shop", "a")),
        ("Nodes/n1", Kind.NODE, ObjectKey("", "n1")),
        ("lb/front", Kind.LOAD_BALANCER, ObjectKey("shop", "front")),
        ("lb/lbcf-x", Kind.LOAD_BALANCER, ObjectKey("kube-system", "lbcf-x")),
        ("lb/bind/b/front", Kind.LOAD_BALANCER, ObjectKey("shop", "bind/b/front")),
        ("bind/b", Kind.BIND, ObjectKey("shop", "bind/b")),
        ("driver/proxy", Kind.DRIVER, ObjectKey("shop", "proxy")),
        ("lbd/lbcf-x", Kind.DRIVER, ObjectKey("kube-system", "lbcf-x")),
    ],
)
def test_objects_are_found_where_they_live(
    text: str, kind: Kind, key: ObjectKey
) -> None:
    """Also what is shared, and what a Bind has."""
    target: ObjectReference = parser_for("x").parse_args(["why", *text.split()]).target

    assert (kind, key) == (target.kind, target.key("shop"))


def test_version_is_told_under_the_name_it_was_called_by() -> None:
    """Without an API server."""
    assert (0, f"lbcf ctl {__version__}\n", "") == run("--version")


def test_groups_belong_to_somebody() -> None:
    """As kubectl has it."""
    status, _, err = run("status", "--as-group", "admins")

    told = "lbcf ctl: --as-group was given without --as: who is the member?\n"
    assert (2, told) == (status, err)


def a_cluster() -> TinyApi:
    """Make a cluster with a shared load balancer and driver, which two groups use."""
    api = TinyApi()
    for resource, body, namespace in (
        (DRIVERS, objects.a_driver("http://x"), "kube-system"),
        (LOAD_BALANCERS, objects.a_load_balancer("lbcf-x", "lbcf-x"), "kube-system"),
        (GROUPS, objects.a_group("far", lbs=("lbcf-x",)), "far"),
        (GROUPS, objects.a_group("near", lbs=("lbcf-x",)), NAMESPACE),
    ):
        name = "lbcf-x" if resource is DRIVERS else body["metadata"]["name"]
        metadata: dict[str, Any] = {"name": name, "namespace": namespace}
        put(api, resource, {**body, "metadata": metadata})
    return api


def a_tenant(api: TinyApi, *namespaces: str) -> KubeClient:
    """Ask as somebody who may read in some namespaces alone."""
    own = tuple(f"/namespaces/{one}/" for one in namespaces)
    words = 'User "t" cannot list resource'

    def rule(_verb: str, path: str) -> tuple[int, str] | None:
        """Refuse all else."""
        return None if any(one in path for one in own) else (403, words)

    return KubeClient(Guarded(api, rule))


async def test_shared_objects_are_used_from_everywhere() -> None:
    """The namespaces of users are told."""
    client = KubeClient(a_cluster())
    _, [balancer] = await run_command(client, "why", "lb/lbcf-x")
    _, [driver] = await run_command(client, "why", "driver/lbcf-x")

    for report in (balancer, driver):
        assert () == report.unread
        assert "bg/far in far, bg/near in shop\n" in text_of(report)


async def test_who_may_not_look_everywhere_is_told_that_this_is_not_all() -> None:
    """With the right that is missing; the own namespace is answered for."""
    client = a_tenant(a_cluster(), NAMESPACE, "kube-system")
    _, [balancer] = await run_command(client, "why", "lb/lbcf-x")
    _, [driver] = await run_command(client, "why", "driver/lbcf-x")

    right = "may not list backendgroups.lbcf.tkestack.io in all namespaces"
    for report in (balancer, driver):
        assert "NotRead" in {reason for _, _, reason in line_facts(report)}
        assert "bg/near in shop\n" in text_of(report)
        assert right in report.unread
