"""Every metric that a broker or a console tells Prometheus: name, kind, meaning, labels, once.

The names are those that dashboards for Kafka use, of its JMX exporter and of kafka_exporter; what
those do not have begins with `ottla_`.  `docs/reference/metrics.md` is derived from this list, and
tests compare it with the pages of a running broker and console, with the dashboard and the rules.

Labels are bounded: topics, partitions, groups and kinds of requests, never a client or a member.
"""

from typing import Final

from ottla import exposition
from ottla.exposition import Kind, Metric, Source

_PLACE: Final = ("topic", "partition")
_GROUP: Final = ("consumergroup",)
_GROUP_PLACE: Final = (*_GROUP, *_PLACE)
_BOTH: Final[tuple[Source, ...]] = ("broker", "console")
_CONSOLE: Final[tuple[Source, ...]] = ("console",)

_COUNTER: Final[Kind] = "counter"
_GAUGE: Final[Kind] = "gauge"
_HISTOGRAM: Final[Kind] = "histogram"

# Traffic

BYTES_IN: Final = Metric(
    "kafka_server_brokertopicmetrics_bytesin_total",
    _COUNTER,
    "Bytes that were written since the start",
    ("topic",),
)
BYTES_OUT: Final = Metric(
    "kafka_server_brokertopicmetrics_bytesout_total",
    _COUNTER,
    "Bytes that were fetched since the start",
    ("topic",),
)
MESSAGES_IN: Final = Metric(
    "kafka_server_brokertopicmetrics_messagesin_total",
    _COUNTER,
    "Records that were written since the start",
    ("topic",),
)

PRODUCE_REFUSED: Final = Metric(
    "ottla_produce_refused_total",
    _COUNTER,
    "Batches of producers that were refused since the start, by the error that they were told",
    ("topic", "error"),
)

# Requests

REQUESTS: Final = Metric(
    "kafka_network_requestmetrics_requests_total",
    _COUNTER,
    "Requests since the start",
    ("request",),
)
REQUEST_TIME_MS: Final = Metric(
    "kafka_network_requestmetrics_totaltimems",
    _GAUGE,
    "How long requests took in the last minutes, in milliseconds, by samples",
    ("request", "quantile"),
)
REQUEST_SECONDS: Final = Metric(
    "ottla_request_seconds",
    _HISTOGRAM,
    "How long requests took from their arrival to their answer, by samples",
    ("request",),
)
LOOP_LAG: Final = Metric(
    "ottla_loop_lag_seconds",
    _GAUGE,
    "How late the event loop was at the worst, of the last seconds",
)

CONNECTIONS: Final = Metric(
    "kafka_server_socket_server_metrics_connection_count", _GAUGE, "Clients that are connected"
)

# The cluster

CLUSTER_UP: Final = Metric(
    "ottla_cluster_up", _GAUGE, "Whether the cluster answers the console", told_by=_CONSOLE
)
FAILED: Final = Metric(
    "ottla_failed", _GAUGE, "1 once the broker cannot go on: its disk failed, or a task of its own"
)
BROKERS: Final = Metric("kafka_brokers", _GAUGE, "Brokers in the cluster", told_by=_BOTH)
TOPIC_PARTITIONS: Final = Metric(
    "kafka_topic_partitions", _GAUGE, "Partitions of a topic", ("topic",), _BOTH
)
PARTITIONS: Final = Metric(
    "kafka_server_replicamanager_partitioncount",
    _GAUGE,
    "Partitions of which a broker has a replica",
)
LEADERS: Final = Metric(
    "kafka_server_replicamanager_leadercount", _GAUGE, "Partitions that a broker leads"
)
ACTIVE_CONTROLLER: Final = Metric(
    "kafka_controller_kafkacontroller_activecontrollercount",
    _GAUGE,
    "1 for the broker that is the controller; the sum over all brokers is 1",
)
UNDER_REPLICATED: Final = Metric(
    "kafka_server_replicamanager_underreplicatedpartitions",
    _GAUGE,
    "Partitions with replicas that are behind",
    told_by=_BOTH,
)
OFFLINE_PARTITIONS: Final = Metric(
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    _GAUGE,
    "Partitions that nobody can write or read: without a leader, or on a disk that failed",
    told_by=_BOTH,
)

# Storage

