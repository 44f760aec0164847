"""The real clock."""

import time


class SystemClock:
    """The machine's wall clock.  It may jump, also backwards: deadlines belong to the loop."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
