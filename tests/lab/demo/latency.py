"""Latencies of many requests in little memory: a count for each rounded value."""

from collections import Counter


class Latencies:
    """Percentiles of latencies, in milliseconds.

    Values are kept to 0.1 ms below 100 ms and to 1 ms above.
    """

    def __init__(self) -> None:
        self._counts: Counter[float] = Counter()
        self._total = 0

    def add(self, seconds: float) -> None:
        """Count one request's latency."""
        ms = seconds * 1000
        self._counts[round(ms, 1 if ms < 100 else 0)] += 1
        self._total += 1

    def percentile(self, share: float) -> float:
        """The latency in ms that `share` (0 to 1) of the requests did not exceed.

        0 where nothing was counted.
        """
        need = share * self._total
        seen = 0
        for ms in sorted(self._counts):
            seen += self._counts[ms]
            if seen >= need:
                return ms
        return 0.0