LOG_SIZE: Final = Metric("kafka_log_log_size", _GAUGE, "Bytes of a partition on disk", _PLACE)
TOPIC_SIZE: Final = Metric(
    "ottla_topic_size_bytes",
    _GAUGE,
    "Bytes of a topic on disk, all replicas together",
    ("topic",),
    _CONSOLE,
)
CURRENT_OFFSET: Final = Metric(
    "kafka_topic_partition_current_offset", _GAUGE, "Where the next record goes", _PLACE, _BOTH
)
OLDEST_OFFSET: Final = Metric(
    "kafka_topic_partition_oldest_offset", _GAUGE, "The first record there is", _PLACE, _BOTH
)
DISK_FREE: Final = Metric(
    "ottla_disk_free_bytes", _GAUGE, "What is left in the file system of the data directory"
)
FSYNC_SECONDS: Final = Metric(
    "ottla_fsync_seconds", _HISTOGRAM, "How long it took to make records durable"
)

# Transactions

TRANSACTIONS_OPEN: Final = Metric(
    "ottla_transactions_open", _GAUGE, "Transactions that have not ended", told_by=_BOTH
)
TRANSACTION_OLDEST: Final = Metric(
    "ottla_transaction_oldest_seconds", _GAUGE, "Age of the oldest of them; 0 if there is none"
)
TRANSACTIONS_COMMITTED: Final = Metric(
    "ottla_transactions_committed_total", _COUNTER, "Transactions that were committed"
)
TRANSACTIONS_ABORTED: Final = Metric(
    "ottla_transactions_aborted_total",
    _COUNTER,
    "Transactions that were aborted: by their producer, by its successor, or for their time-out",
)
PRODUCERS_FENCED: Final = Metric(
    "ottla_fenced_producers_total",
    _COUNTER,
    "Requests of producers that were refused because another one has their transactional id",
)
STABLE_OFFSET_LAG: Final = Metric(
    "kafka_cluster_partition_laststableoffsetlag",
    _GAUGE,
    "Offsets that an open transaction keeps from read_committed consumers",
    _PLACE,
)
LATE_TRANSACTIONS: Final = Metric(
    "kafka_server_replicamanager_partitionswithlatetransactionscount",
    _GAUGE,
    "Partitions with a transaction that should have timed out long ago: it hangs",
)

# Groups

GROUP_MEMBERS: Final = Metric(
    "kafka_consumergroup_members", _GAUGE, "Members of a group", _GROUP, _BOTH
)
GROUP_OFFSET: Final = Metric(
    "kafka_consumergroup_current_offset", _GAUGE, "What a group has committed", _GROUP_PLACE, _BOTH
)
GROUP_LAG: Final = Metric(
    "kafka_consumergroup_lag",
    _GAUGE,
    "Records that a group has not committed",
    _GROUP_PLACE,
    _BOTH,
)
GROUP_LAG_SECONDS: Final = Metric(
    "kafka_consumergroup_lag_seconds",
    _GAUGE,
    "How long ago the first record was written that a group has not committed; 0 if there is none",
    _GROUP_PLACE,
    _BOTH,
)
GROUP_LAG_SUM: Final = Metric(
    "kafka_consumergroup_lag_sum",
    _GAUGE,
    "Records of a topic that a group has not committed",
    (*_GROUP, "topic"),
    _BOTH,
)
GROUP_REBALANCES: Final = Metric(
    "ottla_group_rebalances_total", _COUNTER, "Rebalances of a group that have begun", _GROUP
)
GROUP_REBALANCE_SECONDS: Final = Metric(
    "ottla_group_rebalance_seconds_total",
    _COUNTER,
    "How long its rebalances took, those that have ended",
    _GROUP,
)

GROUPS_LEFT_OUT: Final = Metric(
    "ottla_groups_left_out",
    _GAUGE,
    "Groups whose lag is not told, because there are more than a console looks at",
    told_by=_CONSOLE,
)

# The telling itself

BUILD_INFO: Final = Metric(
    "ottla_build_info",
    _GAUGE,
    "1; the version, and whether compiled or pure codecs run",
    ("version", "codecs"),
)
METRICS_LEFT_OUT: Final = exposition.LEFT_OUT

ALL: Final = tuple(found for found in list(globals().values()) if isinstance(found, Metric))
"""In the order of this file."""


def told_by(source: Source) -> frozenset[str]:
    """The names of all metrics that a broker, or a console, tells."""
    return frozenset(metric.name for metric in ALL if source in metric.told_by)
