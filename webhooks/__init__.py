"""Drivers that ship: each a small service on `lbcf.sdk` alone, an example to copy."""
