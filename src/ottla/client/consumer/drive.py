"""How a blocking face runs what is written as coroutines: to the end, without an event loop."""

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def drive(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never really waits: one of a `BlockingCaller`."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise AssertionError("a coroutine of a blocking caller waited")
