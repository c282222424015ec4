"""Every limit of every schema, broken on the real API server."""

import pytest

from tests.manifests.api import Api
from tests.manifests.documents import Document, samples, schemas
from tests.manifests.limits import Limit, broken, expected, limits, sample_for
from tests.manifests.paths import has, nodes


pytestmark = pytest.mark.cluster

LIMITS = [limit for kind in schemas() for limit in limits(kind)]


def test_samples_are_accepted(stored: dict[str, Document]) -> None:
    """Unbroken samples are taken: what the other tests see is what they broke."""
    assert samples().keys() == stored.keys()


@pytest.mark.parametrize("kind", schemas())
def test_samples_are_complete(kind: str) -> None:
    """Between them the samples hold every field of the schema."""
    ours = [s for name, s in samples().items() if name.split()[0] == kind]
    places = [place for place, _ in nodes(schemas()[kind]) if place]

    assert [] == [p for p in places if not any(has(sample, p) for sample in ours)]


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_a_broken_limit_is_named(
    limit: Limit, api: Api, stored: dict[str, Document]
) -> None:
    """A value beyond its limit is refused; the message names the field and the rule."""
    place = (
        f"{limit.place}.{limit.bound}" if limit.keyword == "required" else limit.place
    )
    sample = sample_for(limit.kind, place.removeprefix("."))
    bad = broken(limit, sample)
    if limit.place.startswith("status"):
        old = stored[f"{limit.kind} {sample['metadata']['name']}"]
        answer = api.replace({**old, "status": bad["status"]}, "status")
    else:
        bad["metadata"]["name"] += "-trial"
        answer = api.create(bad)
    field, words = expected(limit, sample)

    assert 422 == answer.code, answer.message
    assert f"{field}: {words}" in answer.message or (
        f"{field}: " in answer.message and words in answer.message
    )


def test_an_unknown_field_is_named(api: Api, stored: dict[str, Document]) -> None:
    """A misspelled field is refused where kubectl asks for strictness (its default)."""
    group = stored["BackendGroup static"]
    bad = {**group, "spec": {**group["spec"], "loadBalancer": "web"}}

    assert 'unknown field "spec.loadBalancer"' in api.replace(bad).message
