"""A program of Spark Connect, in a process of its own: batch, stream and pipeline.

    python -m tests.spark.connect_job SERVERS FOLDER

Its server is started by PySpark, on this machine.  A process that has had another Spark cannot have
this one.
"""

import os
import sys
from pathlib import Path

from ottla import pipeline
from ottla.spark.session import prepare, session
from tests.spark.sink_world import PATIENCE_S

ORDERS = "id long not null, amount double"


def main(servers: str, folder: Path) -> None:
    prepare(os.environ)
    from pyspark.sql import DataFrame, SparkSession

    SparkSession.builder.remote("local[2]").getOrCreate()
    spark = session()  # the one that runs
    brokers = {"kafka.bootstrap.servers": servers}
    rows = spark.read.format("ottla").options(**brokers, subscribe="in").load()
    rows.select("value").write.format("ottla").options(**brokers, topic="batch").mode(
        "append"
    ).save()

    source = spark.readStream.format("ottla").options(**brokers, subscribe="in")
    stream = source.option("startingOffsets", "earliest").load().select("value")
    sink = {**brokers, "topic": "stream", "checkpointLocation": str(folder / "stream")}
    query = stream.writeStream.format("ottla").options(**sink).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S), "it takes too long"

    @pipeline.step(source=pipeline.topic("in", ORDERS), sink="large", dead_letter="bad")
    def large(orders: DataFrame) -> DataFrame:
        return orders.where("amount > 1")

    how = pipeline.Run(bootstrap=servers, once=True, checkpoint=str(folder / "pipeline"))
    (progress,) = pipeline.run([large], name="connect", spark=spark, how=how)
    sys.stdout.write(f"{progress.rows_in} {progress.rows_out} {progress.rows_bad}\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
