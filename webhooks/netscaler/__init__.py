"""The driver for Citrix ADC (NetScaler): members of service groups, over NITRO.

    request -> driver -> load_balancers: which appliances, which service group
                 |         parameters, members: what the member is to be, and whose
                 `-> group (one service group) <-> view: what it is like now
                      |                             pair: the unit that is primary
                      decisions: what to change next |    nitro: sessions and refusals
                      changes: the call that does it '    replies: what it answered
                      ledger: what is on the appliance's disk

No progress is stored: each step asks who is primary, reads the group there, makes at
most one change, and reads again. So the driver may die anywhere, and so may the
appliance, and the next step starts from what is true.

A member of a service group is a server object and a port. It has no owner, but one
field that is free unless a virtual server's persistence uses it, `customserverid`:
members of ours have our prefix and the record's id in it, and no change can be composed
for a member that was read without it.
"""
