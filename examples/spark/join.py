"""Join two streams: which orders were paid within the hour.

Both need a watermark, and the join a bound in time, or Spark would have to remember everything.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from ottla import pipeline

orders = pipeline.topic(
    "orders.clean",
    "id long not null, amount double, at timestamp not null",
    watermark=("at", "10 minutes"),
)
payments = pipeline.topic(
    "payments",
    "order_id long not null, paid double, paid_at timestamp not null",
    watermark=("paid_at", "10 minutes"),
)


@pipeline.step(source=[orders, payments], sink=pipeline.to("orders.paid", key="id"))
def paid(orders: DataFrame, payments: DataFrame) -> DataFrame:
    in_time = f.expr("order_id = id AND paid_at BETWEEN at AND at + INTERVAL 1 HOUR")
    return orders.join(payments, in_time).select("id", "amount", "paid", "paid_at")
