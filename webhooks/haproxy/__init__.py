"""The driver for HAProxy: members are added and taken out over the runtime API.

    request -> driver -> load_balancers: which HAProxys, which backend
                 |         parameters, members: what the member is to be
                 `-> pool (one backend of one HAProxy) <-> runtime_api <-> connection
                      decisions: what to change next  |     replies: what it answered
                      commands: the line that does it '     errors: what it refused

    restoring: puts back what a reload has lost, from `memory`

No progress is stored: each step reads the state, makes at most one change, and reads
again. So it may die anywhere, and starts from what HAProxy says.

HAProxy has no owner for a server. The name is all there is: ours begin with a prefix,
and no command about any other name can be composed.

What HAProxy (2.6 or newer) needs for it, in its `global` section:

    stats socket /run/haproxy/admin.sock mode 660 level admin
    stats maxconn 50        # 10 slots by default, for all who look in
    stats timeout 30s

and a backend whose `balance` is roundrobin, leastconn, first or random, or that has
`hash-type consistent`. Its `default-server` does not reach members added at run time.
For backends that take none there are slots: `slots`, `slot_pool`, `slot_driver`.
"""
