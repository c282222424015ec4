"""Each symptom is told in the cluster, has an alert that fires, and is on the page."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from lbcf.core.lifecycle.steadiness import Steadiness
from lbcf.settings import Settings
from tests.ctl.test_leaders import BOUND, STARTING
from tests.monitoring.symptoms import PAGE, SYMPTOMS, with_table
from tests.monitoring.test_rules import groups, rules, run_promtool


AT = "80m"


@pytest.mark.prometheus
def test_alert_of_each_symptom_fires(tmp_path: Path) -> None:
    """With the reason that `status` names, where alerts have one."""
    found = groups()
    for rule in (rule for group in found for rule in group["rules"]):
        del rule["annotations"]
    cases: dict[str, Any] = {
        "rule_files": ["rules.yaml"],
        "tests": [
            {
                "name": one.name,
                "interval": "1m",
                "input_series": [{"series": one.series, "values": one.values}],
                "alert_rule_test": [
                    {
                        "alertname": one.alert,
                        "eval_time": AT,
                        "exp_alerts": [
                            {
                                "exp_labels": {
                                    **rules()[one.alert]["labels"],
                                    **one.labels,
                                }
                            }
                        ],
                    }
                ],
            }
            for one in SYMPTOMS
        ],
    }
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": found}))
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(cases))

    assert "" == run_promtool(tmp_path, "test", "rules", "cases.yaml")


def test_each_symptom_is_told_and_can_be_told_apart() -> None:
    """By what `status` names, in the cluster, and by an alert of its own."""
    assert all(one.told_by and one.alert for one in SYMPTOMS)
    for told in (
        {(s.subject, s.reason) for s in SYMPTOMS},
        {s.alert for s in SYMPTOMS},
    ):
        assert len(SYMPTOMS) == len(told)


def test_page_has_the_table() -> None:
    """Written by `python -m tests.monitoring`."""
    page = PAGE.read_text()

    assert SYMPTOMS[0].name in page
    assert page == with_table(page), "python -m tests.monitoring writes the page anew"


def test_listings_tell_in_time() -> None:
    """Of a load balancer, or member, that is down from just after a listing on.

    The other symptoms are seen by watches, at once, or by two listings in a row.
    """
    period = Settings("controller").list_period
    passed, state = timedelta(0), Steadiness()
    while state.is_well:
        passed += period
        state = state.read(passed.total_seconds(), is_well=False)

    assert passed + STARTING < BOUND
