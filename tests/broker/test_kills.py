"""A real broker process under load, killed again and again: nothing acknowledged may be lost.

`SIGKILL` stops the process between any two instructions; the operating system lives on, so what
this proves is that no answer leaves before its records, no record lands in two places, and the
next start makes sense of whatever the last one left.  Loss of power is for the simulation.

A few rounds run by default; `OTTLA_KILL_ROUNDS=50` asks for more, and `OTTLA_KILL_SEED` for others.
"""

import os
import random
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.records.batch import batches
from ottla.testing.history import Anomaly, Finding, Operation, Outcome, Polled, Sent, check
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceRequest
from tests.broker.served import ServedBroker
from tests.broker.wire_client import PRODUCE_VERSION, WireClient, batch_of, produce_request

ROUND_COUNT = int(os.environ.get("OTTLA_KILL_ROUNDS", "4"))
SEED = int(os.environ.get("OTTLA_KILL_SEED", "1"))
TOPIC, PARTITION_COUNT = "ledger", 3
WRITER_COUNT = 4
PIPELINED = 4
SECONDS_PER_ROUND = 60
PATIENCE_S = 120

pytestmark = pytest.mark.timeout(120 + ROUND_COUNT * SECONDS_PER_ROUND)


@dataclass
class Ledger:
    """What the writers sent, and what became of it."""

    operations: list[Operation] = field(default_factory=list)
    acknowledged_count: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def add(self, operation: Operation) -> None:
        with self.changed:
            self.operations.append(operation)
            if operation.outcome is Outcome.OK:
                self.acknowledged_count += 1
            self.changed.notify_all()

    def wait_for_acknowledgements(self, count: int) -> None:
        """Wait for so many more."""
        with self.changed:
            target = self.acknowledged_count + count
            assert self.changed.wait_for(
                lambda: self.acknowledged_count >= target, timeout=PATIENCE_S
            )


class Writer:
    """One connection that produces, several requests at a time, until the broker is gone."""

    def __init__(self, name: str, address: str, ledger: Ledger, rng: random.Random) -> None:
        self._name = name
        self._address = address
        self._ledger = ledger
        self._rng = rng
        self._sent_count = 0
        self._waiting: list[tuple[int, int, list[bytes]]] = []

    def run(self) -> None:
        try:
            with WireClient(self._address) as client:
                while True:
                    while len(self._waiting) < PIPELINED:
                        self._send(client)
                    self._receive(client)
        except (ConnectionError, TimeoutError):
            for _, partition, values in self._waiting:
                self._note(partition, values, base_offset=None)

    def _send(self, client: WireClient) -> None:
        partition = self._rng.randrange(PARTITION_COUNT)
        values = [self._value() for _ in range(self._rng.choice((1, 1, 2, 20)))]
        padding = bytes(self._rng.choice((0, 10, 5_000)))
        request = produce_request(
            TOPIC, batch_of(*(value + padding for value in values)), partition=partition
        )
        self._waiting.append((0, partition, values))
        correlation_id = client.send(request, PRODUCE_VERSION)
        self._waiting[-1] = (correlation_id, partition, values)

    def _value(self) -> bytes:
        self._sent_count += 1
        return b"%s/%d;" % (self._name.encode(), self._sent_count)

    def _receive(self, client: WireClient) -> None:
        answered, answer = client.receive(ProduceRequest, PRODUCE_VERSION)
        result = answer.responses[0].partition_responses[0]
        correlation_id, partition, values = self._waiting.pop(0)
        assert answered == correlation_id
        assert result.error_code == ErrorCode.NONE, ErrorCode(result.error_code)
        self._note(partition, values, result.base_offset)

    def _note(self, partition: int, values: list[bytes], base_offset: int | None) -> None:
        sends = tuple(
            Sent(str(partition), value, None if base_offset is None else base_offset + index)
            for index, value in enumerate(values)
        )
        outcome = Outcome.UNKNOWN if base_offset is None else Outcome.OK
        self._ledger.add(Operation(process=self._name, outcome=outcome, sends=sends))


