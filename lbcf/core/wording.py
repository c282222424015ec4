"""Words that conditions, Events and the answers of `lbcf` have in common."""

from collections.abc import Sequence


def some_of(
    subjects: Sequence[str],
    *,
    most: int = 3,
    separator: str = ", ",
    last: str = " and ",
) -> str:
    """List the first few of many, and count the others: `a, b, c and 2 more`.

    Args:
        subjects: in the order in which they are listed; none give an empty text.
        most: how many are listed.
        separator: between two of them.
        last: before the number of the others.
    """
    shown = separator.join(subjects[:most])
    others = len(subjects) - most
    return f"{shown}{last}{others} more" if others > 0 else shown
