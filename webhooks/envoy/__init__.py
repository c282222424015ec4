"""The driver for Envoy: it is the management server of the Envoys, over xDS v3.

    request -> driver -> balancers: the state, changed as values
                 |         attributes, parameters: what users may say
                 |       store: the state on disk, before any Envoy is told of it
                 `-> fleets: the Envoys that are connected, and what each has taken up
                       resources: a load balancer as listener, cluster and endpoints
                       sessions, subscriptions: what one stream is owed next
                       loads: requests under way at each member, as Envoys report them
                       management: gRPC   messages: protobuf

A fleet is all Envoys with one `node.cluster`. Each of them opens one stream for its
configuration (delta ADS) and one for its load reports (LRS) to the driver; nothing connects
to an Envoy, so no admin port has to be reachable.

What Envoys are told is on disk first, and a version of a resource is a digest of what is
in it. So a driver that starts has all that was sent before it sends anything, and an Envoy
that comes back with the same versions is sent nothing.
"""
