"""All scenarios, by name: what users and kubelets do while steps fail."""

from tests.sweep import crowds, listed, lives, places
from tests.sweep.stage import SCENARIOS


__all__ = ["SCENARIOS", "crowds", "listed", "lives", "places"]
