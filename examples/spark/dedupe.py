"""Drop repeated rows: who calls twice within ten minutes of event time is heard once.

State is kept for ten minutes only, so it does not grow without end.
"""

from pyspark.sql import DataFrame

from ottla import pipeline

calls = pipeline.topic(
    "calls", "call_id string not null, at timestamp not null", watermark=("at", "10 minutes")
)


@pipeline.step(source=calls, sink=pipeline.to("calls.once", key="call_id"))
def once(calls: DataFrame) -> DataFrame:
    return calls.dropDuplicatesWithinWatermark(["call_id"])
