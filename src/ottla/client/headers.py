"""Headers of a record: pairs of a name and bytes, in order, names may repeat.

Order and duplicates are kept, as on the wire.  `Headers` never changes, so records may share one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, overload

HeadersLike: TypeAlias = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]
"""What can be sent as headers; text travels as UTF-8, and None is null."""

Pair: TypeAlias = tuple[str, bytes | None]


class Headers(Sequence[Pair]):
    """The headers of one record."""

    __slots__ = ("_pairs",)

    def __init__(self, items: HeadersLike = ()) -> None:
        if isinstance(items, Headers):
            self._pairs: tuple[Pair, ...] = items._pairs
        else:
            self._pairs = header_pairs(items)

    @classmethod
    def of_pairs(cls, pairs: tuple[Pair, ...]) -> "Headers":
        """Headers of pairs that are known to be right, as they came from the wire."""
        made = cls.__new__(cls)
        made._pairs = pairs
        return made

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All of them, as a plain tuple."""
        return self._pairs

    def get(self, key: str, default: bytes | None = None) -> bytes | None:
        """The last value under this name."""
        for name, value in reversed(self._pairs):
            if name == key:
                return value
        return default

    def get_all(self, key: str) -> list[bytes | None]:
        """Every value under this name, in order."""
        return [value for name, value in self._pairs if name == key]

    def plus(self, key: str, value: str | bytes | None) -> "Headers":
        """These headers and one more at the end."""
        return Headers.of_pairs((*self._pairs, *header_pairs(((key, value),))))

    @overload
    def __getitem__(self, index: int) -> Pair: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Pair, ...]: ...

    def __getitem__(self, index: int | slice) -> Pair | tuple[Pair, ...]:
        return self._pairs[index]

    def __len__(self) -> int:
        return len(self._pairs)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self._pairs == other._pairs

    def __hash__(self) -> int:
        return hash(self._pairs)

    def __repr__(self) -> str:
        return f"Headers({list(self._pairs)!r})"

    def __reduce__(self) -> tuple[Any, tuple[tuple[Pair, ...]]]:
        return Headers.of_pairs, (self._pairs,)


NO_HEADERS = Headers.of_pairs(())


def header_pairs(items: HeadersLike) -> tuple[Pair, ...]:
    """`items` as the wire wants them.

    Raises:
        TypeError: A name is not str, or a value is not str, bytes or None.
    """
    pairs = items.items() if isinstance(items, Mapping) else items
    return tuple(_pair(name, value) for name, value in pairs)


def _pair(name: object, value: object) -> Pair:
    if not isinstance(name, str):
        raise TypeError(f"the name of a header must be str, not {type(name).__name__}")
    if isinstance(value, str):
        return name, value.encode()
    if value is None or isinstance(value, bytes):
        return name, value
    if isinstance(value, bytearray | memoryview):
        return name, bytes(value)
    raise TypeError(f"header {name!r} must be bytes, str or None, not {type(value).__name__}")
