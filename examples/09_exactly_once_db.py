"""Exactly once into a database: rows and offsets in one transaction of the database.

The update of an offset is a compare-and-set, so a consumer that lost its partition, and does not
know it yet, is fenced.  On PostgreSQL the statements are the same but for `%s` in place of `?` and
`insert into ... on conflict do nothing` in place of `insert or ignore`.
"""

import os
import sqlite3
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any

import ottla


class SqliteOffsets(ottla.OffsetStore):
    """Offsets in a table of their own."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        db.execute(
            "create table if not exists ottla_offsets"
            "(grp, topic, part int, next int, primary key(grp, topic, part))"
        )

    def load(
        self, group_id: str, partitions: Collection[ottla.TopicPartition]
    ) -> Mapping[ottla.TopicPartition, int]:
        rows = self.db.execute(
            "select topic, part, next from ottla_offsets where grp = ?", (group_id,)
        )
        known = {ottla.TopicPartition(topic, part): offset for topic, part, offset in rows}
        return {tp: offset for tp, offset in known.items() if tp in partitions}

    def save(self, group_id: str, batch: ottla.Batch[Any, Any]) -> None:
        for tp, offset in batch.next_offsets.items():
            start = batch.start_offsets[tp]  # where the last batch ended: holes do not matter
            self.db.execute(
                "insert or ignore into ottla_offsets values(?, ?, ?, ?)", (group_id, *tp, start)
            )
            moved = self.db.execute(
                "update ottla_offsets set next = ? "
                "where grp = ? and topic = ? and part = ? and next = ?",
                (offset, group_id, *tp, start),
            )
            if moved.rowcount != 1:
                raise ottla.FencedError(f"{tp} is not at {start} any more: somebody else moved it")


with closing(sqlite3.connect(os.environ.get("ORDERS_DB", "orders.db"))) as db:
    db.execute("create table if not exists orders(body)")
    offsets = SqliteOffsets(db)
    with ottla.Consumer(
        "orders",
        group_id="loader",
        offset_store=offsets,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        for batch in consumer.batches(max_records=4):
            with db:  # commits, or rolls back
                db.executemany("insert into orders values(?)", [(r.value,) for r in batch])
                offsets.save("loader", batch)
