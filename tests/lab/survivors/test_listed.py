"""The list of mutants that may live: what is new, what is stale, what needs no entry."""

import pytest

from tests.lab.survivors.listed import LIST, Difference, compare, mutant_of, read_list


NAME = "lbcf.core.lifecycle.turn.xǁFailureStreakǁwait__mutmut_12"
DIFF = """\
--- lbcf/core/lifecycle/turn.py
+++ lbcf/core/lifecycle/turn.py
@@ -4,7 +4,7 @@
         self,
-        limit: float = 1
+        limit: float = 2
     ):
"""
LISTED = """\
# There is no limit
# below two.

lbcf.core.lifecycle.turn.FailureStreak.wait
- limit: float = 1
+ limit: float = 2
"""
LIVES = mutant_of(NAME, DIFF)
WORDS = mutant_of(
    "lbcf.core.wording.x_said__mutmut_1",
    '---\n+++\n-    return f(KIND, "no pods")\n+    return f(KIND, "XXno podsXX")\n',
)


def test_mutant_is_told_as_it_is_listed() -> None:
    """What is printed of a new one can be put into the list as it is."""
    assert str(LIVES) == LISTED.split("\n\n")[1].strip()
    assert [LIVES] == read_list(LISTED)


def test_listed_mutant_is_accepted() -> None:
    """Wherever in its function, and in its file, it stands by now."""
    moved = mutant_of(NAME.replace("12", "7"), DIFF.replace("-4,7 +4,7", "-9,7 +9,7"))

    assert Difference([], []) == compare([moved], read_list(LISTED))


def test_new_mutant_is_found() -> None:
    """Also one that reads like one in the list: that stands for one only."""
    other = mutant_of(NAME, DIFF.replace("2", "3"))

    assert Difference([LIVES, other], []) == compare(
        [LIVES, other, LIVES], read_list(LISTED)
    )


def test_stale_entry_is_reported() -> None:
    """The list shrinks when a test has come, or the line has gone."""
    assert Difference([], [LIVES]) == compare([], read_list(LISTED))


def test_words_for_people_need_no_entry() -> None:
    """Tests hold what a message is about, not how it is put."""
    assert Difference([], []) == compare([WORDS], [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('f(KIND, "no pods")', 'f(None, "no pods")'),
        ('f("Pod", "no pods")', 'f("POD", "no pods")'),
        ('f(a, "no pods")', 'f("no pods")'),
        ('f("a", "b")', 'f("XXaXX", "b")'),
    ],
)
def test_what_stands_beside_words_is_no_wording(before: str, after: str) -> None:
    """Nor is a single word: programs read those."""
    mutant = mutant_of(NAME, f"---\n+++\n-{before}\n+{after}\n")

    assert not mutant.is_wording


def test_list_begins_with_a_reason() -> None:
    """Nothing is listed without one."""
    with pytest.raises(ValueError, match="begins with the reason"):
        read_list(LISTED.split("\n\n")[1])


def test_list_in_the_tree_can_be_read() -> None:
    """No entry says that nothing changes."""
    listed = read_list(LIST.read_text())

    assert [] == [one for one in listed if one.before == one.after]
