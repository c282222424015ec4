"""The manifests that `check` compares an installation with."""

from lbcf.ctl.shipped import documents


def test_manifests_are_read_once() -> None:
    """While they are read, nobody reads answers, and the time of requests goes on."""
    first, again = list(documents("Role")), list(documents("Role"))

    assert first
    assert [id(one) for one in first] == [id(one) for one in again]
