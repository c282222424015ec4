"""How soon somebody goes on where a leader was killed, or its node lost its power.

    python -m tests.lab.failover

A real API server with 2,000 records, and our processes as in pods: in a PID namespace each,
with a service account, killed by SIGKILL, or stopped for good in the place of a power-off.
Just then a pod is deleted; what counts is when the driver is first called for it.
"""
