"""Kills of the Envoy driver under load: what they cost.

    python -m tests.lab.driver_kills --kills 50 --members 8

A real Envoy, real web servers behind it. The driver is a process of its own, killed with
SIGKILL at moments that wander, while a member comes and goes; it is started again with
the state that it has left. Exit code 1: a request failed, or a member was lost.
"""
