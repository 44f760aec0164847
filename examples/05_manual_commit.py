"""A group, with a commit for each batch, and a clean stop on SIGTERM."""

import signal

import ottla

stored: list[bytes | None] = []


def store(batch: ottla.Batch) -> None:
    stored.extend(record.value for record in batch)


consumer: ottla.Consumer = ottla.Consumer(
    "orders", group_id="warehouse", enable_auto_commit=False, auto_offset_reset="earliest"
)
signal.signal(signal.SIGTERM, lambda number, frame: consumer.stop())
with consumer:
    for batch in consumer.batches(timeout=1.0, max_records=500):
        store(batch)
        consumer.commit(batch)  # where to go on is known to the batch: no offset + 1 here
print(len(stored))
