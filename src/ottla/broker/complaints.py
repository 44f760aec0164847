"""Lines in the log about clients that misbehave: enough to see why, never as many as they like.

A port scanner or a broken client can make thousands of them a second.  After the first ones in a
minute they are only counted, and their number is the first line of the next one.
"""

import logging
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

MAX_LINES: Final = 100
INTERVAL_S: Final = 60.0


class Complaints:
    """A logger with a limit for all sessions of a broker together."""

    def __init__(self, time: Callable[[], float]) -> None:
        """`time` is that of the loop, in seconds."""
        self._time = time
        self._since = time()
        self._line_count = 0
        self._left_out_count = 0

    def add(self, what: str, peer: tuple[str, int], reason: object) -> None:
        """Log one line, or count it."""
        now = self._time()
        if now - self._since >= INTERVAL_S:
            if self._left_out_count:
                log.warning("more of the like were left out: count=%d", self._left_out_count)
            self._since, self._line_count, self._left_out_count = now, 0, 0
        if self._line_count >= MAX_LINES:
            self._left_out_count += 1
            return
        self._line_count += 1
        log.warning("%s: peer=%s:%s reason=%s", what, *peer, reason)
