"""Arrow in: one columnar batch for each poll, no Python object for each record."""

# pyright: basic, reportAttributeAccessIssue=false
# because pyarrow comes without types.

import pyarrow as pa
import pyarrow.compute as pc

import ottla

schema = pa.schema([("id", pa.int64()), ("amount", pa.float64())])
with ottla.Consumer(
    "orders", group_id="stats", enable_auto_commit=False, auto_offset_reset="earliest"
) as consumer:
    # The columns: topic, partition, offset, timestamp, key, headers, and those of the schema.
    while True:
        batch = consumer.poll_arrow(max_records=50_000, schema=schema)
        if batch is not None:
            print(batch.num_rows, pc.sum(batch.column("amount")))
            consumer.commit(batch)
