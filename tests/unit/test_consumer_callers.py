"""How a thread that waits for records is woken."""

import sys
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from ottla.client.consumer.callers import BlockingCaller


@pytest.mark.parametrize("line_number", range(1, 6))
def test_who_is_interrupted_while_he_rings_leaves_a_bell_that_can_be_heard(
    line_number: int,
) -> None:
    def interrupt(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal line_number
        if frame.f_code is BlockingCaller.ring.__code__ and event == "line":
            line_number -= 1
            if line_number == 0:
                raise KeyboardInterrupt
        return interrupt

    caller = BlockingCaller(None)  # type: ignore[arg-type]
    sys.settrace(interrupt)
    with suppress(KeyboardInterrupt):
        caller.ring()
    sys.settrace(None)
    caller.ring()
    assert not caller._bell.empty()
