"""LBCF's drivers and LBCF's YAML, unmodified, on the real API server.

`plain` is a driver that knows only LBCF's wire protocol; the processes are those that
users run (`tests.e2e.stage`).
"""
