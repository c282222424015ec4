"""Clients of BIG-IP, each a program: `CLIENT PORT USER PASSWORD see|live|watch ...`.

`see POOL` prints the members as the client reads them: name to session, state,
description and connections. `live POOL ADDRESS PORT` has a member's whole life, and
prints what was seen on the way. `watch POOL` prints the members for each line that it
reads.
"""
