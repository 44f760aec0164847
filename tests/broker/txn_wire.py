"""A transactional producer that can say anything, at any moment, in either version.

It keeps the producer id and epoch that it was given and counts sequence numbers, as clients do;
whoever wants to lie sets `producer` or says so in the call.  As clients do, too, it asks again
while the last transaction still ends: brokers wait before they answer, but not for a slow disk.
"""

import time
from collections import Counter
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

from ottla.errors import ErrorCode
from ottla.records.batch import Batch, batches
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.fetch import AbortedTransaction, PartitionData
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.wire_client import WireClient, batch_of

A = TypeVar("A")

READ_COMMITTED: Final = 1
INIT_VERSION: Final = 6
PATIENCE_MS: Final = 10_000
PATIENCE_S: Final = 60.0


class Versions(NamedTuple):
    """Of the requests that stand for one version of the protocol."""

    produce: int
    end: int
    commit_offsets: int


class Version(Enum):
    """Of the transaction protocol."""

    ONE = Versions(produce=9, end=3, commit_offsets=3)
    ABORTABLE = Versions(produce=11, end=4, commit_offsets=4)
    """Version 1 of a client that knows TRANSACTION_ABORTABLE."""
    TWO = Versions(produce=12, end=5, commit_offsets=5)


class Identity(NamedTuple):
    """What a producer shows."""

    producer_id: int
    epoch: int

    @property
    def before(self) -> "Identity":
        return Identity(self.producer_id, self.epoch - 1)

    @property
    def after(self) -> "Identity":
        return Identity(self.producer_id, self.epoch + 1)


