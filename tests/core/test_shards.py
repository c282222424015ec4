"""Which shard has what: each thing exactly one, whatever the number of shards."""

import re

import pytest

from hypothesis import given
from hypothesis import strategies as st

from lbcf.core.model.names import LABEL_BUCKET
from lbcf.core.model.shards import (
    BUCKETS,
    MOST_SHARDS,
    WHOLE,
    Shard,
    bucket_of,
    ending_shard,
    lease_name,
    record_labels,
    run_name,
    shard_of,
)
from lbcf.core.model.values import ObjectKey


COUNTS = st.integers(1, MOST_SHARDS)
NAMES = st.text("abcdefghij-", min_size=1, max_size=20)


def _all(count: int) -> list[Shard]:
    return [Shard(number, count) for number in range(count)]


@given(COUNTS, NAMES, NAMES)
def test_each_object_has_one_shard(count: int, namespace: str, name: str) -> None:
    """Whatever it is called, and in whatever namespace."""
    key = ObjectKey(namespace, name)

    assert 1 == sum(shard.has(key) for shard in _all(count))
    assert 1 == sum(shard.has_namespace(namespace) for shard in _all(count))


def test_bucket_is_the_same_in_every_version() -> None:
    """Records carry it: another hash would give them all to others."""
    assert [115, 95] == [bucket_of("shop"), bucket_of("shop", "web-1")]


@pytest.mark.parametrize("count", [1, 2, 3, 7, MOST_SHARDS])
def test_shards_are_of_equal_size(count: int) -> None:
    """To one bucket."""
    sizes = [0] * count
    for bucket in range(BUCKETS):
        sizes[shard_of(bucket, count)] += 1

    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    "key",
    [ObjectKey("kube-system", "lbcf-front"), ObjectKey("kube-system", "front")],
    ids=["of all namespaces", "of its own"],
)
def test_what_all_namespaces_share_has_a_bucket_of_its_own(key: ObjectKey) -> None:
    """Else all of it would be one shard's, that of kube-system."""
    own = [s.has_namespace(key.namespace) for s in _all(MOST_SHARDS)]

    assert (own == [s.has(key) for s in _all(MOST_SHARDS)]) is (key.name == "front")


def _matches(selector: str, value: str | None) -> bool:
    """Match one label as the API server does: what has none is in no list."""
    if not selector:
        return True
    found = re.fullmatch(rf"{LABEL_BUCKET} (in|notin) \(([0-9,]+)\)", selector)
    assert found is not None, selector
    return (value in found[2].split(",")) is (found[1] == "in")


@given(
    COUNTS,
    st.none() | st.integers(-1, 300).map(str) | st.sampled_from(["007", "x", "٣"]),
)
def test_record_is_watched_by_the_shard_that_is_said_to_end_it(
    count: int, value: str | None
) -> None:
    """And by no other one, also where its label is missing or says nothing."""
    labels = {} if value is None else {LABEL_BUCKET: value}
    watching = [s.number for s in _all(count) if _matches(s.ending_selector(), value)]

    assert [ending_shard(labels, count)] == watching


def test_records_of_one_address_are_ended_by_one_shard() -> None:
    """Who ends one tells the next; by its name where nobody knows the address yet."""
    first, second = ObjectKey("shop", "web-1"), ObjectKey("other", "api-2")

    assert record_labels(first, "10.0.0.1:80") == record_labels(second, "10.0.0.1:80")
    assert record_labels(first, "") != record_labels(second, "")


def test_limit_is_divided_and_never_nothing() -> None:
    """A driver that bears one call at a time is called by each shard all the same."""
    assert [8, 1] == [Shard(2, 4).part_of(32), Shard(2, 4).part_of(1)]
    assert 32 == WHOLE.part_of(32)


def test_first_shard_has_the_lease_of_the_only_one() -> None:
    """So that the two never lead at once while the number is changed."""
    assert ["lbcf-controller", "lbcf-controller-1"] == [
        lease_name("controller", number) for number in range(2)
    ]


def test_run_leads_each_shard_by_another_name() -> None:
    """What it has noted of one says nothing of the calls of another; the first is its own."""
    assert ["a", "a-1", "a-2"] == [run_name("a", number) for number in range(3)]
