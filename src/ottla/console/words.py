"""Numbers, sizes and times as people read them."""

from datetime import UTC, datetime, timedelta
from typing import Final

from ottla.quantities import about, human_size

NOTHING: Final = "\N{EN DASH}"


def number(value: float | None) -> str:
    """1234567 -> "1,234,567"; numbers below 10 keep one digit behind the point."""
    if value is None:
        return NOTHING
    if value != int(value) and abs(value) < 10:
        return f"{value:.1f}"
    return f"{value:,.0f}"


def size(value: float | None) -> str:
    """3_400_000 -> "3.2 MiB"."""
    return NOTHING if value is None else human_size(value)


def span(value: timedelta | float | None) -> str:
    """Seconds, or a timedelta -> "12 ms", "0.3 s", "4 min", "9 h", "2 days"."""
    if value is None:
        return NOTHING
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return about(round(seconds * 1000))


def moment(value: datetime | int | None) -> str:
    """A moment, or milliseconds since 1970 -> "2026-11-15 16:00:00.000" in UTC."""
    if value is None:
        return NOTHING
    if isinstance(value, int):
        if value < 0:
            return NOTHING
        value = datetime.fromtimestamp(value / 1000, UTC)
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def kept(config: dict[str, str]) -> str:
    """How long a topic keeps its records, in two or three words."""
    policy = config.get("cleanup.policy", "delete")
    if "delete" not in policy:
        return "compact"
    retention_ms = int(config.get("retention.ms", "-1"))
    limit = "for ever" if retention_ms < 0 else span(retention_ms / 1000)
    return f"compact, {limit}" if "compact" in policy else limit
