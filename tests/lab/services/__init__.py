"""Many Services of type LoadBalancer at once: made, rolled, deleted, and what that cost.

    python -m tests.lab.services --services 500 --kills 3

A real API server, the controller, the deregistrar and the driver in memory; no nodes: pods
are objects whose status is written here. Each Service has one address of a pool. The
controller is killed three times while they are made, while all pods are replaced, and while
the Services are deleted. `verdict` says what that may cost; all addresses are watched.
"""
