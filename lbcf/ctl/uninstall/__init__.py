"""Takes lbcf out of a cluster so that nothing is stuck.

    kubectl lbcf uninstall drain     # load balancers let go of everything first
    kubectl lbcf uninstall retain    # load balancers keep what they have

`drain` deletes what people wrote (LoadBalancerClasses, Binds, BackendGroups, LoadBalancers,
drivers) while our processes run, and waits until they have drained, deregistered and let go of
everything. Services of type LoadBalancer are let go of, and stay.
`retain` stops the processes, then takes our finalizers off, so that no driver is called.
After either, Deployments, roles, policies, CRDs and namespaces go, found by their label. But
`retain` leaves Envoys, which would stop serving, with the driver that they start anew from, and
each namespace of ours where something runs; `drain` takes them away later.

It needs `kubectl` and Python 3.11, nothing else (`python3 -m lbcf.ctl.uninstall` from the
repository), and can be ended and run again anywhere.
`kubectl` reads and writes; `waiting` says what is waited for; `drain` and `retain` are the
two ways; `removal` takes away what was installed.
"""
