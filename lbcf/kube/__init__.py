"""All that talks to the API server; nothing else of the project does.

Below it is the network, above it the reconcilers. What comes in: `connection` finds
the server and the credentials, `transport` sends one of `requests`, `client` has the verbs,
`informer` follows a collection into a `store` that decisions are made from. What goes out: the
compare-and-swap writes of `client`, the leader's Lease (`leader_election`), the locks on
addresses (`address_locks`), the Events for people (`events`). Whatever fails is told in the tree of `errors`.
"""
