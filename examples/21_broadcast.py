"""Broadcast inside a group: every member reads every partition, and keeps its offsets in a file.

The group still tells who is alive.  Offsets are each member's own business: those that a group
commits belong to a partition, not to a member.
"""

import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import ottla


class Broadcast(ottla.Assignor):
    """Everything to everybody."""

    name = "broadcast"

    def assign(
        self, members: Mapping[str, ottla.Member], partitions: Mapping[str, int]
    ) -> Mapping[str, Iterable[ottla.TopicPartition]]:
        return {
            member_id: [
                ottla.TopicPartition(t, p) for t in member.topics for p in range(partitions[t])
            ]
            for member_id, member in members.items()
        }


class FileOffsets(ottla.OffsetStore):
    """Offsets of one member, in a file that is replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text() if path.exists() else "[]"
        self.offsets = {ottla.TopicPartition(t, p): offset for t, p, offset in json.loads(text)}

    def load(
        self, group_id: str, partitions: Collection[ottla.TopicPartition]
    ) -> Mapping[ottla.TopicPartition, int]:
        return {tp: offset for tp, offset in self.offsets.items() if tp in partitions}

    def save(self, batch: ottla.Batch[Any, Any]) -> None:
        self.offsets |= batch.next_offsets
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps([[*tp, offset] for tp, offset in self.offsets.items()]))
        new.replace(self.path)


offsets = FileOffsets(Path(os.environ.get("OFFSETS_FILE", "offsets.json")))
with ottla.Consumer(
    "settings",
    group_id="caches",
    assignors=[Broadcast()],
    offset_store=offsets,
    auto_offset_reset="earliest",
) as consumer:
    for batch in consumer.batches():
        for record in batch:
            print(record.value)
        offsets.save(batch)
