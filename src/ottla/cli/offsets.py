"""Where to begin and where to end: the words of `--from` and `--until`.

    start, end       the first offset there is; the end as it is now
    42               that offset
    -10              ten before the end of each partition
    +10              ten after the start of each partition
    @2026-11-15      the first record at or after that time: a date, or a date and a time
    @1763164800000   the same, as milliseconds since 1970
    @-1h             so long ago: s, m, h or d

`--until` leaves out the offset that it names.  A time without a zone is local time.
"""

import re
import time
from collections.abc import Collection, Mapping
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Final

import click

from ottla.model import TopicPartition
from ottla.values import dataclass

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.positions import Isolation, When

_AGE: Final = re.compile(r"-(\d+)([smhd])")
_AGE_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NUMBER: Final = re.compile(r"[+-]?\d+")
_EXAMPLES: Final = "start, end, 42, -10, +10, @-1h or @2026-11-15T16:00"


class Anchor(Enum):
    """What a number in an offset is counted from."""

    ZERO = "zero"
    START = "start"
    END = "end"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Place:
    """An offset in words: so far from an anchor; for a time, milliseconds since 1970."""

    anchor: Anchor
    amount: int = 0


START: Final = Place(Anchor.START)
END: Final = Place(Anchor.END)


def parse_place(text: str, now_ms: int) -> Place:
    """What `text` says; `ValueError` if it says nothing that we understand."""
    if text == "start":
        return START
    if text == "end":
        return END
    if text.startswith("@"):
        return Place(Anchor.TIME, _parse_time(text[1:], now_ms))
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not an offset like {_EXAMPLES}")
    if text.startswith("-"):
        return Place(Anchor.END, int(text))
    return Place(Anchor.START if text.startswith("+") else Anchor.ZERO, int(text))


def _parse_time(text: str, now_ms: int) -> int:
    if (age := _AGE.fullmatch(text)) is not None:
        return now_ms - int(age[1]) * _AGE_UNITS_MS[age[2]]
    if text.isascii() and text.isdigit() and len(text) > len("20261115"):
        return int(text)
    try:
        # Without a zone, `timestamp` takes it for local time, which is what people mean.
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise ValueError(f"{text!r} is not a time like -1h or 2026-11-15T16:00") from None


def as_place(_ctx: click.Context, parameter: click.Parameter, value: str | None) -> Place | None:
    """The callback of an option that takes a place."""
    if value is None:
        return None
    try:
        return parse_place(value, now_ms=int(time.time() * 1000))
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from None


def as_age_ms(_ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """The callback of an option that takes an age, like `15m`."""
    if value is None:
        return None
    if (age := _AGE.fullmatch(f"-{value}")) is None:
        raise click.BadParameter(f"{value!r} is not an age like 90s, 15m, 2h, 1d", param=parameter)
    return int(age[1]) * _AGE_UNITS_MS[age[2]]


Offsets = Mapping[TopicPartition, int]


def settle(
    place: Place, starts: Offsets, ends: Offsets, at_time: Offsets
) -> dict[TopicPartition, int]:
    """The offset of each partition, never outside of what the partition has.

    `at_time` is asked only where the place is a time; -1 there is later than all records.
    """
    return {
        key: max(start, min(_unbounded(place, start, ends[key], at_time.get(key, -1)), ends[key]))
        for key, start in starts.items()
    }


def _unbounded(place: Place, start_offset: int, end_offset: int, offset_at_time: int) -> int:
    match place.anchor:
        case Anchor.ZERO:
            return place.amount
        case Anchor.START:
            return start_offset + place.amount
        case Anchor.END:
            return end_offset + place.amount
        case Anchor.TIME:
            return end_offset if offset_at_time < 0 else offset_at_time


def resolve(
    admin: "Admin",
    partitions: Collection[TopicPartition],
    place: Place,
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, int]:
    """Ask the brokers where a place is in each partition."""

    def offsets(at: "When", isolation: "Isolation" = "read_uncommitted") -> Offsets:
        found = admin.list_offsets(partitions, at=at, isolation_level=isolation)
        return {key: -1 if offset is None else offset for key, offset in found.items()}

    starts = offsets("earliest")
    ends = offsets("latest", "read_committed" if read_committed else "read_uncommitted")
    at_time = offsets(max(0, place.amount)) if place.anchor is Anchor.TIME else {}
    return settle(place, starts, ends, at_time)
