"""A soak: real traffic through a real HAProxy, while everything else is broken.

    pods  <-- turmoil (rollouts, address reuse, flaps, parameters, reloads)
    controller, deregistrar, driver  <-- killer, about every second
    HAProxy <-- traffic            auditor --> members against records, all the time

The control plane is real, kubelets are not: `pods` writes what they would write, and
keeps the web server of a pod that was told to end for a grace period, as a preStop hook
does. Then the server is gone: a request that is still sent to it fails.
"""
