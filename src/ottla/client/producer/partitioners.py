"""Which partition a record goes to.

Pure: random numbers come from whoever asks.  Records with a key are decided by the key alone, so
the answer never changes while the topic has as many partitions; those without stay on one partition
for as many bytes as make a batch, and move on (KIP-794).
"""

import zlib
from collections.abc import Callable, Sequence
from typing import Final

from ottla.client.producer.lines import Line
from ottla.records.murmur2 import murmur2 as signed_murmur2

KeyHash = Callable[[bytes], int]
"""Key -> a number that is not negative."""

LEAST_BYTES: Final = 16 * 1024
"""How much goes to one line, at least, if batches leave before they are full."""

_POSITIVE: Final = 0x7FFF_FFFF


def murmur2(key: bytes) -> int:
    """The hash by which Kafka's Java producer finds the partition of a key, without its sign.

    `murmur2(key) % partition_count` is the partition.
    """
    return signed_murmur2(key) & _POSITIVE


def crc32(key: bytes) -> int:
    """The hash by which librdkafka finds the partition of a key."""
    return zlib.crc32(key)


def key_hash_of(partitioner: object, *, ignores_keys: bool) -> KeyHash | None:
    """How keys decide, of a named partitioner; None if they do not."""
    if ignores_keys:
        return None
    return {"murmur2": murmur2, "consistent_random": crc32}.get(str(partitioner))


class Sticky:
    """Where records without a key go: to one line until its batch is full, then to another.

    A batch that left before it was full does not count, until `LEAST_BYTES` went to the line, or
    as much as fills a batch: so few records share few requests, and many are spread evenly.
    """

    __slots__ = ("_adapts", "_is_stuck", "_lines", "_luck", "_since_bytes", "current")

    def __init__(
        self,
        lines: Sequence[Line],
        luck: Callable[[], float],
        *,
        adapts: bool = True,
        is_stuck: Callable[[Line], bool] | None = None,
    ) -> None:
        """`lines` are those that may be chosen; with `adapts`, long ones are chosen less.

        Those that `is_stuck` are not chosen at all, while there are others.
        """
        assert lines
        self._lines = lines
        self._luck = luck
        self._adapts = adapts
        self._is_stuck = is_stuck
        self.current = self._drawn()
        self._since_bytes = self.current.departed_bytes

    def line_for(self, size_bytes: int) -> Line:
        """The line for a record, or for several that stay together."""
        line = self.current
        batch = line.open
        if batch is None:
            enough_bytes = min(LEAST_BYTES, line.limit_bytes)
            has_enough = line.departed_bytes - self._since_bytes >= enough_bytes
        else:
            has_enough = not batch.has_room_for(size_bytes)
        return self.another() if has_enough else line

    def another(self) -> Line:
        """Move on now."""
        if self.current.open is not None:
            # Who knows its batch would go on with it, past us, as far as that was granted memory.
            self.current.open.writer.allow(0)
        self.current = self._drawn()
        self._since_bytes = self.current.departed_bytes
        return self.current

    def moved(self, lines: Sequence[Line]) -> None:
        """Other lines may be chosen from now on."""
        self._lines = lines
        if self.current not in lines:
            self.another()

    def _drawn(self) -> Line:
        lines = self._lines
        if self._is_stuck is not None:
            lines = [line for line in lines if not self._is_stuck(line)] or lines
        if len(lines) == 1:
            return lines[0]
        if not self._adapts:
            return lines[int(self._luck() * len(lines))]
        longest = max(len(line.queue) for line in lines)
        weights = [longest + 1 - len(line.queue) for line in lines]
        point = self._luck() * sum(weights)
        for line, weight in zip(lines, weights, strict=True):
            point -= weight
            if point < 0:
                return line
        return lines[-1]


class RoundRobin:
    """One partition after the other, whatever the key."""

    def __init__(self) -> None:
        self._next = 0

    def line_of(self, lines: Sequence[Line]) -> Line:
        """The next of `lines`."""
        self._next += 1
        return lines[(self._next - 1) % len(lines)]
