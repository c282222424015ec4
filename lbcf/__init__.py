"""A finalizer-driven reconciler of load-balancer backends for Kubernetes.

What goes where:

    pods, groups, load balancers, drivers
      -> kube.informer (list + watch) -> kube.store (only the fields that decide)
    controller     triggers -> queue -> snapshot -> core.selection (desired, plan,
                   guards) -> apply                                 BackendRecords
                   registrar: core.lifecycle.registration <-> executor  Registered
    deregistrar    core.lifecycle.deregistration <-> executor   Drained, finalizer off
    drivers        sdk <- webhooks/haproxy, webhooks/memory, anybody's

`core` decides and does no I/O, `wire` turns JSON into values, `executor` carries out
steps, `kube` and `drivers` talk to the API server and to the webhook services,
`controller` and `deregistrar` are the two processes; they meet in the cluster alone.
"""

__version__ = "0.1.0"
