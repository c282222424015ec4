"""The manifests that `check` compares an installation with."""

from lbcf.ctl.shipped import documents


def test_manifests_are_read_once() -> None:
    """Read again for each part of a check, they kept the API server's answers waiting."""
    first, again = list(documents("Role")), list(documents("Role"))

    assert first
    assert [id(one) for one in first] == [id(one) for one in again]
