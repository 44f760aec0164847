"""Producers of the table `load`: confluent-kafka with any compression and any acks.

Their values are like those of events in JSON: a third of what they are, or less, when compressed.
"""

import random
from typing import Any, ClassVar

from bench.blast import TIMEOUT_S
from bench.contest import Contestant
from bench.writers import LINGER_MS, ConfluentWriting

COMPRESSIONS = ("none", "lz4", "zstd")
ACKS = ("all", "1")
DIFFERENT_BYTES = 5_000_000
"""How much is written before it comes again: more than any compressor looks back at once."""
MAX_DIFFERENT_COUNT = 10_000


def events(record_bytes: int) -> list[bytes]:
    """Values of exactly so many bytes, always the same ones."""
    chance = random.Random(record_bytes)
    count = max(10, min(MAX_DIFFERENT_COUNT, DIFFERENT_BYTES // record_bytes))
    return [_event(chance, record_bytes) for _ in range(count)]


def _event(chance: random.Random, record_bytes: int) -> bytes:
    parts = bytearray()
    while len(parts) < record_bytes:
        parts += (
            f'{{"order":{chance.getrandbits(40)},"table":"table-{chance.randrange(50)}",'
            f'"state":"{chance.choice(("ordered", "brewing", "served", "paid"))}",'
            f'"cents":{chance.randrange(10_000)}}}'
        ).encode()
    return bytes(parts[:record_bytes])


class LoadWriting(ConfluentWriting):
    """Writes events; `count` is any number."""

    compression: ClassVar[str]
    acks: ClassVar[str]

    def values_to_write(self) -> list[bytes]:
        return events(self.record_bytes)

    def open(self) -> None:
        import confluent_kafka

        settings: dict[str, Any] = {
            "bootstrap.servers": self.address,
            "acks": self.acks,
            "enable.idempotence": self.acks == "all",
            "compression.type": self.compression,
            "linger.ms": LINGER_MS,
            "queue.buffering.max.messages": 10_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
        }
        self.producer = confluent_kafka.Producer(settings)
        self.producer.list_topics(self.topic, timeout=TIMEOUT_S)

    def write(self, count: int) -> None:
        produce, topic, values = self.producer.produce, self.topic, self.values
        whole, rest = divmod(count, len(values))
        for _ in range(whole):
            for value in values:
                produce(topic, value)
        for value in values[:rest]:
            produce(topic, value)
        self.flush()


def name_of(compression: str, acks: str) -> str:
    return f"Load-{compression}-{acks}"


LOAD_WRITERS: tuple[type[Contestant], ...] = tuple(
    type(
        name_of(compression, acks),
        (LoadWriting,),
        {
            "title": f"confluent-kafka, {compression}, acks={acks}",
            "compression": compression,
            "acks": acks,
        },
    )
    for compression in COMPRESSIONS
    for acks in ACKS
)
