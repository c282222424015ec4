"""Which shard looks after what, where a process's work is divided (docs/shards.md).

Everything falls into one of 256 fixed buckets, and each shard has a run of these. What is in
a namespace is in the namespace's bucket, but for the load balancers and drivers of
kube-system that serve every namespace: they have buckets of their own. The end of a record
is looked after by the bucket that the record's label names.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from lbcf.core.model.names import LABEL_BUCKET, digest, is_shared
from lbcf.core.model.values import ObjectKey


BUCKETS = 256
MOST_SHARDS = 32
"""More would have fewer than eight buckets each, and be of unequal size."""
_SPELLED: Final = {str(bucket): bucket for bucket in range(BUCKETS)}
"""As labels have them: only what a label selector finds, without a sign or a zero before."""


def bucket_of(*parts: str) -> int:
    """Return the bucket of a sequence of strings; the same in every version."""
    return int(digest(parts, 8), 16) % BUCKETS


def shard_of(bucket: int, count: int) -> int:
    """Return the number of the shard that has a bucket."""
    return bucket * count // BUCKETS


def record_labels(key: ObjectKey, address: str) -> dict[str, str]:
    """Return the label of a new record.

    Records of one address are in one bucket: whoever ends one tells the next that the
    address is free. Where the address is not known at the creation, the name decides.

    Args:
        key: of the record.
        address: where its backend listens; empty: only its driver knows.
    """
    parts = (address,) if address else (key.namespace, key.name)
    return {LABEL_BUCKET: str(bucket_of(*parts))}


def labelled_bucket(labels: Mapping[str, str]) -> int | None:
    """Return the bucket that a record names; None: none, or what is no bucket."""
    said = labels.get(LABEL_BUCKET)
    return None if said is None else _SPELLED.get(said)


def ending_shard(labels: Mapping[str, str], count: int) -> int:
    """Return the number of the deregistrar's shard that ends a record.

    The first has all that name no bucket: those of earlier versions and of LBCF in Go.
    """
    bucket = labelled_bucket(labels)
    return 0 if bucket is None else shard_of(bucket, count)


@attrs.frozen
class Shard:
    """A part of a process's work.

    Attributes:
        number: from 0.
        count: how many there are; with one it has everything.
    """

    number: int = 0
    count: int = 1

    @property
    def is_whole(self) -> bool:
        """Return whether there is no other shard."""
        return self.count == 1

    def has_namespace(self, namespace: str) -> bool:
        """Return whether what is in a namespace is this one's."""
        return self.is_whole or self._has(bucket_of(namespace))

    def has(self, key: ObjectKey) -> bool:
        """Return whether a load balancer or driver is this one's; see `has_namespace`."""
        if is_shared(key):
            return self._has(bucket_of(*key))
        return self.has_namespace(key.namespace)

    def _has(self, bucket: int) -> bool:
        return shard_of(bucket, self.count) == self.number

    def ending_selector(self) -> str:
        """Return the label selector of the records that this shard ends, empty of all.

        That of the first one excludes what all others have, so that nothing is left over.
        """
        if self.is_whole:
            return ""
        is_first = self.number == 0
        numbers = (b for b in range(BUCKETS) if self._has(b) is not is_first)
        listed = ",".join(map(str, numbers))
        return f"{LABEL_BUCKET} {'notin' if is_first else 'in'} ({listed})"

    def part_of(self, limit: int) -> int:
        """Return this shard's part of a limit for all of them, at least 1."""
        return max(1, limit // self.count)


WHOLE = Shard()


def run_name(incarnation: str, number: int) -> str:
    """Return by which name a run of a process leads a shard: by another one for each.

    A Lease may be its own without its knowing, as the answer to its write was lost and it
    leads another one by now. Whoever begins in its place there takes the names and marks of
    that shard's last leader for its own: what this run has noted of another shard's calls says
    nothing of those.

    Args:
        incarnation: of the process; has no slash.
        number: of the shard.
    """
    return f"{incarnation}-{number}" if number else incarnation


def lease_name(process: str, number: int) -> str:
    """Return the name of the Lease of a shard; that of the first has none of its own."""
    return f"lbcf-{process}-{number}" if number else f"lbcf-{process}"
