"""`check` of what somebody has changed by hand."""

import pytest

from lbcf.ctl.check import check
from lbcf.ctl.report import Mark
from lbcf.kube.client import KubeClient
from tests.ctl.readings import NOW
from tests.kube.tiny_api import TinyApi


WEBHOOK = (
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/"
    "lbcf.tkestack.io"
)
OURS = {"app.kubernetes.io/part-of": "lbcf"}


@pytest.mark.parametrize("left", [{}, {"webhooks": []}, {"webhooks": None}])
async def test_webhook_configuration_without_webhooks_has_no_effect(
    left: dict[str, object],
) -> None:
    """As somebody empties it in an emergency, and forgets it."""
    api = TinyApi()
    api.put(WEBHOOK, {"metadata": {"labels": OURS}, **left})

    report = await check(KubeClient(api), "shop", NOW)

    (section,) = [one for one in report.sections if one.title == "webhook"]
    (line,) = section.lines
    assert (Mark.NO, "lbcf.tkestack.io") == (line.mark, line.subject)
    assert "it has no effect" in line.text
    assert "apply the manifests" in line.remedy
