"""Renders docs/reference/metrics.md from the declarations of metrics."""

from typing import Final

from ottla.exposition import MAX_SERIES, Metric
from ottla.measures import ALL

_INTRODUCTION: Final = f"""\
<!-- Written by `make fix` from ottla.measures; do not edit. -->
# Metrics

What `/metrics` tells Prometheus: of a [broker](../how-to/metrics.md), with `--metrics-port`, and of
a [console](../how-to/console.md), of any cluster. Names that begin with `kafka_` are those of
Kafka's JMX exporter and of kafka_exporter, with their labels; the others are ours.

A family has at most {MAX_SERIES:,} numbers. `ottla_metrics_left_out` says which one has more, and
how many are not told; the log says so once.
"""

_HEAD: Final = ("| name | labels | kind | told by |", "| --- | --- | --- | --- |")


def page() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *_HEAD, *map(_row, ALL)]) + "\n"


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "none"
    told_by = ", ".join(metric.told_by)
    return f"| `{metric.name}`<br>{metric.text}. | {labels} | {metric.kind} | {told_by} |"