class TxnWire:
    """The producer of one transactional id, over one connection."""

    def __init__(
        self, client: WireClient, transactional_id: str, *, version: Version = Version.TWO
    ) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.versions: Versions = version.value
        self.producer = Identity(-1, -1)
        self._next_sequences: Counter[tuple[str, int]] = Counter()

    def init(self, *, timeout_ms: int = 60_000, **changes: Any) -> InitProducerIdResponse:
        """InitProducerId; `changes` are its other fields."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms, **changes
        )
        answer: InitProducerIdResponse = insist(
            lambda: self.client.ask(request, INIT_VERSION), lambda answer: answer.error_code
        )
        if not answer.error_code:
            self.become(Identity(answer.producer_id, answer.producer_epoch))
        return answer

    def become(self, producer: Identity) -> None:
        """Show this from now on; sequence numbers begin anew with each epoch."""
        if producer != self.producer:
            self._next_sequences.clear()
        self.producer = producer

    def request(
        self, topic: str, *values: bytes, partition: int = 0, acks: int = -1
    ) -> ProduceRequest:
        """A Produce request with the next sequence numbers."""
        data = PartitionProduceData(index=partition, records=self.batch(topic, partition, *values))
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=acks,
            timeout_ms=10_000,
            topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
        )

    def batch(self, topic: str, partition: int, *values: bytes) -> bytearray:
        sequence = self._next_sequences[topic, partition]
        self._next_sequences[topic, partition] += len(values)
        return batch_of(
            *values,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )

    def produce(self, topic: str, *values: bytes, partition: int = 0) -> PartitionProduceResponse:
        request = self.request(topic, *values, partition=partition)

        def ask() -> PartitionProduceResponse:
            answer = self.client.ask(request, self.versions.produce)
            result: PartitionProduceResponse = answer.responses[0].partition_responses[0]
            return result

        return insist(ask, lambda result: result.error_code)

    def add(self, *places: tuple[str, int]) -> list[ErrorCode]:
        """AddPartitionsToTxn of version 1: the error of each partition."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=tuple(
                AddPartitionsToTxnTopic(name=name, partitions=(index,)) for name, index in places
            ),
        )

        def ask() -> list[ErrorCode]:
            answer = self.client.ask(request, 3)
            return [
                ErrorCode(result.partition_error_code)
                for topic in answer.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            ]

        return insist(ask, lambda codes: codes[0])

    def add_offsets(self, group: str) -> ErrorCode:
        """AddOffsetsToTxn, of version 1."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            group_id=group,
        )
        return insist(lambda: ErrorCode(self.client.ask(request, 3).error_code), lambda code: code)

    def commit_offset(
        self, group: str, topic: str, offset: int, *, version: int | None = None
    ) -> ErrorCode:
        """TxnOffsetCommit for partition 0, in the name of no member."""
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=None
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            topics=(TxnOffsetCommitRequestTopic(name=topic, partitions=(partition,)),),
        )

        def ask() -> ErrorCode:
            answer = self.client.ask(request, version or self.versions.commit_offsets)
            return ErrorCode(answer.topics[0].partitions[0].error_code)

        return insist(ask, lambda code: code)

    def end(
        self, *, commit: bool, producer: Identity | None = None, version: int | None = None
    ) -> EndTxnResponse:
        """EndTxn, as whoever is told; does not take the epoch from the answer."""
        shown = producer or self.producer
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=shown.producer_id,
            producer_epoch=shown.epoch,
            committed=commit,
        )
        answer: EndTxnResponse = insist(
            lambda: self.client.ask(request, version or self.versions.end),
            lambda answer: answer.error_code,
        )
        return answer

    def finish(self, *, commit: bool = True) -> None:
        """EndTxn that must succeed, as a client does it."""
        answer = self.end(commit=commit)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        if self.versions == Version.TWO.value:
            self.become(Identity(answer.producer_id, answer.producer_epoch))

    def described(self) -> Any:
        """What DescribeTransactions says of the id."""
        request = DescribeTransactionsRequest(transactional_ids=(self.transactional_id,))
        (state,) = self.client.ask(request, 0).transaction_states
        return state

    @property
    def state(self) -> str:
        return str(self.described().transaction_state)


def insist(ask: Callable[[], A], code_of: Callable[[A], int]) -> A:
    """Ask again while the answer is CONCURRENT_TRANSACTIONS, but not for ever."""
    deadline_s = time.monotonic() + PATIENCE_S
    while code_of(answer := ask()) == ErrorCode.CONCURRENT_TRANSACTIONS:
        if time.monotonic() > deadline_s:
            break
    return answer


def committed(
    client: WireClient, topic: str, *, offset: int = 0, **changes: Any
) -> list[bytes | None]:
    """The values that a read_committed consumer hands out, from `offset` to what it is shown."""
    values: list[bytes | None] = []
    while True:
        fetched = client.fetch(topic, offset, isolation_level=READ_COMMITTED, **changes)
        assert fetched.error_code == ErrorCode.NONE, ErrorCode(fetched.error_code)
        found = list(batches(bytes(fetched.records or b""), partial_tail=False))
        values += _kept(found, [(a.first_offset, a.producer_id) for a in _aborted(fetched)])
        if not found:
            assert offset == fetched.last_stable_offset, "everything up to there was read"
            return values
        offset = found[-1].last_offset + 1


def wait_until_stable(client: WireClient, topic: str, *, partition: int = 0) -> None:
    """Wait until every transaction in a partition has its marker.

    EndTxn is answered when the outcome is durable; the markers are durable a moment later.
    """
    while True:
        fetched = client.fetch(topic, partition=partition)
        stable_offset = fetched.last_stable_offset
        if stable_offset == fetched.high_watermark:
            return
        client.fetch(
            topic,
            stable_offset,
            partition=partition,
            isolation_level=READ_COMMITTED,
            max_wait_ms=PATIENCE_MS,
        )


def _aborted(fetched: PartitionData) -> tuple[AbortedTransaction, ...]:
    assert fetched.aborted_transactions is not None
    return fetched.aborted_transactions


def _kept(found: list[Batch], aborted: list[tuple[int, int]]) -> list[bytes | None]:
    """What is left without the aborted transactions: as clients do it, in one pass."""
    dropping: set[int] = set()
    values: list[bytes | None] = []
    for batch in found:
        while aborted and aborted[0][0] <= batch.last_offset:
            dropping.add(aborted.pop(0)[1])
        if batch.is_control:
            dropping.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in dropping):
            values += [
                None if record[3] is None else bytes(record[3]) for record in batch.records()
            ]
    return values
