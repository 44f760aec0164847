"""How much memory requests that have only partly arrived may take, all connections together.

Small requests need none of it: they are served from the buffer that all connections share.  Where
the large ones hold more than the limit, their connections are not read from until there is room
again, except the one that began first: so there is always one that can finish.
"""

from typing import Protocol


class Holder(Protocol):
    """A connection that holds the beginning of a request."""

    def wait_for_memory(self) -> None:
        """Read no more until `go_on`."""
        ...

    def go_on(self) -> None: ...


class ReadBudget:
    """Counts what holders hold, and lets them wait for each other."""

    def __init__(self, max_bytes: int) -> None:
        """Without limit if `max_bytes` is not positive."""
        self._max_bytes = max_bytes
        self._held_bytes: dict[Holder, int] = {}
        """In the order in which their requests began."""
        self._waiting: dict[Holder, None] = {}
        self.total_bytes = 0

    def report(self, holder: Holder, held_bytes: int) -> None:
        """`holder` holds so many bytes now."""
        before = self._held_bytes.get(holder, 0)
        if held_bytes == before:
            return
        self.total_bytes += held_bytes - before
        if held_bytes:
            self._held_bytes[holder] = held_bytes
        else:
            self._held_bytes.pop(holder, None)
            self._waiting.pop(holder, None)
        if held_bytes > before:
            self._restrain(holder)
        else:
            self._release()

    def _is_over(self) -> bool:
        return 0 < self._max_bytes < self.total_bytes

    def _restrain(self, holder: Holder) -> None:
        if self._is_over() and holder is not next(iter(self._held_bytes)):
            self._waiting[holder] = None
            holder.wait_for_memory()

    def _release(self) -> None:
        first = next(iter(self._held_bytes), None)
        ready = list(self._waiting) if not self._is_over() else [first]
        for holder in ready:
            if holder is not None and holder in self._waiting:
                del self._waiting[holder]
                holder.go_on()
