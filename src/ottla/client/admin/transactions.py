"""Transactions: who has one open, what it holds back, and how to end it.

Two sides know of a transaction.  Its coordinator knows the transactional id and the partitions it
wrote to; each of these partitions knows a producer id and where the transaction began.  One that
only a partition knows of hangs: nobody will ever end it, and readers of committed records wait.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from ottla.client.admin.calling import Caller, together
from ottla.client.admin.outcomes import all_or_raise, outcome_of
from ottla.client.admin.positions import by_topic
from ottla.client.admin.topics import list_partitions, list_topics
from ottla.client.targets import transaction as coordinator_of
from ottla.errors import ErrorCode, NotFoundError, OttlaError, exception_for, raise_for_code
from ottla.model import TopicPartition
from ottla.values import dataclass
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
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

LONGEST: Final = timedelta(minutes=15)
"""What brokers allow a transaction to take, unless they are told otherwise."""
_NO_TIMEOUT_MS: Final = 2**31 - 1
_ANY_AGE: Final = -1
_LAST_SECOND: Final = 253_402_300_799
"""Of the year 9999."""
UNENDED: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
"""The states of a transaction that somebody waits for."""
_OVER: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})
"""States without a transaction; Kafka 3.9 still tells when the last one began."""
_ONGOING: Final = "Ongoing"
_FIRST_WITH_AGE: Final = 1
_FIRST_WITH_PATTERN: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """A transactional id in a list."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionInfo:
    """What the coordinator knows of one transactional id."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout: timedelta | None
    """None: it may wait for ever, as the second phase of a two-phase commit does (KIP-939)."""
    started: datetime | None
    """None while no transaction is open."""
    coordinator: int
    partitions: tuple[TopicPartition, ...]

    @property
    def is_open(self) -> bool:
        """Whether it can still become either: committed, or aborted."""
        return self.state == _ONGOING


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerInfo:
    """A producer that wrote to a partition lately, as the partition knows it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_write: datetime | None
    coordinator_epoch: int
    transaction_start_offset: int | None
    """Where its open transaction begins; None if it has none."""

    @property
    def opened(self) -> tuple[int, int, int | None]:
        """Which transaction it has open: two looks that find the same saw the same one."""
        return self.producer_id, self.producer_epoch, self.transaction_start_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    """A transaction that is open in a partition, and that no coordinator will end."""

    tp: TopicPartition
    producer: ProducerInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """The id and epoch that a transactional id has now: whoever had an older one is fenced."""

    producer_id: int
    producer_epoch: int


async def list_transactions(
    caller: Caller,
    *,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    older_than: timedelta | None = None,
    pattern: str | None = None,
) -> list[TransactionListing]:
    """The transactional ids of all coordinators, sorted.

    Args:
        states: Only those in one of these, "Ongoing" say; none: in any.
        producer_ids: Only those of one of these; none: of any.
        older_than: Only those with a transaction that is open for longer.
        pattern: Only ids that match this regular expression (RE2), as a whole.

    Raises:
        RequestError: There is no such state.
    """
    least = _FIRST_WITH_AGE if older_than is not None else None
    answers = await caller.ask_nodes(
        ListTransactionsRequest(
            state_filters=tuple(states),
            producer_id_filters=tuple(producer_ids),
            duration_filter=_ANY_AGE if older_than is None else _ms(older_than),
            transactional_id_pattern=pattern,
        ),
        ListTransactionsResponse,
        min_version=_FIRST_WITH_PATTERN if pattern is not None else least,
    )
    found: list[TransactionListing] = []
    for node_id, answer in answers.items():
        raise_for_code(answer.error_code, "list of transactions")
        if answer.unknown_state_filters:
            unknown = ", ".join(answer.unknown_state_filters)
            raise exception_for(ErrorCode.INVALID_REQUEST, f"no state of transactions: {unknown}")
        found += [
            TransactionListing(
                transactional_id=told.transactional_id,
                producer_id=told.producer_id,
                state=told.transaction_state,
                coordinator=node_id,
            )
            for told in answer.transaction_states
        ]
    return sorted(found, key=lambda listing: listing.transactional_id)


