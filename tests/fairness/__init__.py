"""Tenants side by side: what one has that hangs, or is many, delays nobody else.

Whole processes in virtual time, with all their workers, over an API server in memory:
`objects` makes what tenants have, `world` runs it, `crowds` fills a namespace with
objects that hang, `acts` times what the calm tenant does.
"""
