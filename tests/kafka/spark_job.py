"""A job of Spark's own Kafka connector, in a process of its own.

Its arguments are the brokers, a folder to work in, and jars.  It reads topic `in` whole, copies it
to `out` in one batch and to `streamed` as a stream, and prints what it read as JSON.  Tests run it,
because a session that runs already takes no more jars.
"""

import json
import sys
from pathlib import Path

from pyspark import SparkContext

from ottla.spark.session import session


def main(servers: str, folder: Path, jars: str) -> None:
    spark = session(
        "Spark's own connector",
        master="local[2]",
        config={"spark.jars": jars, "spark.driver.memory": "1g"},
        log_file=folder / "spark.log",
    )
    options = {
        "kafka.bootstrap.servers": servers,
        "kafka.isolation.level": "read_committed",
        "subscribe": "in",
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    rows = spark.read.format("kafka").options(**options).load()
    found = rows.selectExpr("partition", "offset", "cast(value as string)", "size(headers)")
    copied = rows.selectExpr("key", "value", "headers")
    copied.write.format("kafka").options(**options).option("topic", "out").save()
    query = (
        spark.readStream.format("kafka")
        .options(**options)
        .load()
        .selectExpr("key", "value")
        .writeStream.format("kafka")
        .options(**options)
        .option("topic", "streamed")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    sys.stdout.write(json.dumps(sorted(tuple(row) for row in found.collect())) + "\n")
    gateway = SparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends with it
    gateway.proc.wait(60)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
