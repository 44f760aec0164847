"""The transactions of a producer: what may be done when, and what each error means for them.

Pure: `Coordination` sends the requests that are made here.  A `Transactions` is in one of the
states of `MOVES`.  Errors are of two kinds.  After most of them the transaction has to be aborted
(SPOILED), and then the producer goes on; after those that say that a newer producer took our place,
or that nothing we do will be let in, it is DEAD.

Version 2 of the protocol (KIP-890), where the cluster has finalized it, adds partitions and groups
by writing to them, and every end of a transaction brings a new epoch.
"""

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.client.producer.config import ProducerConfig
from ottla.client.records import GroupMetadata, OffsetAndMetadata
from ottla.errors import (
    CommitFailedError,
    ErrorCode,
    MisuseError,
    OttlaError,
    RejoinError,
    exception_for,
)
from ottla.model import TopicPartition
from ottla.records.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.records.shapes import MAX_INT32
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

VERSION_FEATURE: Final = "transaction.version"
VERSION_2: Final = 2


class Versions(NamedTuple):
    """The newest version of each request that a producer may use."""

    produce: int | None
    end: int | None
    commit_offsets: int


VERSIONS_1: Final = Versions(produce=11, end=4, commit_offsets=4)
VERSIONS_2: Final = Versions(produce=None, end=None, commit_offsets=5)
"""TxnOffsetCommit names topics up to v5, as `Commitable` does."""


class State(enum.Enum):
    UNREADY = "not initialized"
    READY = "between transactions"
    OPEN = "in a transaction"
    PREPARED = "prepared"
    ENDING = "ending a transaction"
    SPOILED = "in a transaction that must be aborted"
    DEAD = "dead"


MOVES: Final[Mapping[State, frozenset[State]]] = {
    State.UNREADY: frozenset({State.READY, State.PREPARED, State.DEAD}),
    State.READY: frozenset({State.OPEN, State.UNREADY, State.DEAD}),
    State.OPEN: frozenset({State.PREPARED, State.ENDING, State.SPOILED, State.DEAD}),
    State.PREPARED: frozenset({State.ENDING, State.SPOILED, State.DEAD}),
    State.ENDING: frozenset({State.READY, State.UNREADY, State.SPOILED, State.DEAD}),
    State.SPOILED: frozenset({State.ENDING, State.DEAD}),
    State.DEAD: frozenset({State.DEAD}),
}


class PreparedToken(NamedTuple):
    """Names a prepared transaction: with it, another process can end it."""

    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}"

    @classmethod
    def of(cls, text: str) -> "PreparedToken":
        """What `prepare` returned; raises `ValueError` for anything else."""
        first, colon, second = text.partition(":")
        if not colon or not first.isdecimal() or not second.isdecimal():
            raise ValueError(f"{text!r} is not the token of a prepared transaction")
        return cls(int(first), int(second))


