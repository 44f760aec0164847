"""Who is told of a transaction: shared by the stores that live in one process."""

from collections.abc import Callable, Sequence

from ottla.cluster.store.interface import Events, Operation, Put, Unchanged


class _Watcher:
    """Equal to itself alone: who watches twice is told twice."""

    __slots__ = ("on_events", "prefix")

    def __init__(self, prefix: str, on_events: Callable[[Events], None]) -> None:
        self.prefix = prefix
        self.on_events = on_events


class Watchers:
    def __init__(self) -> None:
        self._watchers: list[_Watcher] = []

    def add(self, prefix: str, on_events: Callable[[Events], None]) -> Callable[[], None]:
        watcher = _Watcher(prefix, on_events)
        self._watchers.append(watcher)

        def cancel() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return cancel

    def tell(self, revision: int, operations: Sequence[Operation]) -> None:
        """Report what a transaction did, to those whose prefix it touched."""
        for watcher in list(self._watchers):
            seen = tuple(op for op in operations if op.key.startswith(watcher.prefix))
            if seen:
                watcher.on_events(Events(revision, seen))


def check_shape(checks: Sequence[Unchanged], operations: Sequence[Operation]) -> None:
    """A transaction may look at a key once, and write it once."""
    for keys in ([check.key for check in checks], [op.key for op in operations]):
        assert len(set(keys)) == len(keys), f"a key occurs twice: {sorted(keys)}"


def leases_of(operations: Sequence[Operation]) -> set[int]:
    """The leases that operations put keys under."""
    return {op.lease_id for op in operations if isinstance(op, Put) and op.lease_id is not None}
