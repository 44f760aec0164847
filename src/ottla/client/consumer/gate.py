"""One caller at a time: a second one that comes while the first is inside gets `MisuseError`.

Listeners are called inside, and may enter again.  A forked process may not enter at all: it has no
I/O thread that would ever bring something.
"""

import threading
from collections.abc import Callable

from ottla.errors import MisuseError


class Gate:
    """Whoever is in a `with` block of it is inside.  Safe from any thread."""

    def __init__(self, who: Callable[[], object]) -> None:
        """`who` is who calls now: a thread, or a task."""
        self._who = who
        self._lock = threading.RLock()
        self._owner: object = None
        self._depth = 0
        self.check_home: Callable[[], None] = lambda: None
        """Raises in a process that was forked from the one it belongs to."""
        self.was_forked = False
        """Whether this is a child of the process that made it: then it may belong to that."""

    def __enter__(self) -> None:
        if self.was_forked:
            self.check_home()
        me = self._who()
        with self._lock:
            if self._owner not in (None, me):
                raise MisuseError(
                    "a consumer serves one thread or task at a time, and another is inside now; "
                    "only stop() may be called from anywhere"
                )
            self._owner = me
            self._depth += 1

    def __exit__(self, *error: object) -> None:
        # Only who is inside comes here, so it needs no lock: taking one could be interrupted.
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
