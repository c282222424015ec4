"""The driver for F5 BIG-IP: members of pools over iControl REST.

    request -> driver -> load_balancers: which units, which of them is active
                 |         parameters, members: what the member is to be
                 `-> pool (one pool of one unit) <-> icontrol <-> session <-> the unit
                      decisions: what to change next  |    tokens: who we are to it
                      finding: what is at an address  `    errors: what it refused
                      names: paths and what is ours

No progress is stored: each step reads the member, makes at most one change, and reads
again. So it may die anywhere, and starts from what the unit says.

What is ours carries our mark in its `description`, with the id of its record; nothing
else is ever changed. BIG-IP knows members by their node and port, and refuses a second
node with the same address: two records cannot hold one address side by side, hence
`memberKey: Address`.
"""
