"""All scenarios, by name: what users and kubelets do while steps fail."""

from tests.lab.sweep import (
    batched,
    by_hand,
    clockwork,
    crowds,
    goings,
    listed,
    lives,
    owners,
    places,
    reuses,
    rollouts,
    waiting,
)
from tests.lab.sweep.stage import SCENARIOS


__all__ = [
    "SCENARIOS",
    "batched",
    "by_hand",
    "clockwork",
    "crowds",
    "goings",
    "listed",
    "lives",
    "owners",
    "places",
    "reuses",
    "rollouts",
    "waiting",
]
