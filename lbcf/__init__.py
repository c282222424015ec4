"""A finalizer-driven reconciler of load-balancer backends for Kubernetes.

What goes where:

    pods, groups, load balancers, drivers
      -> kube.informer (list + watch) -> kube.store (only the fields that decide)
    controller     triggers -> queue -> snapshot -> core.selection (desired, plan,
                   guards) -> apply                                 BackendRecords
                   registrar: core.lifecycle.registration <-> executor  Registered
    deregistrar    core.lifecycle.deregistration <-> executor   Drained, finalizer off
    drivers        sdk <- webhooks/haproxy, webhooks/f5, ..., anybody's

`core` decides and does no I/O, `wire` turns JSON into values, `executor` carries out
steps, `kube` and `drivers` talk to the API server and to the webhook services,
`controller` and `deregistrar` are the two processes that act; they meet in the API server
alone. `admission` is a third one, which answers the API server before objects are stored,
and `ctl` shows people what the controller decides.
"""

__version__ = "0.1.0"