async def describe_transaction(caller: Caller, transactional_id: str) -> TransactionInfo:
    """Where a transactional id stands.

    Raises:
        NotFoundError: Nobody uses it.
    """
    target = coordinator_of(transactional_id)
    answer = await caller.call(
        DescribeTransactionsRequest(transactional_ids=(transactional_id,)),
        DescribeTransactionsResponse,
        to=target,
        failure=lambda got: got.transaction_states[0].error_code,
    )
    (told,) = answer.transaction_states
    raise_for_code(told.error_code, str(target))
    is_endless = told.transaction_timeout_ms >= _NO_TIMEOUT_MS
    is_open = told.transaction_state not in _OVER
    return TransactionInfo(
        transactional_id=transactional_id,
        state=told.transaction_state,
        producer_id=told.producer_id,
        producer_epoch=told.producer_epoch,
        timeout=None if is_endless else timedelta(milliseconds=told.transaction_timeout_ms),
        started=_moment(told.transaction_start_time_ms) if is_open else None,
        coordinator=(await caller.engine.coordinator(target)).node_id,
        partitions=tuple(
            sorted(
                TopicPartition(topic.topic, index)
                for topic in told.topics
                for index in topic.partitions
            )
        ),
    )


async def describe_producers(
    caller: Caller, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, tuple[ProducerInfo, ...]]:
    """Who wrote to partitions lately, with idempotence or in transactions.

    Raises:
        UnknownTopicError: There is no such partition.
    """

    async def ask(
        leader_id: int, asked: Sequence[TopicPartition]
    ) -> dict[TopicPartition, tuple[ProducerInfo, ...] | OttlaError]:
        request = DescribeProducersRequest(
            topics=tuple(
                TopicRequest(name=name, partition_indexes=indexes)
                for name, indexes in by_topic(asked, lambda tp: tp.partition).items()
            )
        )
        answer = await caller.ask(request, DescribeProducersResponse, to=leader_id)
        found: dict[TopicPartition, tuple[ProducerInfo, ...] | OttlaError] = {}
        for topic in answer.topics:
            for told in topic.partitions:
                tp = TopicPartition(topic.name, told.partition_index)
                detail = told.error_message or f"partition {tp}"
                found[tp] = outcome_of(told.error_code, detail, _producers(told))
        return found

    return all_or_raise(await caller.ask_leaders(partitions, ask, what="producers"))


async def hanging_transactions(
    caller: Caller,
    *,
    topics: Collection[str] | None = None,
    older_than: timedelta = LONGEST,
) -> list[HangingTransaction]:
    """Transactions that are open in a partition although no coordinator knows of them.

    Args:
        topics: Where to look; None: everywhere.
        older_than: How long the producer must have been silent.  One that works is never found if
            this is not less than `transaction.max.timeout.ms` of the brokers.
    """
    names = await list_topics(caller, internal=True) if topics is None else topics
    partitions = await list_partitions(caller, names, missing_ok=topics is None)
    latest = _moment(caller.engine.ports.clock.now_ms() - _ms(older_than))
    candidates = [
        HangingTransaction(tp=tp, producer=producer)
        for tp, producers in sorted((await describe_producers(caller, partitions)).items())
        for producer in producers
        if producer.transaction_start_offset is not None
        and (producer.last_write is None or latest is None or producer.last_write <= latest)
    ]
    if not candidates:
        return []
    open_in = await _open_partitions(caller, {c.producer.producer_id for c in candidates})
    left = [c for c in candidates if (c.producer.producer_id, c.tp) not in open_in]
    # One that was ended between the two questions is unknown to its coordinator, and hangs not.
    now = await describe_producers(caller, {c.tp for c in left})
    return [c for c in left if c.producer.opened in {producer.opened for producer in now[c.tp]}]


