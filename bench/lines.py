"""How many lines of our own Python a piece of work runs: a figure that no busy machine changes.

It is the same in each run, and nearly the same on each Python, so that a path which runs a fifth
more lines than it did stands out, where its CPU time would not.  What happens inside of a line, in
compiled code or in the kernel, is not seen: that is what CPU time is for.
"""

import sys
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import ottla

FOLDER = str(Path(ottla.__file__).parent)


class Lines:
    """Counts the lines of modules of a folder that run in this thread, as long as its block runs.

    What was being run when the block began does not count, but all that is called, or goes on
    after an `await`, does.
    """

    def __init__(self, folder: str = FOLDER) -> None:
        self._folder = folder
        self._before: Any = None
        self.count = 0

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._entered)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.settrace(self._before)

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._inside if frame.f_code.co_filename.startswith(self._folder) else None

    def _inside(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.count += 1
        return self._inside
