"""What rings each alert, and what a healthy broker tells: series as promtool writes them.

A series has a value for each minute: `0+5x30` begins at 0 and grows by 5, thirty times.
"""

from typing import Final, NamedTuple

_AT: Final = 'instance="a:9644"'
_GROUP: Final = f'{_AT},consumergroup="kitchen"'
_READ: Final = f'{_GROUP},topic="orders"'
_FSYNC: Final = "ottla_fsync_seconds"
_BYTES_IN: Final = f'kafka_server_brokertopicmetrics_bytesin_total{{{_AT},topic="orders"}}'
_FREE: Final = f"ottla_disk_free_bytes{{{_AT}}}"
_LAG: Final = f"kafka_consumergroup_lag_sum{{{_READ}}}"
_MEMBERS: Final = f"kafka_consumergroup_members{{{_GROUP}}}"


class Situation(NamedTuple):
    """Series, and the minute at which they are looked at."""

    at_min: int
    series: dict[str, str]


def _gauge(name: str, value: str, labels: str = _AT) -> dict[str, str]:
    return {f"{name}{{{labels}}}": value}


RINGS: Final[dict[str, list[Situation]]] = {
    "OttlaDown": [Situation(3, _gauge("up", "0x10", f'job="ottla",{_AT}'))],
    "OttlaFailed": [Situation(1, _gauge("ottla_failed", "1x10"))],
    "OttlaPartitionsOffline": [
        Situation(3, _gauge("kafka_controller_kafkacontroller_offlinepartitionscount", "2x10"))
    ],
    "OttlaUnderReplicated": [
        Situation(7, _gauge("kafka_server_replicamanager_underreplicatedpartitions", "2x10"))
    ],
    "OttlaProducersRefused": [
        Situation(
            12,
            _gauge(
                "ottla_produce_refused_total",
                "0+1x20",
                f'{_AT},topic="orders",error="MESSAGE_TOO_LARGE"',
            ),
        )
    ],
    "OttlaDiskNearlyFull": [
        Situation(12, {_FREE: "4000000000x20"}),
        Situation(390, {_FREE: "100000000000-100000000x400"}),  # 100 GB, and 6 GB less each hour
    ],
    "OttlaSyncsSlow": [
        Situation(
            20,
            {
                f'{_FSYNC}_bucket{{{_AT},le="0.1"}}': "0+90x30",
                f'{_FSYNC}_bucket{{{_AT},le="1"}}': "0+100x30",
                f'{_FSYNC}_bucket{{{_AT},le="+Inf"}}': "0+100x30",
            },
        )
    ],
    "OttlaNoSyncs": [Situation(25, {_BYTES_IN: "0+100x30", f"{_FSYNC}_count{{{_AT}}}": "5x30"})],
    "OttlaLoopLate": [Situation(7, _gauge("ottla_loop_lag_seconds", "0.7x10"))],
    "OttlaMetricsLeftOut": [
        Situation(
            70, _gauge("ottla_metrics_left_out", "5x80", f'{_AT},metric="kafka_log_log_size"')
        )
    ],
    "OttlaGroupsLeftOut": [Situation(70, _gauge("ottla_groups_left_out", "5x80"))],
    "OttlaLagGrows": [Situation(40, {_LAG: "2000+10x60"})],
    "OttlaLagLong": [
        Situation(7, _gauge("kafka_consumergroup_lag_seconds", "700x10", f'{_READ},partition="0"'))
    ],
    "OttlaGroupEmpty": [Situation(35, {_MEMBERS: "0x40", _LAG: "5x40"})],
    "OttlaRebalancesOften": [
        Situation(25, _gauge("ottla_group_rebalances_total", "0+2x30", _GROUP))
    ],
    "OttlaTransactionHangs": [
        Situation(
            7, _gauge("kafka_server_replicamanager_partitionswithlatetransactionscount", "1x10")
        )
    ],
    "OttlaTransactionOld": [Situation(7, _gauge("ottla_transaction_oldest_seconds", "1000x10"))],
    "OttlaReadersHeldBack": [
        Situation(
            15,
            _gauge(
                "kafka_cluster_partition_laststableoffsetlag",
                "20000x20",
                f'{_AT},topic="orders",partition="0"',
            ),
        )
    ],
    "OttlaProducersFenced": [Situation(25, _gauge("ottla_fenced_producers_total", "0+5x30"))],
}

HEALTHY: Final = {
    "at work": Situation(
        480,
        {
            **_gauge("up", "1x480", f'job="ottla",{_AT}'),
            **_gauge("ottla_failed", "0x480"),
            **_gauge("kafka_controller_kafkacontroller_offlinepartitionscount", "0x480"),
            **_gauge("ottla_loop_lag_seconds", "0.02x480"),
            **_gauge("ottla_transaction_oldest_seconds", "3x480"),
            **_gauge("ottla_group_rebalances_total", "5x480", _GROUP),
            _FREE: "100000000000-1000000x480",
            f'{_FSYNC}_bucket{{{_AT},le="0.1"}}': "0+100x480",
            f'{_FSYNC}_bucket{{{_AT},le="+Inf"}}': "0+100x480",
            f"{_FSYNC}_count{{{_AT}}}": "0+100x480",
            _BYTES_IN: "0+100000x480",
            _LAG: "5000-10x480",
            _MEMBERS: "2x480",
        },
    ),
    # What a new broker writes first says nothing about a whole day.
    "at its start": Situation(30, {_FREE: "100000000000-100000000x30"}),
    "without readers, and nothing to read": Situation(60, {_LAG: "0x60", _MEMBERS: "0x60"}),
}
