"""The alerts: they fire when they should, ask for what there is, and have a runbook."""

import itertools
import subprocess

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.cluster.unpacked import promtool
from tests.monitoring import dashboard
from tests.monitoring.answers import panels
from tests.monitoring.queries import unknown_in
from tests.monitoring.registries import all_families
from tests.monitoring.rows import ROWS


RULES = Path("manifests/monitoring/rules.yaml")
CASES = Path(__file__).with_name("rules_test.yaml")
RUNBOOKS = Path("docs/runbooks.md")
WINDOW = "5m"
"""In the place of Grafana's own variable."""


def groups() -> list[dict[str, Any]]:
    """The groups of rules, anew for each caller."""
    found: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["spec"]["groups"]
    return found


def rules() -> dict[str, dict[str, Any]]:
    """The rules by the names of their alerts."""
    return {rule["alert"]: rule for group in groups() for rule in group["rules"]}


def run_promtool(folder: Path, *words: str) -> str:
    """Run promtool in a folder; returns what it said if it failed."""
    argv = [str(promtool(print)), *words]
    done = subprocess.run(
        argv,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout if done.returncode else ""


@pytest.mark.prometheus
def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    """Each on its own bad day, none on a good one."""
    found = groups()
    for group in found:
        for rule in group["rules"]:
            del rule["annotations"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": found}))
    (tmp_path / CASES.name).write_text(CASES.read_text())

    assert "" == run_promtool(tmp_path, "test", "rules", CASES.name)


@pytest.mark.prometheus
def test_rules_and_their_texts_are_valid(tmp_path: Path) -> None:
    """As Prometheus reads them, templates in annotations included."""
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups()}))

    assert "" == run_promtool(tmp_path, "check", "rules", "rules.yaml")


@pytest.mark.prometheus
def test_queries_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    """As recording rules they are parsed without being asked."""
    queries = [q for row in ROWS.values() for p in row for q in p.queries.values()]
    recorded = [
        {"record": f"panel:{number}", "expr": q.replace("$__rate_interval", WINDOW)}
        for number, q in enumerate(queries)
    ]
    group = {"name": "dashboard", "rules": recorded}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [group]}))

    assert "" == run_promtool(tmp_path, "check", "rules", "rules.yaml")


def test_every_alert_has_a_bad_day_and_a_good_one() -> None:
    """An alert without a case is one that nobody has seen firing."""
    checks = [
        (check["alertname"], bool(check["exp_alerts"]))
        for case in yaml.safe_load(CASES.read_text())["tests"]
        for check in case["alert_rule_test"]
    ]

    assert {(name, fires) for name in rules() for fires in (True, False)} == set(checks)


async def test_alerts_ask_for_metrics_that_there_are() -> None:
    """By their names and labels, as the processes register them."""
    families = await all_families()
    wrong = {n: unknown_in(rule["expr"], families) for n, rule in rules().items()}

    assert {} == {name: found for name, found in wrong.items() if found}


async def test_dashboard_asks_for_metrics_that_there_are() -> None:
    """The same for each panel; what lines are called is a label of theirs, too."""
    families = await all_families()
    wrong = {
        panel.title: unknown_in(query, families)
        for row in ROWS.values()
        for panel in row
        for query in panel.queries.values()
    }

    assert {} == {title: found for title, found in wrong.items() if found}


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("sum(lbcf_no_such_total)", ["lbcf_no_such_total is no metric"]),
        ('lbcf_records{kind="a"}', ["lbcf_records has no label kind"]),
        ("max by (group) (lbcf_records)", ["nothing has group"]),
        ("max by (reason, pod) (lbcf_records)", []),
    ],
)
async def test_wrong_query_is_found_out(query: str, wrong: list[str]) -> None:
    """What the tests above rest on."""
    assert wrong == unknown_in(query, await all_families())


def test_every_alert_has_its_runbook_and_every_runbook_its_alert() -> None:
    """The link leads to a heading with the alert's name, as GitHub makes anchors."""
    links = {rule["annotations"]["runbook_url"] for rule in rules().values()}
    headings = [
        line.removeprefix("## ")
        for line in RUNBOOKS.read_text().splitlines()
        if line.startswith("## ")
    ]

    assert list(rules()) == headings
    assert {f"docs/runbooks.md#{name.lower()}" for name in headings} == links


def test_dashboard_is_as_it_was_made() -> None:
    """After a change, `python -m tests.monitoring` writes it anew."""
    assert dashboard.PAGE.read_text() == dashboard.rendered()


def test_panels_do_not_overlap() -> None:
    """Each row fills the grid from left to right, with numbers of their own."""
    places = [panel["gridPos"] for panel in panels()]
    for y in {place["y"] for place in places}:
        row = [place for place in places if place["y"] == y]
        ends = list(itertools.accumulate(place["w"] for place in row))
        assert [0, *ends[:-1]] == [place["x"] for place in row]
        assert dashboard.WIDTH == ends[-1]
    numbers = [panel["id"] for panel in panels()]
    assert len(numbers) == len(set(numbers))
