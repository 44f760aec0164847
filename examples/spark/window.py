"""Aggregate over windows of event time, in SQL: revenue by country and minute.

A window is written once, when the watermark has passed its end: rows may be a minute late.
"""

from ottla import pipeline

orders = pipeline.topic(
    "orders.clean",
    "id long, country string, amount double, at timestamp not null",
    watermark=("at", "1 minute"),
    view="orders",
)

revenue_by_minute = pipeline.sql(
    """
    SELECT window(at, '1 minute').start AS minute, country,
           count(*) AS orders, round(sum(amount), 2) AS revenue
    FROM orders
    GROUP BY window(at, '1 minute'), country
    """,
    source=orders,
    sink=pipeline.to("revenue_by_minute", key="country"),
)
