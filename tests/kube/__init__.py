"""Tests of the client of the API server, on real sockets, with everything that can go wrong there."""
