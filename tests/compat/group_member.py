"""A member of a consumer group in a process of its own, so that it can be killed.

    python -m tests.compat.group_member '{"client": "kafka-python", ...}'

It tells on its standard output, one line of JSON each, what was assigned to it, what was revoked,
and what it read; offsets are committed after every poll.  It leaves when its standard input ends,
and says before that it reads no more: the others may have its partitions while it still leaves.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import confluent_kafka

POLL_MS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """Who the member is."""

    client: str
    bootstrap_servers: str
    group: str
    topic: str
    instance_id: str | None = None
    cooperative: bool = False
    is_new: bool = False  # it speaks the protocol of KIP-848
    session_timeout_ms: int = 60_000

    def as_json(self) -> str:
        return json.dumps(asdict(self))


_stopping = threading.Event()


def tell(event: str, what: object) -> None:
    """The time is the system's, so that the times of several processes can be compared."""
    sys.stdout.write(json.dumps({"event": event, "what": what, "at": time.monotonic()}) + "\n")
    sys.stdout.flush()


def _tell_partitions(event: str, partitions: Iterable[Any]) -> None:
    tell(event, sorted(p.partition for p in partitions))


def _tell_records(records: Iterable[Any]) -> None:
    for record in records:
        tell("record", [record.partition, record.offset])


class _Listener:
    """What kafka-python calls; aiokafka's has the same methods, asynchronous."""

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        _tell_partitions("revoked", revoked)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        _tell_partitions("revoked", lost)

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        _tell_partitions("assigned", assigned)


def run_kafka_python(settings: MemberSettings) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import CommitFailedError, KafkaConnectionError

    class Listener(_Listener, ConsumerRebalanceListener):  # type: ignore[misc]
        pass

    consumer = KafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers,
        group_id=settings.group,
        group_instance_id=settings.instance_id,
        partition_assignment_strategy=[RangePartitionAssignor],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=200,
    )
    consumer.subscribe([settings.topic], listener=Listener())
    while not _stopping.is_set():
        # While there is no broker both raise instead of trying again; a commit that comes after a
        # rebalance is refused, and whoever has the partition now reads it again.
        with suppress(KafkaConnectionError, CommitFailedError):
            polled = consumer.poll(POLL_MS)
            if consumer._coordinator.rejoining:
                # A join that is under way when a poll ends may be forgotten (3.0.12): it would own
                # nothing for ever.
                consumer._coordinator.request_rejoin()
            for records in polled.values():
                _tell_records(records)
            if polled:
                consumer.commit()  # where it fails, the next one covers it
    tell("stopped", None)
    consumer.close()


def run_aiokafka(settings: MemberSettings) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import CommitFailedError, IllegalStateError

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            _tell_partitions("revoked", revoked)

        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            _tell_partitions("assigned", assigned)

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=settings.bootstrap_servers,
            group_id=settings.group,
            group_instance_id=settings.instance_id,
            partition_assignment_strategy=(RangePartitionAssignor,),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=200,
        )
        consumer.subscribe([settings.topic], listener=Listener())
        await consumer.start()
        while not _stopping.is_set():
            polled = await consumer.getmany(timeout_ms=POLL_MS)
            for records in polled.values():
                _tell_records(records)
            if polled:
                with suppress(CommitFailedError, IllegalStateError):  # as above
                    await consumer.commit()
        tell("stopped", None)
        await consumer.stop()

    asyncio.run(run())


def run_confluent(settings: MemberSettings) -> None:
    strategy = "cooperative-sticky" if settings.cooperative else "range"
    given: dict[str, Any] = {
        "bootstrap.servers": settings.bootstrap_servers,
        "group.id": settings.group,
        "partition.assignment.strategy": strategy,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": settings.session_timeout_ms,
        "heartbeat.interval.ms": 200,
    }
    if settings.is_new:
        for name in (
            "partition.assignment.strategy",
            "session.timeout.ms",
            "heartbeat.interval.ms",
        ):
            del given[name]  # the broker decides
        given["group.protocol"] = "consumer"
    if settings.instance_id is not None:
        given["group.instance.id"] = settings.instance_id
    consumer = confluent_kafka.Consumer(given)
    consumer.subscribe(
        [settings.topic],
        on_assign=lambda _, partitions: _tell_partitions("assigned", partitions),
        on_revoke=lambda _, partitions: _tell_partitions("revoked", partitions),
        on_lost=lambda _, partitions: _tell_partitions("revoked", partitions),
    )
    while not _stopping.is_set():
        message = consumer.poll(POLL_MS / 1000)
        if message is None:
            continue
        if (error := message.error()) is not None:
            tell("error", str(error))
            continue
        tell("record", [message.partition(), message.offset()])
        consumer.commit(message=message)
    tell("stopped", None)
    consumer.close()


RUNNERS: dict[str, Callable[[MemberSettings], None]] = {
    "confluent-kafka": run_confluent,
    "kafka-python": run_kafka_python,
    "aiokafka": run_aiokafka,
}


def main() -> None:
    settings = MemberSettings(**json.loads(sys.argv[1]))

    def wait_for_the_end() -> None:
        sys.stdin.read()
        _stopping.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    RUNNERS[settings.client](settings)
    tell("left", None)


if __name__ == "__main__":
    main()
