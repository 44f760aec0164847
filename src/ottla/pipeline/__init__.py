"""Pipelines: functions from DataFrame to DataFrame, and the topics between which they stand.

    from ottla import pipeline

    orders = pipeline.topic("orders", "id long not null, customer string, amount double")

    @pipeline.step(source=orders, sink="orders.large", dead_letter="orders.bad")
    def large(orders):
        return orders.where("amount > 1000")

`ottla pipeline run FILE` runs it, on this machine or on a cluster, each record exactly once.

Where to start: `spec` (the words), `graph` (how steps hang together), `queries` (a step as a query
of Spark), `runner`, and `running` around it.  Importing this package imports no Spark.
"""

from ottla.pipeline.loading import load
from ottla.pipeline.progress import BatchReport, StepProgress
from ottla.pipeline.runner import PipelineFailedError
from ottla.pipeline.running import Run, run
from ottla.pipeline.spec import Pipeline, Sink, Step, Table, Topic, sql, step, table, to, topic
from ottla.pipeline.state import PipelineRunningError
from ottla.pipeline.topics import TopicMissingError

__all__ = [
    "BatchReport",
    "Pipeline",
    "PipelineFailedError",
    "PipelineRunningError",
    "Run",
    "Sink",
    "Step",
    "StepProgress",
    "Table",
    "Topic",
    "TopicMissingError",
    "load",
    "run",
    "sql",
    "step",
    "table",
    "to",
    "topic",
]
