"""The pipeline of the demo: a coffee shop's revenue, by drink, for every ten seconds.

It is a pipeline like any other: `ottla pipeline plan` shows it, `ottla pipeline run` runs it.
"""

from typing import TYPE_CHECKING

from ottla import pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

orders = pipeline.topic(
    "orders",
    "id long not null, drink string not null, cups int not null, at timestamp not null",
    watermark=("at", "10 seconds"),
)


@pipeline.table
def menu(spark: "SparkSession") -> "DataFrame":
    """What a cup costs."""
    return spark.sql(
        "SELECT * FROM VALUES ('espresso', 220L), ('lungo', 260L), ('cappuccino', 340L), "
        "('water', 150L) AS menu (drink, cents)"
    )


@pipeline.step(
    source=[orders, menu],
    sink=pipeline.to("revenue", key="drink"),
    dead_letter="orders.bad",
)
def revenue(orders: "DataFrame", menu: "DataFrame") -> "DataFrame":
    """Orders and cents by drink and window; a row that is not on the menu counts nothing."""
    from pyspark.sql import functions as f

    priced = orders.join(f.broadcast(menu), "drink")
    windows = priced.groupBy(f.window("at", "10 seconds"), "drink")
    totals = windows.agg(
        f.count(f.lit(1)).alias("orders"), f.sum(f.col("cups") * f.col("cents")).alias("cents")
    )
    return totals.select(
        f.unix_millis(f.col("window.start")).alias("window_ms"), "drink", "orders", "cents"
    )
