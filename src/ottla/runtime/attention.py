"""An event loop that looks for the next event a while before it sleeps.

A processor that has nothing to do goes to sleep, and on a virtual machine it is the host that wakes
it up: that takes longer than a small request takes us, and longest of all when the host is busy.
Where a client waits for its answer before it asks again, each request would pay for that.  So the
selector here asks the kernel again and again for a moment, if it may expect something that soon.
"""

import asyncio
import os
import selectors
import time
from typing import Final

_COURSES: Final = 4
"""Of two waits, each short or long."""

_LIKELY: Final = 2
_CERTAIN: Final = 3
"""What is certain is still likely after one surprise."""

Ready = list[tuple[selectors.SelectorKey, int]]


class Expectation:
    """Whether the next wait will be a short one.

    It will be what it was the last times, after two waits like the last two: so do processors guess
    where branches go.  A broker at rest has long waits alone.  One whose waits for a request
    alternate with longer ones for its disk tells them apart.  What was so for long is still
    expected after one surprise: we do not sleep, with a request on its way, because one was late.
    """

    def __init__(self) -> None:
        self._course = 0
        """The last two waits, a bit for each: set for a short one."""
        self._trust = [0] * _COURSES
        """How much speaks for a short wait after each course: 0 to `_CERTAIN`."""

    @property
    def is_short(self) -> bool:
        return self._trust[self._course] >= _LIKELY

    def learn(self, is_short: bool) -> None:
        """Take note of what kind of wait it was."""
        trust = self._trust[self._course]
        self._trust[self._course] = min(trust + 1, _CERTAIN) if is_short else max(trust - 1, 0)
        self._course = (self._course << 1 | is_short) % _COURSES


class AttentiveSelector(selectors.DefaultSelector):
    """Looks for up to `attention_s` before it sleeps, where a wait is likely to be that short."""

    def __init__(self, attention_s: float) -> None:
        super().__init__()
        self._attention_s = attention_s
        self._expectation = Expectation()
        self._must_sleep = False
        self.errand_count = 0
        """What threads of ours do, for which the loop waits."""

    def sleep_next(self) -> None:
        """Do not look in the next wait that is for a client.

        Where much comes at a time, who looks gets it in small pieces, and takes a processor from
        those who send it.
        """
        self._must_sleep = True

    def select(self, timeout: float | None = None) -> Ready:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)  # there is something else to do: this is no wait
        if self.errand_count:
            return super().select(timeout)  # a thread needs the processor, and will wake us up
        if self._must_sleep:
            self._must_sleep = False
            return super().select(timeout)
        began_s = time.monotonic()
        ready: Ready = []
        if self._expectation.is_short:
            ready, timeout = self._look(began_s, timeout)
        if not ready:
            ready = super().select(timeout)
        self._expectation.learn(time.monotonic() - began_s < self._attention_s)
        return ready

    def _look(self, began_s: float, timeout: float | None) -> tuple[Ready, float | None]:
        """What was found without sleeping, and what is left of the timeout."""
        patience_s = self._attention_s if timeout is None else min(self._attention_s, timeout)
        waited_s = 0.0
        ready: Ready = []
        while not ready and waited_s < patience_s:
            os.sched_yield()  # it may be the client that waits for our processor
            ready = super().select(0)
            waited_s = time.monotonic() - began_s
        return ready, None if timeout is None else max(timeout - waited_s, 0)


class AttentiveLoop(asyncio.SelectorEventLoop):
    """A loop on such a selector."""

    def __init__(self, attention_s: float) -> None:
        self.attention = AttentiveSelector(attention_s)
        super().__init__(self.attention)


def attentive_loop(attention_us: int) -> asyncio.AbstractEventLoop:
    """A loop that looks around for so many microseconds before it sleeps; a usual one for 0.

    Where there is one processor only, whoever is to send something needs it.
    """
    if attention_us and processor_count() > 1:
        return AttentiveLoop(attention_us / 1e6)
    return asyncio.new_event_loop()


def processor_count() -> int:
    """How many we may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
