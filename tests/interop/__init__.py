"""Clients and servers of other people, too heavy for every run: `make interop`.

They run as programs where what they import and warn of is theirs. Both sides must see the
same.
"""
