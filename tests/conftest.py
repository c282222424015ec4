"""Fixtures that all tests share: one control plane for the whole session."""

pytest_plugins = ["tests.cluster.fixtures", "tests.manifests.fixtures"]
