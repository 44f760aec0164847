"""Requests of a simulated transactional producer, in both versions of the protocol."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from ottla.errors import ErrorCode
from ottla.records.builder import BatchOptions, build
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.simulation.broker_clients import Spot
from tests.simulation.txn_ledger import Write

# What stands for each version of the protocol, up to the newest that names topics.
PRODUCE_VERSIONS: Final = {1: range(9, 12), 2: range(12, 13)}
END_VERSIONS: Final = {1: range(3, 5), 2: range(5, 6)}
COMMIT_OFFSETS_VERSIONS: Final = {1: range(3, 5), 2: range(5, 6)}
INIT_VERSIONS: Final = range(3, 6)
ADD_VERSION: Final = 3
FETCH_OFFSETS_VERSION: Final = 9

ALL_REPLICAS: Final = -1
NOBODY: Final = -1

Asked = tuple[Any, int]
"""A request and its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who asks, and in which version of the protocol."""

    transactional_id: str
    version: int
    producer_id: int = NOBODY
    epoch: int = NOBODY


def init(who: Identity, timeout_ms: int, rng: Random) -> Asked:
    """With an id and an epoch, the request of a producer that goes on (KIP-360)."""
    request = InitProducerIdRequest(
        transactional_id=who.transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
    )
    return request, rng.choice(INIT_VERSIONS)


def add_partitions(who: Identity, spots: Iterable[Spot]) -> Asked:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=who.transactional_id,
        v3_and_below_producer_id=who.producer_id,
        v3_and_below_producer_epoch=who.epoch,
        v3_and_below_topics=tuple(
            AddPartitionsToTxnTopic(name=topic, partitions=tuple(indexes))
            for topic, indexes in _by_topic(spots).items()
        ),
    )
    return request, ADD_VERSION


def added_error(answer: Any) -> ErrorCode:
    codes = (
        result.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    )
    return _first_error(codes)


def produce(who: Identity, writes: Mapping[Spot, Write], now_ms: int, rng: Random) -> Asked:
    """One request with a batch for each partition."""
    request = ProduceRequest(
        transactional_id=who.transactional_id,
        acks=ALL_REPLICAS,
        timeout_ms=1000,
        topic_data=tuple(
            TopicProduceData(
                name=topic,
                partition_data=tuple(
                    PartitionProduceData(
                        index=index, records=_batch(who, writes[Spot(topic, index)], now_ms)
                    )
                    for index in indexes
                ),
            )
            for topic, indexes in _by_topic(writes).items()
        ),
    )
    return request, rng.choice(PRODUCE_VERSIONS[who.version])


def _batch(who: Identity, write: Write, now_ms: int) -> bytearray:
    options = BatchOptions(
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        base_sequence=write.sequence,
        is_transactional=True,
    )
    return build(((now_ms, None, value.encode(), ()) for value in write.values), options)


def add_offsets(who: Identity, group_id: str) -> Asked:
    request = AddOffsetsToTxnRequest(
        transactional_id=who.transactional_id,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        group_id=group_id,
    )
    return request, ADD_VERSION


def commit_offsets(
    who: Identity, group_id: str, offsets: Mapping[Spot, int], note: str, rng: Random
) -> Asked:
    """In the name of no member: the epoch alone tells who may."""
    request = TxnOffsetCommitRequest(
        transactional_id=who.transactional_id,
        group_id=group_id,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        topics=tuple(
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=tuple(
                    TxnOffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offsets[Spot(topic, index)],
                        committed_metadata=note,
                    )
                    for index in indexes
                ),
            )
            for topic, indexes in _by_topic(offsets).items()
        ),
    )
    return request, rng.choice(COMMIT_OFFSETS_VERSIONS[who.version])


def committed_error(answer: Any) -> ErrorCode:
    return _first_error(p.error_code for topic in answer.topics for p in topic.partitions)


def end(who: Identity, *, is_commit: bool, rng: Random) -> Asked:
    request = EndTxnRequest(
        transactional_id=who.transactional_id,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        committed=is_commit,
    )
    return request, rng.choice(END_VERSIONS[who.version])


def fetch_offsets(group_id: str, spots: Iterable[Spot], *, require_stable: bool) -> Asked:
    topics = tuple(
        OffsetFetchRequestTopics(name=topic, partition_indexes=tuple(indexes))
        for topic, indexes in _by_topic(spots).items()
    )
    group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
    request = OffsetFetchRequest(groups=(group,), require_stable=require_stable)
    return request, FETCH_OFFSETS_VERSION


def _first_error(codes: Iterable[int]) -> ErrorCode:
    return next((ErrorCode(code) for code in codes if code), ErrorCode.NONE)


def _by_topic(spots: Iterable[Spot]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for spot in sorted(spots):
        topics.setdefault(spot.topic, []).append(spot.index)
    return topics