NOTHING: Final = PreparedToken(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Transactions:
    """The transactions of one transactional id, one after the other."""

    def __init__(self, config: ProducerConfig) -> None:
        assert config.transactional_id is not None
        self._config = config
        self.transactional_id = config.transactional_id
        self.state = State.UNREADY
        self.producer = NOTHING
        self.versions = VERSIONS_1
        self.owner: object = None
        """Who began the open transaction, and is to end it."""
        self.error: OttlaError | None = None
        """Why it is spoiled or dead."""
        self.partitions: set[TopicPartition] = set()
        self.pending: dict[TopicPartition, None] = {}
        """Partitions that the coordinator has to know of first."""
        self.offsets: dict[GroupMetadata, dict[TopicPartition, OffsetAndMetadata]] = {}
        self.is_started = False
        """Whether the coordinator may know of the open transaction."""
        self.is_known = False
        """Whether it does: it said so, or we write in a way that tells it."""
        self.needs_new_epoch = False
        """Whether records may have been lost, so that numbers must begin anew."""
        self.is_in_doubt = False
        """Whether a commit was asked for, and nobody knows whether it was carried out."""

    @property
    def is_version_2(self) -> bool:
        return self.versions is VERSIONS_2

    # Its course.

    def init_request(self, *, keeps_prepared: bool = False) -> InitProducerIdRequest:
        """Who are we?  With the last id and epoch, if we had one, for a new epoch (KIP-360)."""
        two_phase = self._config.transaction_two_phase_commit_enable
        timeout_ms = MAX_INT32 if two_phase else self._config.transaction_timeout_ms
        return InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            enable2_pc=two_phase,
            keep_prepared_txn=keeps_prepared,
        )

    def initialized(self, answer: InitProducerIdResponse, features: Mapping[str, int]) -> None:
        """The coordinator told us who we are, and ended whatever was open."""
        self.producer = PreparedToken(answer.producer_id, answer.producer_epoch)
        is_new = features.get(VERSION_FEATURE, 0) >= VERSION_2
        self.versions = VERSIONS_2 if is_new else VERSIONS_1
        self._clear()
        if answer.ongoing_txn_producer_id != NO_PRODUCER_ID:
            self.is_started = self.is_known = True
            self._move(State.PREPARED)
        else:
            self._move(State.READY)

    def begin(self, owner: object = None) -> None:
        """Open a transaction."""
        self.check_alive()
        if self.state is not State.READY:
            raise MisuseError(f"a transaction cannot begin: the producer is {self.state.value}")
        self._clear()
        self.owner = owner
        self._move(State.OPEN)

    def may_write(self, tp: TopicPartition) -> bool:
        """Whether records may be written to a partition now; if not, it is `pending`."""
        if self.state not in (State.OPEN, State.ENDING):
            return False
        if tp in self.partitions:
            return True
        if self.is_version_2:
            self.partitions.add(tp)
            self.is_started = self.is_known = True
            return True
        self.pending[tp] = None
        return False

    def add_offsets(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Commit offsets with the transaction; the last ones of a partition count."""
        self.check_open()
        self.offsets.setdefault(group, {}).update(offsets)

    def prepared(self) -> PreparedToken:
        """Everything is written, and only the end is missing: who may bring it about."""
        self.check_open()
        self._move(State.PREPARED)
        return self.producer

    def ending(self) -> None:
        """The transaction is being ended."""
        self.check_alive()
        self._move(State.ENDING)

    def ended(self, answer: EndTxnResponse | None) -> None:
        """It is committed or aborted; without an answer, there was nothing to end."""
        self.is_in_doubt = False
        if answer is not None and answer.producer_id >= 0:
            self.producer = PreparedToken(answer.producer_id, answer.producer_epoch)
            self.needs_new_epoch = False
        self._clear()
        self.error = self.owner = None
        self._move(State.UNREADY if self.needs_new_epoch else State.READY)
        self.needs_new_epoch = False

    # What is asked.

    def add_request(self) -> AddPartitionsToTxnRequest:
        """Tell the coordinator of what is pending."""
        topics: dict[str, list[int]] = {}
        for tp in self.pending:
            topics.setdefault(tp.topic, []).append(tp.partition)
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=tuple(
                AddPartitionsToTxnTopic(name=name, partitions=tuple(indexes))
                for name, indexes in topics.items()
            ),
        )

    def added(self, answer: AddPartitionsToTxnResponse) -> None:
        """Take in which partitions may be written to; `add_failure` found no error."""
        self.is_known = True
        for topic in answer.results_by_topic_v3_and_below:
            for word in topic.results_by_partition:
                tp = TopicPartition(topic.name, word.partition_index)
                self.pending.pop(tp, None)
                self.partitions.add(tp)

    def group_request(self, group: GroupMetadata) -> AddOffsetsToTxnRequest:
        """Tell the coordinator of a group whose offsets are to be committed."""
        return AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            group_id=group.group_id,
        )

    def offsets_request(self, group: GroupMetadata) -> TxnOffsetCommitRequest:
        """The offsets of a group, for its own coordinator."""
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for tp, at in self.offsets[group].items():
            topics.setdefault(tp.topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=at.offset,
                    committed_leader_epoch=at.leader_epoch,
                    committed_metadata=at.metadata,
                )
            )
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            generation_id_or_member_epoch=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=tuple(
                TxnOffsetCommitRequestTopic(name=name, partitions=tuple(partitions))
                for name, partitions in topics.items()
            ),
        )

    def end_request(self, *, commits: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            committed=commits,
        )

    # What goes wrong.

    def spoil(self, error: OttlaError, *, from_produce: bool = False) -> None:
        """Something failed: abort, or worse.

        In the answer to a Produce, INVALID_PRODUCER_EPOCH may only mean that the transaction timed
        out: the abort finds out (KIP-588).
        """
        code = getattr(error, "code", None)
        is_soft = from_produce and code is ErrorCode.INVALID_PRODUCER_EPOCH
        self.needs_new_epoch = True
        if error.fatal and not is_soft:
            self.kill(error)
        elif self.state in (State.OPEN, State.PREPARED, State.ENDING):
            self.error = error
            self._move(State.SPOILED)

    def was_nothing(self, refusal: OttlaError) -> bool:
        """Whether an abort was refused because the coordinator has never heard of a transaction.

        In version 1 it has not if what would have told it was broken off, or refused.  A request
        that was broken off may come late, so the next transaction has another epoch.
        """
        code = getattr(refusal, "code", None)
        if self.is_known or code is not ErrorCode.INVALID_TXN_STATE:
            return False
        self.needs_new_epoch = True
        return True

    def kill(self, error: OttlaError) -> None:
        """The producer cannot go on."""
        if self.state is not State.DEAD:
            self.error = error
            self._move(State.DEAD)

    def check_alive(self) -> None:
        """Raise what killed the producer, if something did."""
        if self.state is State.DEAD:
            assert self.error is not None
            raise self.error.with_traceback(None)

    def check_open(self) -> None:
        """Raise why a transaction cannot go on, if it cannot."""
        self.check_alive()
        if self.state is State.SPOILED:
            assert self.error is not None
            raise self.error.with_traceback(None)
        if self.state is not State.OPEN:
            raise MisuseError(
                f"with transactional.id, records are sent in a transaction: "
                f"`with producer.transaction() as tx`; the producer is {self.state.value}"
            )

    def _clear(self) -> None:
        self.partitions.clear()
        self.pending.clear()
        self.offsets = {}
        self.is_started = self.is_known = False

    def _move(self, to: State) -> None:
        assert to in MOVES[self.state], f"{self.state} -> {to}"
        self.state = to


def add_failure(answer: AddPartitionsToTxnResponse) -> int:
    """The error of an AddPartitionsToTxn: one that is not about its neighbors, if there is one."""
    codes = [
        word.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for word in topic.results_by_partition
        if word.partition_error_code != ErrorCode.NONE
    ]
    telling = [code for code in codes if code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    return (telling or codes or [int(ErrorCode.NONE)])[0]


def offsets_failure(answer: TxnOffsetCommitResponse) -> int:
    """The first error of a TxnOffsetCommit."""
    codes = (word.error_code for topic in answer.topics for word in topic.partitions)
    return next((code for code in codes if code != ErrorCode.NONE), int(ErrorCode.NONE))


def offsets_error(code: int, group: GroupMetadata) -> OttlaError:
    """What an error of a TxnOffsetCommit means: who lost the group may still have the producer."""
    error = exception_for(code, f"offsets of group {group.group_id!r}")
    if isinstance(error, RejoinError) or error.code is ErrorCode.FENCED_INSTANCE_ID:
        return CommitFailedError(
            code, f"group {group.group_id!r} has given the partitions to another member"
        )
    return error
