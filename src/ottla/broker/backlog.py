"""Requests of one connection that are whole, and not served yet.

They found no room for their answers, or they let others go first (`precedence`).  Where they were
read, others are read into soon: so each is a copy, or has its buffer for itself.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

Frame = memoryview | bytearray
Release = Callable[[], None]


class Kept(NamedTuple):
    """One that waits."""

    frame: Frame
    release: Release | None = None
    """To be called when nobody needs the frame any more; None where that is nobody's business."""
    has_stepped_back: bool = False
    """Whether it lets others go first."""


class Backlog(deque[Kept]):
    """In the order in which they came."""

    __slots__ = ("_release",)

    def __init__(self) -> None:
        super().__init__()
        self._release: Release | None = None

    @property
    def is_polite(self) -> bool:
        """Whether the first one waits for others alone."""
        return len(self) > 0 and self[0].has_stepped_back

    def serve_next(self, serve: Callable[[Frame], None]) -> None:
        """Serve the first one, and let go of its buffer, unless somebody holds that by then."""
        frame, self._release, _ = self.popleft()
        try:
            serve(frame)
        finally:
            if (release := self.hold()) is not None:
                release()

    def hold(self) -> Release | None:
        """Keep the frame that is served until the function is called; None if that cannot be."""
        release, self._release = self._release, None
        return release
