"""Faults on a real API server: processes that die, hang, are paused or run twice.

`plans` samples a fault from a seed, `scenario` lives through a few pods' lives with it,
`gateway` stands between our processes and the API server, `witness` is the driver that
remembers everything, `oracle` judges what both have seen. `make faults` runs many.
"""
