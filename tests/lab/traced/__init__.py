"""Holds what really happened against the model, step by step.

    audit log, with bodies ---.
                               > tape ---> judge: the functions of `tests.lab.model.follow`
    calls, as drivers saw them'

A tape is one JSON file: `python -m tests.lab.traced FILE...` judges it again. Times are
seconds of the machine's wall clock, which the API server, the drivers and our processes
share; nothing here is good for machines of different clocks.
"""
