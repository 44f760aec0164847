"""Numbers with a unit, as people read them: `14.6 GiB`, `7 days`, `12,481`; and moments.

`Size` and `Duration` are integers, so JSON has them raw; only text for people has units.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

_SIZE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DURATION_UNITS: Final = (
    ("day", 86_400_000),
    ("hour", 3_600_000),
    ("minute", 60_000),
    ("second", 1_000),
)
_SHORT_UNITS: Final = {"day": "d", "hour": "h", "minute": "min", "second": "s"}
FOREVER: Final = -1


class Size(int):
    """Bytes."""


class Duration(int):
    """Milliseconds; -1 is for ever."""


class Id(int):
    """A number that counts nothing: a broker, a partition."""


def human(value: object) -> str:
    """A value as people like it."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case Id():
            return f"{value:d}"
        case Size():
            return human_size(value)
        case Duration():
            return human_duration(value)
        case int():
            return f"{value:,d}"
        case float():
            return f"{value:,.1f}"
        case _:
            return str(value)


def counted(number: int, what: str, many: str = "") -> str:
    """`1 topic`, `2 topics`; `many` is for words that make their plural otherwise."""
    return f"{number:,} {what if number == 1 else many or f'{what}s'}"


def human_size(size_bytes: float) -> str:
    """`3.1 GiB`, `530 MiB`: the largest unit that leaves a digit before the point."""
    amount, unit = size_bytes, "B"
    for larger in _SIZE_UNITS[1:]:
        if round(abs(amount)) < 1024:  # as it would be shown
            break
        amount, unit = amount / 1024, larger
    if unit == "B" or round(abs(amount), 1) >= 100:
        return f"{amount:.0f} {unit}"
    return f"{amount:.1f} {unit}"


def human_duration(duration_ms: int) -> str:
    """`7 days`, `36 hours`, `90 seconds`: the largest unit that loses nothing."""
    if duration_ms == FOREVER:
        return "forever"
    for unit, factor in _DURATION_UNITS:
        if duration_ms and duration_ms % factor == 0:
            return counted(duration_ms // factor, unit)
    return f"{duration_ms} ms"


def short_duration(duration_ms: int) -> str:
    """`7d`, `36h`, `90s`: the same in one word, for programs."""
    if duration_ms == FOREVER:
        return "forever"
    for unit, factor in _DURATION_UNITS:
        if duration_ms and duration_ms % factor == 0:
            return f"{duration_ms // factor}{_SHORT_UNITS[unit]}"
    return f"{duration_ms}ms"


def about(duration_ms: int) -> str:
    """`70 ms`, `0.7 s`, `48 s`, `14 min`: two digits are enough."""
    if duration_ms < 100:
        return f"{max(0, duration_ms)} ms"
    seconds = duration_ms / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    for unit, size_s, most in (("s", 1, 120), ("min", 60, 120), ("h", 3600, 48)):
        if seconds < size_s * most:
            return f"{seconds / size_s:.0f} {unit}"
    return f"{seconds / 86_400:.0f} days"


def as_ms(when: "datetime") -> int:
    """A moment in milliseconds since 1970."""
    return round(when.timestamp() * 1000)


def local_time(time_ms: int) -> str:
    """`2026-11-15 16:00:03`, by the clock on the wall."""
    from datetime import datetime  # here, because a broker starts without

    return datetime.fromtimestamp(time_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
