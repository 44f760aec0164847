"""Enrich: join a stream with a table that does not stream.

The table is read once, when the pipeline starts; start it again after the file has changed.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from ottla import pipeline

CUSTOMERS = Path(__file__).with_name("customers.csv")

orders = pipeline.topic("orders.clean", "id long not null, customer string, amount double")


@pipeline.table
def customers(spark: SparkSession) -> DataFrame:
    return spark.read.csv(
        str(CUSTOMERS), header=True, schema="customer string, segment string, discount double"
    )


@pipeline.step(source=[orders, customers], sink=pipeline.to("orders.priced", key="customer"))
def priced(orders: DataFrame, customers: DataFrame) -> DataFrame:
    known = orders.join(f.broadcast(customers), "customer", "left")
    discount = f.coalesce("discount", f.lit(0.0))
    return known.select(
        "id",
        "customer",
        f.coalesce("segment", f.lit("unknown")).alias("segment"),
        f.round(f.col("amount") * (1 - discount), 2).alias("price"),
    )
