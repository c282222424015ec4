"""Every rule in CEL, broken on the real API server; no rule without a row."""

import pytest

from tests.manifests.api import Answer, Api
from tests.manifests.breaches import BREACHES, Breach
from tests.manifests.documents import Document, samples, schemas
from tests.manifests.paths import changed, nodes


pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("breach", BREACHES, ids=str)
def test_a_broken_rule_is_named(
    breach: Breach, api: Api, stored: dict[str, Document]
) -> None:
    """What breaks a rule is refused; the message names the field and the rule."""
    answer = _updated(breach, api, stored) if breach.update else _created(breach, api)

    assert 422 == answer.code, answer.message
    assert f"{breach.field}: Invalid value: " in answer.message
    assert breach.says in answer.message


def _edited(breach: Breach, document: Document) -> Document:
    """The document with the row's edits."""
    for place, value in breach.edits.items():
        document = changed(document, place, value)
    return document


def _created(breach: Breach, api: Api) -> Answer:
    """The answer to a broken object that is new."""
    sample = samples()[breach.sample]
    name = f"{sample['metadata']['name']}-trial"
    return api.create(_edited(breach, changed(sample, "metadata.name", name)))


def _updated(breach: Breach, api: Api, stored: dict[str, Document]) -> Answer:
    """The answer to an update that breaks what is stored."""
    old = stored[breach.sample]
    return api.replace(_edited(breach, old), breach.part)


def test_every_rule_has_a_row() -> None:
    """Each rule of each schema is broken by at least one row."""
    broken = {(row.kind, row.at) for row in BREACHES}
    untested = [
        f"{kind} {place or 'object'}: {rule['message']}"
        for kind, schema in schemas().items()
        for place, node in nodes(schema)
        for rule in node.get("x-kubernetes-validations", ())
        if not any(
            (kind, place) == (row.kind, row.at) and row.says in rule["message"]
            for row in BREACHES
        )
    ]

    assert broken
    assert [] == untested
