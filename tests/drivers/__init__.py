"""Tests of calls of drivers, on real sockets, with everything that can go wrong there."""
