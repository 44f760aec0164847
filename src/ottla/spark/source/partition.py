"""What a task is told: one range of offsets."""

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from ottla.spark.source.planning import OffsetRange


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """A range, and the id of its topic: another topic of the same name must not be read."""

    range: OffsetRange
    topic_id: str