async def abort_transaction(caller: Caller, transactional_id: str) -> None:
    """Abort what a transactional id has open, prepared or not, and fence its producer.

    Returns when it is aborted everywhere.

    Raises:
        NotFoundError: Nobody uses it.
    """
    await describe_transaction(caller, transactional_id)  # fencing would make one that is not there
    await fence_producers(caller, transactional_id)


async def abort_hanging(caller: Caller, hanging: HangingTransaction) -> None:
    """End a transaction in a partition over the head of all coordinators.

    Only for what `hanging_transactions` found: to end one that a coordinator knows breaks its
    promise.
    """
    tp, producer = hanging.tp, hanging.producer

    async def ask(
        leader_id: int, asked: Sequence[TopicPartition]
    ) -> dict[TopicPartition, bool | OttlaError]:
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=(WritableTxnMarkerTopic(name=tp.topic, partition_indexes=(tp.partition,)),),
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
        answer = await caller.ask(
            WriteTxnMarkersRequest(markers=(marker,)), WriteTxnMarkersResponse, to=leader_id
        )
        (result,) = answer.markers
        return {
            TopicPartition(topic.name, told.partition_index): outcome_of(
                told.error_code, f"partition {tp}, producer {producer.producer_id}", True
            )
            for topic in result.topics
            for told in topic.partitions
        }

    all_or_raise(await caller.ask_leaders((tp,), ask, what="aborting a transaction"))


async def fence_producers(caller: Caller, *transactional_ids: str) -> dict[str, ProducerIdentity]:
    """Take transactional ids away from whoever has them; what they have open is aborted.

    Returns when that is done.  An id that nobody uses is in use from then on.
    """

    async def attempt(transactional_id: str) -> ProducerIdentity | OttlaError:
        target = coordinator_of(transactional_id)
        # CONCURRENT_TRANSACTIONS is retriable: it is being aborted, and we wait for the end of it.
        # The timeout is for transactions, of which this producer never begins one.
        answer = await caller.call(
            InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=caller.engine.config.request_timeout_ms,
            ),
            InitProducerIdResponse,
            to=target,
        )
        return outcome_of(
            answer.error_code,
            str(target),
            ProducerIdentity(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch),
        )

    found = await together(attempt(transactional_id) for transactional_id in transactional_ids)
    return all_or_raise(dict(zip(transactional_ids, found, strict=True)))


async def _open_partitions(
    caller: Caller, producer_ids: Collection[int]
) -> set[tuple[int, TopicPartition]]:
    """What coordinators know to be open: producer id and partition."""
    found: set[tuple[int, TopicPartition]] = set()
    for listing in await list_transactions(caller, producer_ids=sorted(producer_ids)):
        try:
            info = await describe_transaction(caller, listing.transactional_id)
        except NotFoundError:
            continue  # it was forgotten meanwhile
        found |= {(listing.producer_id, tp) for tp in info.partitions}
    return found


def _producers(told: PartitionResponse) -> tuple[ProducerInfo, ...]:
    return tuple(
        ProducerInfo(
            producer_id=state.producer_id,
            producer_epoch=state.producer_epoch,
            last_sequence=state.last_sequence,
            last_write=_moment(state.last_timestamp),
            coordinator_epoch=state.coordinator_epoch,
            transaction_start_offset=(
                state.current_txn_start_offset if state.current_txn_start_offset >= 0 else None
            ),
        )
        for state in sorted(told.active_producers, key=lambda state: state.producer_id)
    )


def _ms(span: timedelta) -> int:
    return int(span.total_seconds() * 1000)


def _moment(timestamp_ms: int) -> datetime | None:
    # Producers make timestamps up as they like, even such as no calendar has.
    seconds = min(timestamp_ms / 1000, _LAST_SECOND)
    return None if timestamp_ms < 0 else datetime.fromtimestamp(seconds, UTC)
