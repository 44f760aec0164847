"""Consume, transform, produce, exactly once.  An error aborts, rewinds the consumer, and is raised.

Offsets and the identity of the group (KIP-447) go into the transaction by themselves.
"""

import ottla


def enrich(order: dict[str, object]) -> dict[str, object]:
    return {**order, "country": "CZ"}


with (
    ottla.Consumer(
        "orders",
        group_id="enricher",
        value_serde=ottla.JSON,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    ) as consumer,
    ottla.Producer(transactional_id="enricher-1", value_serde=ottla.JSON) as producer,
):
    for batch in consumer.batches(max_records=500):
        with producer.transaction(batch) as tx:
            for record in batch:
                tx.send("orders.enriched", enrich(record.value), key=record.key)
