"""The tests beside busy loops and in a drawn order, which they must not mind.

    python -m tests.lab.stress --loops 4 -- -n 3 --dist loadfile

With `--stalls` the processes of pytest stand still again and again: that shows in a few runs
what busy loops seldom do (`stalls.py`).

What follows `--` goes to pytest. The order is drawn file by file, and within each file; a run
prints its seed first, and `--seed` plays it again.
"""