@contextmanager
def writing(address: str, ledger: Ledger, round_name: str, rng: random.Random) -> Iterator[None]:
    """Writers at work; on the way out they end by themselves, because the broker was killed."""
    threads = []
    for number in range(WRITER_COUNT):
        name = f"{round_name}-{number}"
        writer = Writer(name, address, ledger, random.Random(rng.randrange(2**32)))
        threads.append(threading.Thread(target=writer.run, name=name, daemon=True))
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def everything_in(client: WireClient, partition: int) -> list[Polled]:
    """All records of a partition, from its start to its end."""
    polled: list[Polled] = []
    while True:
        offset = polled[-1].offset + 1 if polled else 0
        fetched = client.fetch(TOPIC, offset, partition=partition)
        assert fetched.error_code == ErrorCode.NONE, ErrorCode(fetched.error_code)
        if not fetched.records:
            assert fetched.high_watermark == offset, "everything up to the end was read"
            return polled
        for batch in batches(bytes(fetched.records), partial_tail=False):
            for record in batch.records():
                value = bytes(record[3] or b"").partition(b";")[0] + b";"
                polled.append(Polled(str(partition), value, record[0]))


def polls_of(address: str, process: str) -> Operation:
    """What a fresh client reads; offsets must be dense."""
    polls: list[Polled] = []
    with WireClient(address) as client:
        for partition in range(PARTITION_COUNT):
            found = everything_in(client, partition)
            assert [poll.offset for poll in found] == list(range(len(found))), "offsets are dense"
            polls += found
    return Operation(process=process, polls=tuple(polls))


def findings_of(ledger: Ledger, polls: Sequence[Operation]) -> list[Finding]:
    # Two pipelined requests of one writer may not be reordered, so SEND_NONMONOTONIC counts, too.
    return check([*ledger.operations, *polls])


def start(data_dir: Path) -> ServedBroker:
    return ServedBroker(data_dir, log_flush_offset_checkpoint_interval_ms=50)


def create_ledger_topic(address: str) -> None:
    with WireClient(address) as client:
        error = client.create_topic(
            TOPIC, partition_count=PARTITION_COUNT, segment_bytes=1024 * 1024
        )
        assert error == ErrorCode.NONE


