"""Pauses that grow: how long to wait before the next attempt.

Pure: whoever asks brings the luck, a random number in [0, 1), so that clients which failed together
do not come back together.
"""

from typing import Final

from ottla.values import dataclass

JITTER: Final = 0.2
_MAX_DOUBLINGS: Final = 32


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubles from `initial_ms` to `max_ms`, give or take a fifth."""

    initial_ms: int
    max_ms: int

    def delay_ms(self, failure_count: int, luck: float) -> int:
        """The pause after this many failures in a row; after none there is none."""
        if failure_count <= 0:
            return 0
        doublings = min(failure_count - 1, _MAX_DOUBLINGS)
        # Whoever asked for a long first pause gets it, even beyond the longest.
        longest_ms = max(self.initial_ms, self.max_ms)
        middle_ms = min(self.initial_ms << doublings, longest_ms)
        return round(min(middle_ms * (1 - JITTER + 2 * JITTER * luck), longest_ms))
