"""Bytes to values and back: what the API server and the drivers send and are sent."""
