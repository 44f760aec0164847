"""What the cluster does just now, on one page."""

from heapq import nsmallest

from starlette.requests import Request
from starlette.responses import Response

from ottla.console.charts import line_chart, sparkline
from ottla.console.history import History, Sample, end_offset_of, lag_of
from ottla.console.rendering import drawn, page

_MEGABYTE = 1_000_000
_SHOWN = 8


async def overview(request: Request) -> Response:
    """The first page."""
    history: History = request.app.state.sampler.history
    newest = history.newest or Sample(at_s=0)
    bytes_in = history.rates(lambda sample: sample.size_bytes)
    return page(
        request,
        "overview.html",
        newest=newest,
        has_samples=history.newest is not None,
        records_rate=history.rate(lambda sample: sample.end_offset),
        bytes_rate=history.rate(lambda sample: sample.size_bytes),
        throughput=drawn(
            line_chart(
                {
                    "records/s": history.rates(lambda sample: sample.end_offset),
                },
                "records written a second",
            )
        ),
        volume=drawn(
            line_chart(
                {"MB/s": [(at_s, rate / _MEGABYTE) for at_s, rate in bytes_in]},
                "megabytes written a second",
            )
        ),
        topics=busiest(history, newest),
        groups=behind(history, newest),
    )


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
