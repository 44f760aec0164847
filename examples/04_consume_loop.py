"""Consume.  A record counts as processed when the loop asks for the next one: at least once."""

import ottla

with ottla.Consumer(
    "orders", group_id="billing", value_serde=ottla.JSON, auto_offset_reset="earliest"
) as consumer:
    for record in consumer:
        print(record.timestamp, record.key, record.value["id"])
