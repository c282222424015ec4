"""Reloads of a real HAProxy under requests: how soon its members are back.

    python -m tests.lab.reload --reloads 20 --rate 300 --members 8

HAProxy has the configuration of docs/haproxy.md under which requests wait for members;
`--plain` takes the one under which they fail. The driver is a process of its own, and
nobody calls it after the members were registered.
"""
