"""Counting work and showing how fast it goes, while it goes and in the end.

Bytes are those of keys and values, and a megabyte is a million of them.  The rates are those of
this command and the broker together: a small client in Python is seldom faster than its broker.
"""

import time
from collections.abc import Callable
from typing import Final

from ottla.cli.output import Output
from ottla.cli.progress import LiveLine

TOPIC: Final = "ottla-bench"
_SHOW_EVERY_S: Final = 0.2


class Meter:
    """Counts records and bytes, and shows the rates of the last moment."""

    def __init__(
        self, what: str, line: LiveLine, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what = what
        self._line = line
        self._clock = clock
        self._started = self._shown = clock()
        self._shown_count = self._shown_bytes = 0
        self.record_count = 0
        self.size_bytes = 0

    def count(self, record_count: int, size_bytes: int) -> None:
        """Note that so much more is done."""
        self.record_count += record_count
        self.size_bytes += size_bytes
        elapsed = self._clock() - self._shown
        if elapsed >= _SHOW_EVERY_S:
            rate = (self.record_count - self._shown_count) / elapsed
            megabytes = (self.size_bytes - self._shown_bytes) / elapsed / 1e6
            self._line.show(
                f"{self._what}: {self.record_count:,} records · "
                f"{rate:,.0f} records/s · {megabytes:,.1f} MB/s"
            )
            self._shown += elapsed
            self._shown_count, self._shown_bytes = self.record_count, self.size_bytes

    def tell(self, output: Output) -> None:
        """Print the result."""
        seconds = max(self._clock() - self._started, 1e-9)
        output.rows(
            ("what", "records", "seconds", "records_per_s", "mb_per_s"),
            [
                (
                    self._what,
                    self.record_count,
                    round(seconds, 3),
                    round(self.record_count / seconds),
                    round(self.size_bytes / seconds / 1e6, 1),
                )
            ],
        )