def test_nothing_acknowledged_is_lost_when_the_broker_is_killed_under_load(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    data_dir, ledger = tmp_path / "data", Ledger()
    for number in range(ROUND_COUNT):
        with start(data_dir) as broker:
            if number == 0:
                create_ledger_topic(broker.bootstrap_servers)
            before = polls_of(broker.bootstrap_servers, f"reader {number}")
            assert findings_of(ledger, [before]) == []
            with writing(broker.bootstrap_servers, ledger, f"round {number}", rng):
                ledger.wait_for_acknowledgements(rng.randrange(1, 400))
                broker.kill()

    with start(data_dir) as broker:
        last = polls_of(broker.bootstrap_servers, "last reader")
        assert broker.stop() == 0
    assert findings_of(ledger, [last]) == []
    assert ledger.acknowledged_count > 0


def test_what_was_read_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    """A record that somebody saw never changes its offset and never disappears."""
    data_dir, ledger, rng = tmp_path / "data", Ledger(), random.Random(SEED + 1)
    seen: list[Operation] = []
    for number in range(min(ROUND_COUNT, 10)):
        with start(data_dir) as broker:
            if number == 0:
                create_ledger_topic(broker.bootstrap_servers)
            with writing(broker.bootstrap_servers, ledger, f"round {number}", rng):
                ledger.wait_for_acknowledgements(rng.randrange(1, 50))
                # The writers go on while this reader looks.
                seen.append(polls_of(broker.bootstrap_servers, f"reader {number}"))
                broker.kill()
    with start(data_dir) as broker:
        seen.append(polls_of(broker.bootstrap_servers, "last reader"))

    assert findings_of(ledger, seen) == []


def test_the_checker_notices_when_acknowledged_records_are_cut_off(tmp_path: Path) -> None:
    data_dir, ledger, rng = tmp_path / "data", Ledger(), random.Random(SEED)
    with start(data_dir) as broker:
        create_ledger_topic(broker.bootstrap_servers)
        with writing(broker.bootstrap_servers, ledger, "round 0", rng):
            ledger.wait_for_acknowledgements(100)
            broker.kill()
    for partition in range(PARTITION_COUNT):
        _cut_in_half(data_dir / f"{TOPIC}-{partition}")
    (data_dir / "recovery-point-offset-checkpoint").unlink(missing_ok=True)

    with start(data_dir) as broker:
        polls = polls_of(broker.bootstrap_servers, "reader")

    assert Anomaly.UNSEEN in {finding.anomaly for finding in findings_of(ledger, [polls])}


def _cut_in_half(folder: Path) -> None:
    """Drop the second half of the batches of a partition's first segment."""
    path = folder / f"{0:020d}.log"
    data = path.read_bytes()
    ends, position = [0], 0
    while position + 12 <= len(data) and (
        length := struct.unpack_from(">i", data, position + 8)[0]
    ):
        position += 12 + length
        ends.append(position)
    path.write_bytes(data[: ends[len(ends) // 2]])


@dataclass
class Topics:
    """Which topics must exist, which must not, and which may."""

    present: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    filled: set[str] = field(default_factory=set)
    """Those whose record was acknowledged."""
    change_count: int = 0


def change_topics(
    address: str, topics: Topics, round_number: int, reached: threading.Event
) -> None:
    """Create topics and delete every other one until the broker is gone."""
    name = ""
    try:
        with WireClient(address) as client:
            for number in range(10_000):
                name = f"topic-{round_number}-{number}"
                assert client.create_topic(name, partition_count=3) == ErrorCode.NONE
                topics.present.add(name)
                assert client.produce(name, batch_of(name.encode())).error_code == ErrorCode.NONE
                topics.filled.add(name)
                if number % 2:
                    topics.present.discard(name)
                    request = DeleteTopicsRequest(topic_names=(name,), timeout_ms=10_000)
                    (result,) = client.ask(request, 5).responses
                    assert result.error_code == ErrorCode.NONE
                    topics.absent.add(name)
                topics.change_count += 1
                if topics.change_count >= 5:
                    reached.set()
    except (ConnectionError, TimeoutError):
        if name not in topics.present | topics.absent:
            topics.unknown.add(name)


def test_topics_that_are_created_or_deleted_at_a_kill_are_there_or_gone(tmp_path: Path) -> None:
    rng = random.Random(SEED + 2)
    data_dir, topics = tmp_path / "data", Topics()
    for number in range(ROUND_COUNT):
        with start(data_dir) as broker:
            check_topics(broker.bootstrap_servers, data_dir, topics)
            topics.change_count = -rng.randrange(20)
            reached = threading.Event()
            changer = threading.Thread(
                target=change_topics,
                args=(broker.bootstrap_servers, topics, number, reached),
                daemon=True,
            )
            changer.start()
            assert reached.wait(PATIENCE_S)
            broker.kill()
            changer.join(PATIENCE_S)
            assert not changer.is_alive()
    with start(data_dir) as broker:
        check_topics(broker.bootstrap_servers, data_dir, topics)
    assert topics.present
    assert topics.absent


def check_topics(address: str, data_dir: Path, topics: Topics) -> None:
    """Compare what exists with what was acknowledged; every topic must work."""
    with WireClient(address) as client:
        found = {topic.name for topic in client.ask(MetadataRequest(topics=None), 8).topics}
        assert topics.present <= found <= topics.present | topics.unknown
        assert not found & topics.absent
        for name in sorted(found):
            values = client.values(name)
            assert values in ([name.encode()], []), values
            assert values or name not in topics.filled
            assert [client.values(name, partition=index) for index in (1, 2)] == [[], []]
    topics.present, topics.unknown = found, set()
    folders = {path.name for path in data_dir.iterdir() if path.is_dir()}
    assert folders == {f"{name}-{index}" for name in found for index in range(3)}
