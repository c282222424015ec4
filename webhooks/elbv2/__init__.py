"""The driver for AWS ELBv2: members are targets of target groups, with their port.

    request -> driver -> load_balancers: which target groups
                 |         targets, parameters: what the member is to be
                 `-> group (one target group) <-> claims: what is ours
                      decisions: what to do next
                      changes: up to 100 targets per call   |
                      readings: one poll for all who wait   '-> regions, client <-> AWS
                      budget: whose turn a listing is            errors, pace

A target is known by its id and port; there is nothing on it that could say whose it is.
So what this driver puts into a target group is written down before it is sent
(`claims`), and only what is written down there, or what the record itself brings back
as proof of an earlier success, is ever taken out.

AWS drains by itself: `DeregisterTargets` begins it, the target group's deregistration
delay ends it, and until then the target is `draining`. How many connections are left
is not told.
"""
