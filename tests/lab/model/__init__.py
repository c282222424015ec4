"""The lifecycle of records as a model, searched to its last state.

`python -m tests.lab.model` runs it; `follow` asks it whether a real run is one of its own.
"""
