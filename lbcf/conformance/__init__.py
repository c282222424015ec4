"""Finds out over real HTTP whether a driver keeps to the driver protocol.

    command, pytest_plugin     flags in, a report out
    kit                        runs the rules of the catalogue, one after the other
    members, draining, ...     the rules, each a small function
    bench                      what a rule does with the driver
    line                       HTTP, every exchange kept

Neither Kubernetes nor the controller is needed: only the driver and its load balancer.
`load` measures what the driver bears, `openapi` writes the contract down.
"""
