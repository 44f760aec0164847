"""Produce.  Leaving the block waits for every acknowledgment, and raises if one record failed."""

import ottla

with ottla.Producer(value_serde=ottla.JSON, key_serde=ottla.UTF8) as producer:
    for i in range(1_000):
        producer.send("orders", {"id": i, "amount": 9.5}, key=f"customer-{i % 10}")
