"""All scenarios, by name: what users and kubelets do while steps fail."""

from tests.lab.sweep import (
    by_hand,
    clockwork,
    crowds,
    goings,
    listed,
    lives,
    places,
    reuses,
    rollouts,
    waiting,
)
from tests.lab.sweep.stage import SCENARIOS


__all__ = [
    "SCENARIOS",
    "by_hand",
    "clockwork",
    "crowds",
    "goings",
    "listed",
    "lives",
    "places",
    "reuses",
    "rollouts",
    "waiting",
]
