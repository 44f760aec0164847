"""`/metrics`: offsets, lag and health in Prometheus' format, under the names that exporters use.

The names and labels are declared in `ottla.measures`; those of kafka_exporter are among them, so
its dashboards work as they are.  Everything comes from the last sample: a scrape asks the cluster
nothing.
"""

from collections.abc import Callable, Iterator, Mapping

from starlette.requests import Request
from starlette.responses import Response

from ottla import measures
from ottla.client.admin.lag import GroupLag, PartitionLag
from ottla.console.history import Sample
from ottla.console.sampling import Sampler
from ottla.exposition import CONTENT_TYPE, Exposition, Metric


async def metrics(request: Request) -> Response:
    """The answer to a scrape."""
    sampler: Sampler = request.app.state.sampler
    exposition: Exposition = request.app.state.exposition
    sample = sampler.history.newest
    up = 1 if sample is not None and not sampler.trouble else 0
    parts = list(exposition.family(measures.CLUSTER_UP, [((), up)]))
    if sample is not None:
        parts += _families(sample, exposition)
        parts += _group_families(sample.lags, exposition)
    parts += exposition.left_out()
    return Response("".join(parts), media_type=CONTENT_TYPE)


def _families(sample: Sample, exposition: Exposition) -> Iterator[str]:
    family, topics = exposition.family, sample.topics.items()
    yield from family(measures.BROKERS, [((), sample.broker_count)])
    yield from family(
        measures.TOPIC_PARTITIONS, [((name,), topic.partition_count) for name, topic in topics]
    )
    for metric, side in ((measures.CURRENT_OFFSET, 1), (measures.OLDEST_OFFSET, 0)):
        yield from family(
            metric,
            (
                ((topic, partition), bounds[side])
                for topic, found in topics
                for partition, bounds in sorted(found.bounds.items())
            ),
        )
    yield from family(
        measures.TOPIC_SIZE,
        [((name,), t.size_bytes) for name, t in topics if t.size_bytes is not None],
    )
    yield from family(measures.UNDER_REPLICATED, [((), sample.under_replicated_count)])
    yield from family(measures.OFFLINE_PARTITIONS, [((), sample.offline_count)])
    left_out_count = len(sample.groups.keys() - sample.lags.keys())
    yield from family(measures.GROUPS_LEFT_OUT, [((), left_out_count)])
    if sample.open_transaction_count is not None:
        yield from family(measures.TRANSACTIONS_OPEN, [((), sample.open_transaction_count)])


def _group_families(lags: Mapping[str, GroupLag], exposition: Exposition) -> Iterator[str]:
    places = [(group, part) for group, lag in sorted(lags.items()) for part in lag.partitions]
    yield from exposition.family(
        measures.GROUP_MEMBERS,
        [
            ((group,), len({p.member_id for p in lag.partitions if p.member_id}))
            for group, lag in sorted(lags.items())
        ],
    )
    facts: tuple[tuple[Metric, Callable[[PartitionLag], float | None]], ...] = (
        (measures.GROUP_OFFSET, lambda part: part.committed),
        (measures.GROUP_LAG, lambda part: part.lag),
        (
            measures.GROUP_LAG_SECONDS,
            lambda part: None if part.time_lag is None else part.time_lag.total_seconds(),
        ),
    )
    for metric, read in facts:
        yield from exposition.family(
            metric,
            (
                ((group, *part.tp), number)
                for group, part in places
                if (number := read(part)) is not None
            ),
        )
    yield from exposition.family(
        measures.GROUP_LAG_SUM,
        [
            ((group, topic), total)
            for group, lag in sorted(lags.items())
            for topic, total in _sums(lag).items()
        ],
    )


def _sums(lag: GroupLag) -> dict[str, int]:
    sums: dict[str, int] = {}
    for part in lag.partitions:
        sums[part.tp.topic] = sums.get(part.tp.topic, 0) + (part.lag or 0)
    return sums
