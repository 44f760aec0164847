"""Ctrl-C at every moment of a call: it ends the call, and nothing else is heard of it.

A signal strikes between any two lines of ours and of asyncio's.  So a trace function sends one at
the first line that a call runs, at the second, and so on, until a call comes to its end before.
"""

import signal
import sys
import warnings
from types import FrameType, TracebackType
from typing import Any, Self

import pytest

from ottla.broker.embedded import Broker
from ottla.client.basic.client import BasicClient

MOST_LINES = 3_000
"""More than a call has: one that never comes to its end fails the test."""


class InterruptAt:
    """Sends SIGINT to this process when the n-th line has been reached."""

    def __init__(self, line_number: int) -> None:
        self._lines_left = line_number
        self._place = "nowhere"

    def __enter__(self) -> Self:
        sys.settrace(self._trace)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.settrace(None)

    def __str__(self) -> str:
        return self._place

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is InterruptAt.__exit__.__code__:
            return None
        if event == "line":
            self._lines_left -= 1
            if self._lines_left == 0:
                self._place = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return self._trace


def test_an_interrupt_at_any_line_of_a_call_ends_it_and_leaves_nothing_behind(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    for line_number in range(1, MOST_LINES):
        interrupt = InterruptAt(line_number)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            was_interrupted = is_interrupted(broker, interrupt)
        heard = [str(warning.message) for warning in warned] + caplog.messages
        assert heard == [], f"interrupted at {interrupt}"
        if not was_interrupted:
            assert line_number > 100, "so short cannot a call be"
            return
    pytest.fail("the call never came to its end")


def is_interrupted(broker: Broker, interrupt: InterruptAt) -> bool:
    """Whether a call was interrupted before it was over."""
    with BasicClient(broker.bootstrap_servers) as client:
        client.metadata(())
        try:
            with interrupt:
                client.metadata(())
        except KeyboardInterrupt:
            return True
        return False
