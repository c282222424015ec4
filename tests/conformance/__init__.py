"""Tests of the kit: it passes drivers that keep to the protocol, and names each break."""
