"""What all tests share: one control plane for the whole session, and no deadlines."""

import gc

from collections import Counter

import hypothesis
import pytest


# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("unhurried", deadline=None)
# For `make test-core`: a fifth of the examples, while one writes.
hypothesis.settings.register_profile("quick", deadline=None, max_examples=20)
# For `make survivors`: the same examples for each mutant, and none made simpler that failed.
hypothesis.settings.register_profile(
    "mutants",
    deadline=None,
    max_examples=20,
    derandomize=True,
    database=None,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
)
hypothesis.settings.load_profile("unhurried")

pytest_plugins = ["pytester", "tests.lab.cluster.fixtures", "tests.manifests.fixtures"]


@pytest.hookimpl(tryfirst=True)  # an order that is drawn is drawn afterwards
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Have workers begin with the files whose single tests take long, then with the largest.

    A run is over when the last file is: what takes minutes is not to begin in the last of them.
    """
    if hasattr(config, "workerinput"):
        tests = Counter(item.path for item in items)
        items.sort(
            key=lambda item: (not item.get_closest_marker("long"), -tests[item.path])
        )


def pytest_collection_finish() -> None:
    """Have the garbage collector leave out what lives to the end: all tests and modules.

    A full collection looks at half a million of these objects: half a second in which a
    process does nothing else, and several on a machine that is busy.
    """
    gc.freeze()
