"""Calls of the drivers: over HTTP, within limits, and never believing too much."""
