"""What one tenant has that hangs, or is many, delays nobody else: bounds in virtual time."""

import pytest

from tests.fairness.plays import BESIDE, OWN, SHARED


@pytest.mark.parametrize("name", BESIDE)
def test_tenant_is_not_delayed_by_what_hangs_for_another(name: str) -> None:
    """Each of its acts takes twice as long as alone at most."""
    assert {} == BESIDE[name]()


@pytest.mark.parametrize("name", SHARED)
def test_namespaces_share_a_driver(name: str) -> None:
    """They take turns, and what hangs for one leaves room for the other."""
    assert {} == SHARED[name]()


@pytest.mark.parametrize("name", OWN)
def test_what_hangs_in_a_namespace_delays_only_what_needs_it(name: str) -> None:
    """Not another driver, nor another load balancer of the same driver."""
    assert {} == OWN[name]()
