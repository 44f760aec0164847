"""`/metrics`: offsets, lag and health in Prometheus' format, under the names that exporters use.

The names and labels are those of kafka_exporter, so its dashboards work as they are; what it does
not have begins with `ottla_`.  Everything comes from the last sample: a scrape asks the cluster
nothing.
"""

from collections.abc import Iterator, Mapping

from starlette.requests import Request
from starlette.responses import Response

from ottla.client.admin.lag import GroupLag
from ottla.console.history import Sample
from ottla.console.sampling import Sampler
from ottla.exposition import CONTENT_TYPE, Labels, family


async def metrics(request: Request) -> Response:
    """The answer to a scrape."""
    sampler: Sampler = request.app.state.sampler
    sample = sampler.history.newest
    up = 1 if sample is not None and not sampler.trouble else 0
    text = family("ottla_cluster_up", "Whether the cluster answers", [({}, up)])
    if sample is not None:
        text += "".join(_families(sample))
    return Response(text, media_type=CONTENT_TYPE)


def _families(sample: Sample) -> Iterator[str]:
    gauge = family
    topics = sample.topics.items()
    yield gauge("kafka_brokers", "Brokers in the cluster", [({}, sample.broker_count)])
    yield gauge(
        "kafka_topic_partitions",
        "Partitions of a topic",
        [({"topic": name}, topic.partition_count) for name, topic in topics],
    )
    for name, text, place in (
        ("kafka_topic_partition_current_offset", "Where the next record goes", 1),
        ("kafka_topic_partition_oldest_offset", "The first record there is", 0),
    ):
        yield gauge(
            name,
            text,
            [
                ({"topic": topic, "partition": partition}, bounds[place])
                for topic, found in topics
                for partition, bounds in sorted(found.bounds.items())
            ],
        )
    yield gauge(
        "kafka_log_log_size",
        "Bytes of a topic on disk, all replicas together",
        [({"topic": name}, t.size_bytes) for name, t in topics if t.size_bytes is not None],
    )
    yield gauge(
        "kafka_server_replicamanager_underreplicatedpartitions",
        "Partitions with replicas that are behind",
        [({}, sample.under_replicated_count)],
    )
    yield gauge(
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "Partitions without a leader",
        [({}, sample.offline_count)],
    )
    if sample.open_transaction_count is not None:
        yield gauge(
            "ottla_transactions_open",
            "Transactions that have not ended",
            [({}, sample.open_transaction_count)],
        )
    yield from _group_families(sample.lags)


def _group_families(lags: Mapping[str, GroupLag]) -> Iterator[str]:
    places = [(group, part) for group, lag in sorted(lags.items()) for part in lag.partitions]

    def labels(group: str, topic: str, partition: int) -> Labels:
        return {"consumergroup": group, "topic": topic, "partition": partition}

    yield family(
        "kafka_consumergroup_members",
        "Members that own a partition",
        [
            ({"consumergroup": group}, len({p.member_id for p in lag.partitions if p.member_id}))
            for group, lag in sorted(lags.items())
        ],
    )
    yield family(
        "kafka_consumergroup_current_offset",
        "What a group has committed",
        [(labels(g, *p.tp), p.committed) for g, p in places if p.committed is not None],
    )
    yield family(
        "kafka_consumergroup_lag",
        "Records that a group has not committed",
        [(labels(g, *p.tp), p.lag) for g, p in places if p.lag is not None],
    )
    yield family(
        "kafka_consumergroup_lag_seconds",
        "Age of the oldest record that a group has not committed",
        [
            (labels(g, *p.tp), p.time_lag.total_seconds())
            for g, p in places
            if p.time_lag is not None
        ],
    )
    yield family(
        "kafka_consumergroup_lag_sum",
        "Records of a topic that a group has not committed",
        [
            ({"consumergroup": group, "topic": topic}, total)
            for group, lag in sorted(lags.items())
            for topic, total in _sums(lag).items()
        ],
    )


def _sums(lag: GroupLag) -> dict[str, int]:
    sums: dict[str, int] = {}
    for part in lag.partitions:
        sums[part.tp.topic] = sums.get(part.tp.topic, 0) + (part.lag or 0)
    return sums
