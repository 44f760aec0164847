"""What tests of pipelines share: running one to its end, and reading what it wrote."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ottla
from ottla import pipeline
from ottla.pipeline.progress import StepProgress
from ottla.pipeline.spec import Pipeline, Step
from ottla.testing import TestBroker
from tests.spark.sink_world import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"

What = str | Path | Pipeline | Sequence[Step]


def run_once(
    what: What, broker: TestBroker, spark: "SparkSession", name: str = "test"
) -> dict[str, StepProgress]:
    """Run until everything is read; return how each step stands."""
    how = pipeline.Run(bootstrap=broker.bootstrap_servers, once=True)
    progress = pipeline.run(what, name=name, spark=spark, how=how)
    with ottla.Admin(broker.bootstrap_servers) as admin:
        settle(admin)
    return {step.step: step for step in progress}


def write(broker: TestBroker, topic: str, rows: Iterable[dict[str, Any] | str]) -> None:
    """Append rows as JSON; text as it is."""
    broker.produce(topic, *(row if isinstance(row, str) else json.dumps(row) for row in rows))


def rows_of(broker: TestBroker, topic: str) -> list[Any]:
    """Every committed value, decoded."""
    records = broker.records(topic)
    return [json.loads(record.value or b"null") for record in records]
