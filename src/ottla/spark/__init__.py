"""Apache Spark reads and writes Ottla and Apache Kafka: `format("ottla")`.

    spark.readStream.format("ottla").option("kafka.bootstrap.servers", "localhost:9092") \\
        .option("subscribe", "orders").load()

The format needs no registration: Spark finds the module `pyspark_ottla`, which is installed along
with `ottla`, on the driver and on executors.

Where to start: `datasource` (what Spark calls), then `options` (every option), `offsets` (what is
in a checkpoint), `source` (reading) and `sink` (writing).  Nothing here may import the broker: the
way to it is the protocol, so that all of it works with Apache Kafka.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.spark.datasource import OttlaDataSource
    from ottla.spark.sink.foreach import foreach_batch

__all__ = ["OttlaDataSource", "foreach_batch"]


def __getattr__(name: str) -> Any:
    # PySpark takes a second to import, and the pure parts of this package do without.
    if name == "OttlaDataSource":
        from ottla.spark.datasource import OttlaDataSource

        return OttlaDataSource
    if name == "foreach_batch":
        from ottla.spark.sink.foreach import foreach_batch

        return foreach_batch
    raise AttributeError(f"module 'ottla.spark' has no attribute {name!r}")
