"""Finds out over real HTTP whether a driver keeps to the driver protocol.

`command` and `pytest_plugin` read flags into a `target`; `kit` runs the rules one after
the other; `report` writes how they ended. The rules are small functions in
`load_balancers`, `backends`, `messages` and `concurrency`, each with a `bench` of its own.

Neither Kubernetes nor the controller is needed: only the driver and its load balancer.
`load` measures how many lifecycles at a time a driver can serve, `openapi` writes the
contract down.
"""
