"""Tests of queues, limits, workers, clocks, probes and logs: in virtual time, or on real sockets."""
