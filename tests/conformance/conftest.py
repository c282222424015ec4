"""Fixtures: a real HAProxy and its driver, those of its own tests."""

from tests.haproxy.conftest import _driver, _proxy, _start_proxy


__all__ = ["_driver", "_proxy", "_start_proxy"]
