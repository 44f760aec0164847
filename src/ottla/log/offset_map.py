"""The newest offset of each key, in a fixed number of bytes.

Compaction must not take more memory than it was given, whatever the keys are.  So a key is kept as
16 bytes of its BLAKE2b hash, as Kafka keeps 16 bytes of MD5: two keys that share all of them would
be taken for one, which is not to be expected, and cannot be arranged by whoever chooses the keys.
The table has a fixed size and open addressing; a full one says so, and compaction takes another
pass for the rest.
"""

from math import isqrt
from struct import Struct
from typing import Final

from ottla.records.blake2 import blake2b

ENTRY_BYTES: Final = 24
"""The hash of a key, and an offset."""

_HASH: Final = Struct("QQ")
_LEAST_SLOT_COUNT: Final = 3


class OffsetMap:
    """Key -> the largest offset that was put in for it."""

    __slots__ = ("_capacity", "_count", "_firsts", "_offsets", "_seconds", "_slot_count")

    def __init__(self, max_bytes: int, *, max_keys: int, load_factor: float) -> None:
        """A map for up to `max_keys` keys, or as many as fit into `max_bytes`."""
        self._slot_count = _slot_count(max_bytes, int(max_keys / load_factor) + 2)
        self._capacity = max(1, min(int(self._slot_count * load_factor), self._slot_count - 1))
        self._count = 0
        column_bytes = 8 * self._slot_count
        self._firsts = memoryview(bytearray(column_bytes)).cast("Q")
        self._seconds = memoryview(bytearray(column_bytes)).cast("Q")
        self._offsets = memoryview(bytearray(column_bytes)).cast("Q")
        """One more than the offset; 0 in a free slot."""

    def __len__(self) -> int:
        return self._count

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * self._slot_count

    def put(self, key: bytes, offset: int) -> bool:
        """Note that `key` was seen at `offset`; False if the map is full, and nothing changed."""
        first, second = _HASH.unpack(blake2b(key, digest_size=_HASH.size).digest())
        slot = self._find(first, second)
        if self._offsets[slot] == 0:
            if self._count == self._capacity:
                return False
            self._count += 1
            self._firsts[slot], self._seconds[slot] = first, second
        self._offsets[slot] = offset + 1
        return True

    def newest(self, key: bytes) -> int:
        """The offset of `key`; -1 if it was never put in."""
        slot = self._find(*_HASH.unpack(blake2b(key, digest_size=_HASH.size).digest()))
        return self._offsets[slot] - 1

    def _find(self, first: int, second: int) -> int:
        """The slot of this hash, or the free one where it belongs.  One slot is always free."""
        slot_count = self._slot_count
        slot, step = first % slot_count, 1 + second % (slot_count - 1)
        offsets = self._offsets
        while offsets[slot] and (self._firsts[slot] != first or self._seconds[slot] != second):
            slot = (slot + step) % slot_count
        return slot


def _slot_count(max_bytes: int, wanted: int) -> int:
    """A prime near the number that is `wanted`: then steps of any width reach every slot."""
    most = max(max_bytes // ENTRY_BYTES, _LEAST_SLOT_COUNT)
    at_least = filter(_is_prime, range(max(wanted, _LEAST_SLOT_COUNT), most + 1))
    at_most = filter(_is_prime, range(most, 1, -1))
    return next(at_least, 0) or next(at_most)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, isqrt(number) + 1))
