"""Clients and servers of other people, too heavy for every run: `make interop`.

They come from PyPI and the Go module proxy, and run as programs where what they import
and warn of is theirs. Both sides must see the same.
"""
