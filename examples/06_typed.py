"""Typed records: one serde for both directions; a record that cannot be read is put aside."""

from pydantic import BaseModel

import ottla


class Order(BaseModel):
    id: int
    amount: float


with (
    ottla.Producer() as dead_letters,
    ottla.Consumer(
        "orders", group_id="fraud", value_serde=ottla.pydantic(Order), auto_offset_reset="earliest"
    ) as consumer,
):
    while True:
        try:
            record = next(consumer)
            if record.value.amount > 10_000:
                print("suspicious", record.value.id)
        except ottla.SerializationError as e:
            if e.record is not None:
                dead_letters.send("orders.dlq", e.record.value, headers={"error": str(e)})
