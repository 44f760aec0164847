"""Numbers with a unit, as people read them: `14.6 GiB`, `7d`, `12,481`.

`Size` and `Duration` are integers, so JSON has them raw; only text for people has units.
"""

from typing import Final

_SIZE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DURATION_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))
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


def counted(number: int, what: str) -> str:
    """`1 topic`, `2 topics`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def human_size(size_bytes: int) -> str:
    """`3.1 GiB`: three digits and the largest unit that leaves one before the point."""
    amount = float(size_bytes)
    for unit in _SIZE_UNITS[:-1]:
        if abs(amount) < 1024:
            return f"{size_bytes} B" if unit == "B" else f"{_three_digits(amount)} {unit}"
        amount /= 1024
    return f"{_three_digits(amount)} {_SIZE_UNITS[-1]}"


def _three_digits(amount: float) -> str:
    return f"{amount:.0f}" if amount >= 100 else f"{amount:.1f}"


def human_duration(duration_ms: int) -> str:
    """`7d`, `36h`, `90s`: the largest unit that loses nothing."""
    if duration_ms == FOREVER:
        return "forever"
    for unit, factor in _DURATION_UNITS:
        if duration_ms and duration_ms % factor == 0:
            return f"{duration_ms // factor}{unit}"
    return f"{duration_ms}ms"
