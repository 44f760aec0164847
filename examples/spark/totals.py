"""Running totals: what each customer has spent so far, written whenever it changes.

Mode `update` writes a row again with its new value; the key says whose it is.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from ottla import pipeline

orders = pipeline.topic("orders.clean", "id long, customer string not null, amount double")


@pipeline.step(source=orders, sink=pipeline.to("totals", key="customer", mode="update"))
def totals(orders: DataFrame) -> DataFrame:
    return orders.groupBy("customer").agg(f.round(f.sum("amount"), 2).alias("spent"))
