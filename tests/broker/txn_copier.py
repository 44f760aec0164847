"""Consume, transform, produce, in a process of its own, so that it can be killed.

    python -m tests.broker.txn_copier '{"bootstrap_servers": ...}'

It copies each partition of a topic to the same partition of another, some records a transaction,
and tells on its standard output every step it has done.  Whatever goes wrong, it ends: its
successor begins where the last committed transaction has brought the group.
"""

import json
import random
import sys
from dataclasses import asdict, dataclass
from typing import Any

import confluent_kafka

TIMEOUT_S = 30
MAX_RECORDS = 20
STEPS = ("joined", "idle", "begun", "polled", "sent", "offsets", "committed")
PAUSED_AFTER = ("begun", "sent", "offsets")
"""The middle of a transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopierSettings:
    """What to copy, and how; without transactions it copies twice what a kill interrupts."""

    bootstrap_servers: str
    source: str
    target: str
    is_transactional: bool = True
    hangs_after: str = ""
    """A step after which it does nothing more, for those who want to kill it there."""
    pauses: float = 0.0
    """How likely it is to pause in the middle, until it gets a line on its standard input."""
    seed: int = 0

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def transformed(value: bytes) -> bytes:
    return b"copy of " + value


class Copier:
    """One consumer, one producer.  Both have names that the next process has, too."""

    def __init__(self, settings: CopierSettings) -> None:
        self._settings = settings
        self._rng = random.Random(settings.seed)
        shared: dict[str, Any] = {
            "bootstrap.servers": settings.bootstrap_servers,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            # With it, librdkafka 2.x forgets its brokers when all are down, and some of what waits
            # for a coordinator with them: it then hangs until it times out.
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
        named = {"transactional.id": "copier"} if settings.is_transactional else {}
        self._producer = confluent_kafka.Producer({**shared, **named, "linger.ms": 0})
        # Fences whoever was there before, and ends what it has left open.
        if settings.is_transactional:
            self._producer.init_transactions(TIMEOUT_S)
        self._consumer = confluent_kafka.Consumer(
            {
                **shared,
                "group.id": "copiers",
                "group.instance.id": "copier",  # takes the place of the one that was killed
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
            }
        )
        self._consumer.subscribe([settings.source])
        self._tell("joined")

    def run(self) -> None:
        """Copy for ever."""
        while True:
            messages = self._consumer.consume(self._rng.randint(1, MAX_RECORDS), timeout=0.05)
            for message in messages:
                if (error := message.error()) is not None:
                    raise confluent_kafka.KafkaException(error)
            self._tell("polled" if messages else "idle")
            if messages:
                self._copy(messages)

    def _copy(self, messages: list[confluent_kafka.Message]) -> None:
        if self._settings.is_transactional:
            self._producer.begin_transaction()
        for message in messages:
            self._producer.produce(
                self._settings.target,
                transformed(message.value() or b""),
                partition=message.partition() or 0,
            )
            if self._rng.random() < 0.1:  # else it is sent while we do something else
                assert self._producer.flush(TIMEOUT_S) == 0
                self._tell("begun")
        if not self._settings.is_transactional:
            assert self._producer.flush(TIMEOUT_S) == 0
        self._tell("sent")
        if not self._settings.is_transactional:
            self._consumer.commit(asynchronous=False)
            self._tell("committed")
            return
        self._producer.send_offsets_to_transaction(
            self._consumer.position(self._consumer.assignment()),
            self._consumer.consumer_group_metadata(),
            TIMEOUT_S,
        )
        self._tell("offsets")
        self._producer.commit_transaction(TIMEOUT_S)
        self._tell("committed")

    def _tell(self, step: str) -> None:
        assert step in STEPS
        _say(step)
        if step == self._settings.hangs_after:
            sys.stdin.read()
        if step in PAUSED_AFTER and self._rng.random() < self._settings.pauses:
            _say("paused")
            sys.stdin.readline()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    Copier(CopierSettings(**json.loads(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
