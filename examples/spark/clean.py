"""Parse and clean: rows that do not parse go to a topic of their own, with the reason.

ottla pipeline run examples/spark/clean.py
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from ottla import pipeline

orders = pipeline.topic(
    "orders",
    "id long not null, customer string not null, amount double, country string, at timestamp",
)


@pipeline.step(
    source=orders,
    sink=pipeline.to("orders.clean", key="customer"),
    dead_letter="orders.bad",
)
def clean(orders: DataFrame) -> DataFrame:
    return (
        orders.where("amount > 0")
        .withColumn("customer", f.lower(f.trim("customer")))
        .withColumn("country", f.coalesce(f.upper("country"), f.lit("??")))
        .withColumn("amount", f.round("amount", 2))
    )
