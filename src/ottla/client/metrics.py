"""What a client counts about itself.

Plain numbers under Kafka's names.  The I/O thread writes them, any thread may read a copy.
"""

from collections import defaultdict
from typing import Final

_LATENCY: Final = "request-latency"


class Metrics:
    """Counters (`-total`), gauges and latencies of one client."""

    def __init__(self) -> None:
        self._values: defaultdict[str, float] = defaultdict(int)
        self._latency_sum_ms = 0.0
        self._latency_max_ms = 0.0
        self._latency_count = 0

    def count(self, name: str, by: float = 1) -> None:
        """Add to a counter; it begins at 0."""
        self._values[name] += by

    def set(self, name: str, value: float) -> None:
        """Tell how much of something there is now."""
        self._values[name] = value

    def batched(self, size_bytes: int) -> None:
        """A batch was made ready to be sent."""
        values = self._values
        values["batch-total"] += 1
        values["byte-total"] += size_bytes

    def asked(self, size_bytes: int) -> None:
        """A request was sent."""
        values = self._values
        values["request-total"] += 1
        values["outgoing-byte-total"] += size_bytes

    def answered(self, latency_ms: float) -> None:
        """A request was answered after so long."""
        self._values["response-total"] += 1
        self._latency_count += 1
        self._latency_sum_ms += latency_ms
        if latency_ms > self._latency_max_ms:
            self._latency_max_ms = latency_ms

    def snapshot(self) -> dict[str, float]:
        """Name -> value, of everything that happened or was told."""
        values = dict(self._values)
        if self._latency_count:
            values[f"{_LATENCY}-avg"] = self._latency_sum_ms / self._latency_count
            values[f"{_LATENCY}-max"] = self._latency_max_ms
        return dict(sorted(values.items()))
