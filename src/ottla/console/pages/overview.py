"""What the cluster does just now, on one page."""

from heapq import nsmallest

from starlette.requests import Request
from starlette.responses import Response

from ottla.console.attention import attention
from ottla.console.broker_numbers import PRODUCE, REQUESTS
from ottla.console.charts import line_chart, sparkline
from ottla.console.history import History, Point, Sample, end_offset_of, lag_of
from ottla.console.rendering import drawn, page

_MEGABYTE = 1_000_000
_SHOWN = 8


async def overview(request: Request) -> Response:
    """The first page."""
    history: History = request.app.state.sampler.history
    newest = history.newest or Sample(at_s=0)
    first, second = _charts(history, is_told=newest.numbers is not None)
    return page(
        request,
        "overview.html",
        newest=newest,
        has_samples=history.newest is not None,
        notes=attention(history),
        records_rate=history.rate(lambda sample: sample.end_offset),
        bytes_rate=history.rate(_bytes_in if newest.numbers else lambda sample: sample.size_bytes),
        numbers=None if newest.numbers is None else _numbers(history),
        first_chart=first,
        second_chart=second,
        topics=busiest(history, newest),
        groups=behind(history, newest),
    )


def _bytes_in(sample: Sample) -> float | None:
    return None if sample.numbers is None else sample.numbers.bytes_in


def _bytes_out(sample: Sample) -> float | None:
    return None if sample.numbers is None else sample.numbers.bytes_out


def _numbers(history: History) -> dict[str, float | None]:
    """What only the broker itself can tell."""
    times = history.p99s_ms(PRODUCE)
    is_now = bool(times) and history.newest is not None and times[-1][0] == history.newest.at_s
    return {
        "read_rate": history.rate(_bytes_out),
        "produce_ms": times[-1][1] if is_now else None,
    }


def _charts(history: History, *, is_told: bool) -> tuple[dict[str, object], dict[str, object]]:
    """Two charts: of a broker that tells of itself, what goes in and out, and how long it takes."""
    if not is_told:
        records = {"records/s": history.rates(lambda sample: sample.end_offset)}
        volume = {"MB/s": _megabytes(history.rates(lambda sample: sample.size_bytes))}
        return _chart("Records a second", records), _chart("MB a second", volume)
    traffic = {
        "in": _megabytes(history.rates(_bytes_in)),
        "out": _megabytes(history.rates(_bytes_out)),
    }
    times = {name: line for name in REQUESTS if (line := history.p99s_ms(name))}
    return _chart("MB a second", traffic), _chart("Request time, p99 (ms)", times)


def _chart(title: str, lines: dict[str, list[Point]]) -> dict[str, object]:
    return {"title": title, "svg": drawn(line_chart(lines, title))}


def _megabytes(line: list[Point]) -> list[Point]:
    return [(at_s, value / _MEGABYTE) for at_s, value in line]


def busiest(history: History, newest: Sample) -> list[dict[str, object]]:
    """The topics that grow fastest, first."""
    rates = {
        name: history.rate(end_offset_of(name)) or 0.0
        for name, topic in newest.topics.items()
        if not topic.is_internal
    }
    names = nsmallest(_SHOWN, rates, key=lambda name: (-rates[name], name))
    return [
        {
            "name": name,
            "topic": newest.topics[name],
            "rate": rates[name],
            "spark": drawn(sparkline(history.rates(end_offset_of(name)), f"rate of {name}")),
        }
        for name in names
    ]


def behind(history: History, newest: Sample, shown: int = _SHOWN) -> list[dict[str, object]]:
    """The groups that are farthest behind, first."""
    rows: list[dict[str, object]] = []
    for group_id, lag in newest.lags.items():
        listing = newest.groups[group_id]
        ages = [p.time_lag for p in lag.partitions if p.time_lag is not None]
        spark = sparkline(history.line(lag_of(group_id)), f"lag of {group_id}")
        rows.append(
            {
                "id": group_id,
                "state": listing.state or lag.state,
                "type": listing.type,
                "members": len({p.member_id for p in lag.partitions if p.member_id}),
                "lag": lag.total,
                "time_lag": max(ages, default=None),
                "spark": drawn(spark),
            }
        )
    return sorted(rows, key=lambda row: (-int(str(row["lag"])), str(row["id"])))[:shown]
