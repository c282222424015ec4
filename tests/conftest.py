"""Fixtures that all tests share: one control plane for the whole session."""

pytest_plugins = ["pytester", "tests.cluster.fixtures", "tests.manifests.fixtures"]
