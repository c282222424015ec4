"""What a driver, or the lack of its answer, rules about unready pods: values alone.

`lbcf.core.selection.judging` makes them, `lbcf.core.model.cluster.Snapshot` carries them to the plan.
"""

from collections.abc import Mapping

import attrs

from lbcf.core.model.values import Uid
from lbcf.core.reasons import Reason


@attrs.frozen
class Keep:
    """The pod stays where it is: in if it is in, out if it is out."""

    reason: Reason
    message: str


@attrs.frozen
class LetGo:
    """The pod is to be deregistered, since it is not ready."""

    message: str


Ruling = Keep | LetGo


@attrs.frozen
class Trouble:
    """Why there is no answer: a reason and a sentence for people."""

    reason: Reason
    message: str


@attrs.frozen
class Judgement:
    """Rulings by the uid of the pod, and what is wrong with whoever should judge."""

    rulings: Mapping[Uid, Ruling] = attrs.Factory(dict)
    trouble: Trouble | None = None
