"""Many Services of type LoadBalancer at once: made, rolled, deleted, and what that cost.

    python -m tests.lab.services --services 500

A real API server, the controller, the deregistrar and the driver in memory; no nodes: pods
are objects whose status is written here. Each Service has one address of a pool.
"""
