"""Consume, transform, produce, exactly once, in asyncio."""

import asyncio

import ottla


async def main() -> None:
    async with (
        ottla.AsyncConsumer(
            "orders", group_id="enricher", enable_auto_commit=False, auto_offset_reset="earliest"
        ) as consumer,
        ottla.AsyncProducer(transactional_id="enricher-1") as producer,
    ):
        async for batch in consumer.batches(max_records=500):
            async with producer.transaction(batch) as tx:
                for record in batch:
                    await tx.send("orders.enriched", record.value, key=record.key)


asyncio.run(main())
