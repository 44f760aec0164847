"""What came out of the pipeline, compared with what must have, record by record."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ottla.cli.connection import Connection
from ottla.cli.demo.orders import Books, Total
from ottla.values import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was proven, or was not."""

    is_good: bool
    text: str


def check(
    books: Books, revenue: Sequence[bytes], letters: Sequence[bytes], lag: int
) -> Iterator[Line]:
    """Compare; every line must be good."""
    rows = [json.loads(value) for value in revenue]
    found: dict[tuple[int, str], list[Total]] = {}
    for row in rows:
        place = (row["window_ms"], row["drink"])
        found.setdefault(place, []).append(Total(row["orders"], row["cents"]))
    counted = sum(row["orders"] for row in rows)
    yield Line(
        counted == books.order_count,
        f"{books.order_count:,} orders were written, {counted:,} were counted",
    )
    cents = sum(row["cents"] for row in rows)
    owed = sum(total.cents for total in books.expected.values())
    yield Line(
        cents == owed, f"they are worth {owed / 100:,.2f}; the pipeline says {cents / 100:,.2f}"
    )
    yield _windows(books.expected, found)
    bad = Counter(letters)
    yield Line(
        bad == books.bad,
        f"{books.bad.total():,} records could not be read; {bad.total():,} are in orders.bad, "
        "byte for byte",
    )
    yield Line(lag == 0, f"the pipeline's group is {lag:,} records behind")


def _windows(
    expected: Mapping[tuple[int, str], Total], found: Mapping[tuple[int, str], Sequence[Total]]
) -> Line:
    right = sum(found.get(place) == [total] for place, total in expected.items())
    text = f"{right:,} of {len(expected):,} windows are there once, with the right sums"
    strange = len(found.keys() - expected.keys())
    return Line(right == len(expected) and not strange, text)


def values_of(connection: Connection, topic: str) -> list[bytes]:
    """Every value of a topic that is committed."""
    from ottla.cli.consume import Span, read
    from ottla.cli.offsets import END, START

    everything = Span(first=START, last=END, partitions=frozenset(), read_committed=True)
    return [record.value or b"" for record in read(connection, [topic], everything)]
