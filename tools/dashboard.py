"""Writes dashboards/ottla.json, the dashboard for Grafana, from a list of rows and panels.

A panel is a title, a unit, and what it asks Prometheus for; where it stands on the page follows
from its place in the list.  A test sees to it that every metric that is asked for exists.
"""

import json
from typing import Any, Final, NamedTuple

WIDTH: Final = 24
"""How many columns a page of Grafana has."""
HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}

RATE: Final = "$__rate_interval"
_GROUP: Final = 'consumergroup=~"$group"'
_TOPIC: Final = 'topic=~"$topic"'


class Query(NamedTuple):
    """What Prometheus is asked, and how the answer is called."""

    expression: str
    legend: str


class Panel(NamedTuple):
    """One picture; a `stat` is a number."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    description: str = ""


class Row(NamedTuple):
    """Panels that stand beside each other, under a title."""

    title: str
    panels: tuple[Panel, ...]


def _of(metric: str, *more: str) -> str:
    selectors = ",".join(('instance=~"$instance"', *more))
    return f"{metric}{{{selectors}}}"


def _rate_by(label: str, metric: str) -> str:
    return f"sum by ({label}) (rate({_of(metric, _TOPIC)}[{RATE}]))"


def _quantile(share: float, metric: str, by: str, *more: str) -> str:
    buckets = f"rate({_of(f'{metric}_bucket', *more)}[{RATE}])"
    return f"histogram_quantile({share}, sum by ({by}) ({buckets}))"


ROWS: Final = (
    Row(
        "Health",
        (
            Panel("Up", "short", (Query(_of("up"), "{{instance}}"),), "stat"),
            Panel("Failed", "short", (Query(_of("ottla_failed"), "{{instance}}"),), "stat"),
            Panel(
                "Partitions offline",
                "short",
                (
                    Query(
                        _of("kafka_controller_kafkacontroller_offlinepartitionscount"),
                        "{{instance}}",
                    ),
                ),
                "stat",
            ),
            Panel(
                "Partitions where a transaction hangs",
                "short",
                (
                    Query(
                        _of("kafka_server_replicamanager_partitionswithlatetransactionscount"),
                        "{{instance}}",
                    ),
                ),
                "stat",
            ),
        ),
    ),
    Row(
        "Throughput",
        (
            Panel(
                "Records written",
                "cps",
                (
                    Query(
                        _rate_by("topic", "kafka_server_brokertopicmetrics_messagesin_total"),
                        "{{topic}}",
                    ),
                ),
            ),
            Panel(
                "Bytes written",
                "Bps",
                (
                    Query(
                        _rate_by("topic", "kafka_server_brokertopicmetrics_bytesin_total"),
                        "{{topic}}",
                    ),
                ),
            ),
            Panel(
                "Bytes fetched",
                "Bps",
                (
                    Query(
                        _rate_by("topic", "kafka_server_brokertopicmetrics_bytesout_total"),
                        "{{topic}}",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "Requests",
        (
            Panel(
                "Requests",
                "reqps",
                (
                    Query(
                        "sum by (request) "
                        f"(rate({_of('kafka_network_requestmetrics_requests_total')}[{RATE}]))",
                        "{{request}}",
                    ),
                ),
            ),
            Panel(
                "Produce: how long",
                "s",
                tuple(
                    Query(
                        _quantile(share, "ottla_request_seconds", "le", 'request="Produce"'),
                        f"p{share:.1%}".rstrip("%").removesuffix(".0"),
                    )
                    for share in (0.5, 0.99, 0.999)
                ),
                description="From the arrival of a request to its answer, syncs included.",
            ),
            Panel(
                "All kinds: 99 of 100 are faster than",
                "s",
                (Query(_quantile(0.99, "ottla_request_seconds", "request, le"), "{{request}}"),),
                description="Fetches wait for records on purpose, and joins for other members.",
            ),
            Panel(
                "Event loop late by",
                "s",
                (Query(_of("ottla_loop_lag_seconds"), "{{instance}}"),),
            ),
        ),
    ),
    Row(
        "Groups",
        (
            Panel(
                "Lag in records",
                "short",
                (
                    Query(
                        "sum by (consumergroup, topic) "
                        f"({_of('kafka_consumergroup_lag_sum', _GROUP, _TOPIC)})",
                        "{{consumergroup}} {{topic}}",
                    ),
                ),
            ),
            Panel(
                "Lag in time",
                "s",
                (
                    Query(
                        "max by (consumergroup, topic) "
                        f"({_of('kafka_consumergroup_lag_seconds', _GROUP, _TOPIC)})",
                        "{{consumergroup}} {{topic}}",
                    ),
                ),
                description="How long ago the first record was written that is not committed.",
            ),
            Panel(
                "Members",
                "short",
                (Query(_of("kafka_consumergroup_members", _GROUP), "{{consumergroup}}"),),
            ),
            Panel(
                "Rebalances",
                "short",
                (
                    Query(
                        f"increase({_of('ottla_group_rebalances_total', _GROUP)}[{RATE}])",
                        "{{consumergroup}}",
                    ),
                    Query(
                        f"increase({_of('ottla_group_rebalance_seconds_total', _GROUP)}[{RATE}])",
                        "{{consumergroup}}, seconds",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "Transactions",
        (
            Panel("Open", "short", (Query(_of("ottla_transactions_open"), "{{instance}}"),)),
            Panel(
                "Age of the oldest",
                "s",
                (Query(_of("ottla_transaction_oldest_seconds"), "{{instance}}"),),
            ),
            Panel(
                "Ended, and producers fenced",
                "ops",
                (
                    Query(
                        f"rate({_of('ottla_transactions_committed_total')}[{RATE}])", "committed"
                    ),
                    Query(f"rate({_of('ottla_transactions_aborted_total')}[{RATE}])", "aborted"),
                    Query(f"rate({_of('ottla_fenced_producers_total')}[{RATE}])", "fenced"),
                ),
            ),
            Panel(
                "Held back from read_committed",
                "short",
                (
                    Query(
                        "max by (topic) "
                        f"({_of('kafka_cluster_partition_laststableoffsetlag', _TOPIC)})",
                        "{{topic}}",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "Disk",
        (
            Panel(
                "Syncs: how long",
                "s",
                (
                    Query(_quantile(0.5, "ottla_fsync_seconds", "le"), "p50"),
                    Query(_quantile(0.99, "ottla_fsync_seconds", "le"), "p99"),
                ),
            ),
            Panel(
                "Syncs",
                "ops",
                (
                    Query(
                        f"rate({_of('ottla_fsync_seconds_count')}[{RATE}])",
                        "{{instance}}",
                    ),
                ),
            ),
            Panel("Free", "bytes", (Query(_of("ottla_disk_free_bytes"), "{{instance}}"),)),
            Panel(
                "Topics on disk",
                "bytes",
                (
                    Query(
                        f"sum by (topic) ({_of('kafka_log_log_size', _TOPIC)})",
                        "{{topic}}",
                    ),
                ),
            ),
        ),
    ),
)


def page() -> str:
    """The whole file."""
    dashboard = {
        "title": "Ottla",
        "uid": "ottla",
        "description": "One broker or several: traffic, latency, groups, transactions, disk.",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": _panels(),
    }
    return json.dumps(dashboard, indent=2) + "\n"


def _variables() -> list[dict[str, Any]]:
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource"}
    return [
        {**source, "query": "prometheus"},
        _choice("instance", "ottla_build_info"),
        _choice("topic", "kafka_topic_partitions"),
        _choice("consumergroup", "kafka_consumergroup_members", name="group"),
    ]


def _choice(label: str, metric: str, name: str = "") -> dict[str, Any]:
    query = f"label_values({metric}, {label})"
    return {
        "name": name or label,
        "type": "query",
        "datasource": _SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "A"},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> list[dict[str, Any]]:
    placed: list[dict[str, Any]] = []
    y = 0
    for row in ROWS:
        head = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        number = len(placed) + 1
        placed.append({"id": number, "type": "row", "title": row.title, "gridPos": head})
        width = WIDTH // len(row.panels)
        height = HEIGHT // 2 if row.panels[0].kind == "stat" else HEIGHT
        for column, panel in enumerate(row.panels):
            place = {"x": column * width, "y": y + 1, "w": width, "h": height}
            placed.append({"id": len(placed) + 1, "gridPos": place, **_panel(panel)})
        y += 1 + height
    return placed


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for number, query in enumerate(panel.queries)
        ],
    }
