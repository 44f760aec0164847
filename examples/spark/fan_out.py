"""Fan out: one stream into several topics, by a column; all of a batch or nothing of it."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from ottla import pipeline

orders = pipeline.topic("orders.clean", "id long not null, country string, amount double")


@pipeline.step(
    source=orders,
    sink=pipeline.to("orders.home", "orders.abroad", "orders.large"),
)
def by_country(orders: DataFrame) -> DataFrame:
    home = f.when(f.col("country") == "CZ", f.lit("orders.home")).otherwise("orders.abroad")
    where = f.array(home, f.when(f.col("amount") > 1_000, f.lit("orders.large")))
    # A row for each topic that it goes to: a large order goes to two of them.
    return orders.withColumn("topic", f.explode(f.array_compact(where)))
