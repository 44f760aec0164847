"""Producers that are timed: transactional ones, and idempotent ones to compare them with.

`Wire` speaks version 2 of the transaction protocol (KIP-890), which no Python library does yet, and
costs next to nothing itself: requests are made before they are timed.  `Confluent` is what users
have, and speaks version 1.
"""

import socket
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka

from bench.blast import RECORD_BYTES, TIMEOUT_S, WrongAnswerError, connected, framed
from ottla.records.builder import BatchOptions, build
from ottla.wire.frame import SIZE
from ottla.wire.header import decode_response
from ottla.wire.messages import end_txn, init_producer_id, produce
from ottla.wire.registry import ApiKey, api

PRODUCE_VERSION, END_VERSION, INIT_VERSION = 12, 5, 5
SMALL_RECORD_BYTES = 100
TRANSACTION_TIMEOUT_MS = 600_000


@dataclass(slots=True)
class Taken:
    """What a round took: all of it, and each wait for a commit or an acknowledgement."""

    wall_s: float = 0.0
    waits_s: list[float] = field(default_factory=list)
    broker_cpu_s: float = 0.0
    """As far as somebody looks at the broker meanwhile."""


class Timed(ABC):
    """A producer of one topic; with a transactional id, each group of records is a transaction."""

    def __init__(self, port: int, topic: str, transactional_id: str | None) -> None:
        self.port = port
        self.topic = topic
        self.transactional_id = transactional_id

    @abstractmethod
    def groups(self, count: int, record_count: int) -> Taken:
        """Write `count` groups of records, each when the one before is committed, or written."""

    @abstractmethod
    def close(self) -> None: ...


class Wire(Timed):
    """Requests and answers on a socket."""

    name = "wire, version 2"

    def __init__(self, port: int, topic: str, transactional_id: str | None) -> None:
        super().__init__(port, topic, transactional_id)
        self._connection = connected(port)
        self._answers = self._connection.makefile("rb")
        body = init_producer_id.InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        answer = self._ask(framed(body, INIT_VERSION), ApiKey.INIT_PRODUCER_ID, INIT_VERSION)
        _check(answer.error_code)
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
        self._sequence = 0

    def groups(self, count: int, record_count: int) -> Taken:
        requests = [self._group(record_count) for _ in range(count)]
        taken = Taken()
        begin = time.perf_counter()
        for write, end in requests:
            wait_begin = time.perf_counter()
            self._written(write)
            if end is not None:
                wait_begin = time.perf_counter()
                self._ended(end)
            taken.waits_s.append(time.perf_counter() - wait_begin)
        taken.wall_s = time.perf_counter() - begin
        return taken

    def begin(self) -> None:
        """Write one record of a transaction, and leave it open."""
        self._written(self._write(1, SMALL_RECORD_BYTES))

    def bulk(self, batch_count: int, batch_bytes: int, depth: int, batches_a_group: int) -> float:
        """Write large batches, `depth` of them under way at a time: the seconds it took."""
        groups = [
            self._large_group(batches_a_group, batch_bytes)
            for _ in range(batch_count // batches_a_group)
        ]
        begin = time.perf_counter()
        for writes, end in groups:
            answered = 0
            for sent, write in enumerate(writes, 1):
                self._connection.sendall(write)
                if sent - answered == depth:
                    self._check_written()
                    answered += 1
            for _ in range(len(writes) - answered):
                self._check_written()
            if end is not None:
                self._ended(end)
        return time.perf_counter() - begin

    def close(self) -> None:
        self._answers.close()
        self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _large_group(self, batch_count: int, batch_bytes: int) -> tuple[list[bytes], bytes | None]:
        record_count = batch_bytes // RECORD_BYTES
        writes = [self._write(record_count, RECORD_BYTES) for _ in range(batch_count)]
        return writes, self._end_request()

    def _group(self, record_count: int) -> tuple[bytes, bytes | None]:
        write = self._write(record_count, SMALL_RECORD_BYTES)
        return write, self._end_request()

    def _write(self, record_count: int, record_bytes: int) -> bytes:
        """The next produce request."""
        record = (int(time.time() * 1000), None, bytes(record_bytes - 10), ())
        options = BatchOptions(
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            is_transactional=self.transactional_id is not None,
        )
        self._sequence += record_count
        data = produce.PartitionProduceData(
            index=0, records=build([record] * record_count, options)
        )
        topic = produce.TopicProduceData(name=self.topic, partition_data=(data,))
        body = produce.ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=(topic,),
        )
        return framed(body, PRODUCE_VERSION)

    def _end_request(self) -> bytes | None:
        """The end of the transaction of what was made so far; the next one has the next epoch."""
        if self.transactional_id is None:
            return None
        body = end_txn.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=True,
        )
        self._epoch, self._sequence = self._epoch + 1, 0
        return framed(body, END_VERSION)

    def _written(self, request: bytes) -> None:
        self._connection.sendall(request)
        self._check_written()

    def _check_written(self) -> None:
        answer = self._answer(ApiKey.PRODUCE, PRODUCE_VERSION)
        _check(answer.responses[0].partition_responses[0].error_code)

    def _ended(self, request: bytes) -> None:
        _check(self._ask(request, ApiKey.END_TXN, END_VERSION).error_code)

    def _ask(self, request: bytes, key: ApiKey, version: int) -> Any:
        self._connection.sendall(request)
        return self._answer(key, version)

    def _answer(self, key: ApiKey, version: int) -> Any:
        (size_bytes,) = SIZE.unpack(self._answers.read(SIZE.size))
        return decode_response(api(key), version, self._answers.read(size_bytes))[1]


class Confluent(Timed):
    """confluent-kafka, with its defaults but for lingering."""

    name = "confluent-kafka"

    def __init__(self, port: int, topic: str, transactional_id: str | None) -> None:
        super().__init__(port, topic, transactional_id)
        settings: dict[str, Any] = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "enable.idempotence": True,
            "linger.ms": 0,
        }
        if transactional_id is not None:
            settings["transactional.id"] = transactional_id
        self._producer = confluent_kafka.Producer(settings)
        if transactional_id is not None:
            self._producer.init_transactions(TIMEOUT_S)

    def groups(self, count: int, record_count: int) -> Taken:
        value = bytes(SMALL_RECORD_BYTES)
        taken = Taken()
        begin = time.perf_counter()
        for _ in range(count):
            if self.transactional_id is not None:
                self._producer.begin_transaction()
            for _ in range(record_count):
                self._producer.produce(self.topic, value, partition=0)
            wait_begin = time.perf_counter()
            if self.transactional_id is not None:
                self._producer.commit_transaction(TIMEOUT_S)
            elif self._producer.flush(TIMEOUT_S):
                raise WrongAnswerError("not everything was written")
            taken.waits_s.append(time.perf_counter() - wait_begin)
        taken.wall_s = time.perf_counter() - begin
        return taken

    def close(self) -> None:
        self._producer.close()


def _check(error_code: int) -> None:
    if error_code:
        raise WrongAnswerError(f"error code {error_code}")
