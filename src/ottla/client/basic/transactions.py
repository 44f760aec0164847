"""Questions about transactions: who has one open, what it holds back, and how to end it.

Two sides know of a transaction.  Its coordinator knows the transactional id and the partitions it
wrote to; each of these partitions knows a producer id and where the transaction began.  One that
only a partition knows of hangs: nobody will ever end it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.basic.client import BasicClient
from ottla.client.basic.topics import TopicInfo
from ottla.errors import ErrorCode, raise_for_code
from ottla.model import TopicPartition
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_TRANSACTION: Final = 1  # key type of FindCoordinator
_LAST_FIND_OF_ONE: Final = 3
_FENCING_TIMEOUT_MS: Final = 60_000
"""Of the producer that takes the id over; it never begins a transaction."""

ONGOING: Final = "Ongoing"
_NO_TIMEOUT_MS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """A transactional id in a list."""

    name: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionInfo:
    """What the coordinator knows of one transactional id."""

    name: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    """None while no transaction is open."""
    coordinator_id: int
    partitions: tuple[TopicPartition, ...]

    @property
    def is_open(self) -> bool:
        return self.state == ONGOING

    @property
    def may_wait_for_ever(self) -> bool:
        """Whether it is of two phases, and has no timeout (KIP-939)."""
        return self.timeout_ms >= _NO_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenProducer:
    """A producer with a transaction open in one partition, as the partition knows it."""

    partition: TopicPartition
    leader_id: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int


def all_transactions(
    client: BasicClient,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    min_age_ms: int = -1,
) -> list[TransactionListing]:
    """The transactional ids of all coordinators that pass the filters, sorted by name."""
    client.metadata(())
    request = ListTransactionsRequest(
        state_filters=tuple(states),
        producer_id_filters=tuple(producer_ids),
        duration_filter=min_age_ms,
    )
    ids = client.broker_ids
    answers: list[ListTransactionsResponse] = client.ask_each([(i, request) for i in ids])
    found: list[TransactionListing] = []
    for node_id, answer in zip(ids, answers, strict=True):
        raise_for_code(answer.error_code, "list of transactions")
        found += [
            TransactionListing(
                name=state.transactional_id,
                producer_id=state.producer_id,
                state=state.transaction_state,
                coordinator_id=node_id,
            )
            for state in answer.transaction_states
        ]
    return sorted(found, key=lambda listing: listing.name)


def describe_transaction(client: BasicClient, name: str) -> TransactionInfo:
    """Where a transactional id stands; raises `NotFoundError` if nobody has used it."""
    coordinator_id = _coordinator_of(client, name)
    answer: DescribeTransactionsResponse = client.ask(
        DescribeTransactionsRequest(transactional_ids=(name,)), node_id=coordinator_id
    )
    (state,) = answer.transaction_states
    raise_for_code(state.error_code, f"transactional id {name!r}")
    is_open = state.transaction_start_time_ms >= 0
    return TransactionInfo(
        name=name,
        state=state.transaction_state,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        started_ms=state.transaction_start_time_ms if is_open else None,
        coordinator_id=coordinator_id,
        partitions=tuple(
            TopicPartition(topic.topic, index)
            for topic in state.topics
            for index in topic.partitions
        ),
    )


def open_producers(client: BasicClient, topics: Iterable[TopicInfo]) -> list[OpenProducer]:
    """The producers that have a transaction open, the one that holds most at first."""
    by_leader: dict[int, list[TopicRequest]] = {}
    for topic in topics:
        indexes: dict[int, list[int]] = {}
        for partition in topic.partitions:
            if partition.has_leader:
                indexes.setdefault(partition.leader_id, []).append(partition.index)
        for leader_id, of_leader in indexes.items():
            asked = TopicRequest(name=topic.name, partition_indexes=tuple(of_leader))
            by_leader.setdefault(leader_id, []).append(asked)
    leader_ids = sorted(by_leader)
    answers: list[DescribeProducersResponse] = client.ask_each(
        [(i, DescribeProducersRequest(topics=tuple(by_leader[i]))) for i in leader_ids]
    )
    found: list[OpenProducer] = []
    for leader_id, answer in zip(leader_ids, answers, strict=True):
        found += _open_in(answer, leader_id)
    return sorted(found, key=lambda producer: (producer.partition, producer.start_offset))


def hanging(client: BasicClient, candidates: Iterable[OpenProducer]) -> list[OpenProducer]:
    """Those whose transaction no coordinator knows of, or knows to be open there."""
    return [producer for producer in candidates if owner_of(client, producer) is None]


def owner_of(client: BasicClient, producer: OpenProducer) -> TransactionInfo | None:
    """The transaction that a producer has open in a partition; None if nobody will ever end it."""
    for listing in all_transactions(client, producer_ids=(producer.producer_id,)):
        info = describe_transaction(client, listing.name)
        is_same = info.producer_epoch >= producer.producer_epoch
        if is_same and producer.partition in info.partitions:
            return info
    return None


def abort_transaction(client: BasicClient, name: str) -> None:
    """Abort what a transactional id has open, and fence its producer."""
    coordinator_id = _coordinator_of(client, name)
    request = InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=_FENCING_TIMEOUT_MS
    )
    answer: InitProducerIdResponse = client.ask(request, node_id=coordinator_id)
    # It is being aborted; only a new producer would have to wait for the end of that.
    if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
        raise_for_code(answer.error_code, f"transactional id {name!r}")


def abort_hanging(client: BasicClient, producer: OpenProducer) -> None:
    """End a transaction in a partition over the head of all coordinators."""
    place = producer.partition
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name=place.topic, partition_indexes=(place.partition,)),),
        coordinator_epoch=max(producer.coordinator_epoch, 0),
    )
    answer: WriteTxnMarkersResponse = client.ask(
        WriteTxnMarkersRequest(markers=(marker,)), node_id=producer.leader_id
    )
    for result in answer.markers:
        for topic in result.topics:
            for partition in topic.partitions:
                raise_for_code(partition.error_code, f"partition {place}")


def _open_in(answer: DescribeProducersResponse, leader_id: int) -> list[OpenProducer]:
    found = []
    for topic in answer.topics:
        for partition in topic.partitions:
            place = TopicPartition(topic.name, partition.partition_index)
            raise_for_code(partition.error_code, f"partition {place}")
            found += [
                OpenProducer(
                    partition=place,
                    leader_id=leader_id,
                    producer_id=state.producer_id,
                    producer_epoch=state.producer_epoch,
                    coordinator_epoch=state.coordinator_epoch,
                    start_offset=state.current_txn_start_offset,
                    last_timestamp_ms=state.last_timestamp,
                )
                for state in partition.active_producers
                if state.current_txn_start_offset >= 0
            ]
    return found


def _coordinator_of(client: BasicClient, name: str) -> int:
    client.metadata(())
    answer: FindCoordinatorResponse = client.ask(
        FindCoordinatorRequest(key=name, key_type=_TRANSACTION), max_version=_LAST_FIND_OF_ONE
    )
    raise_for_code(answer.error_code, answer.error_message or f"transactional id {name!r}")
    return answer.node_id
