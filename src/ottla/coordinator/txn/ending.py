"""EndTxn: a transaction is committed or aborted, by its producer or over its head.

The two versions answer a repeated EndTxn differently, because they know different things.  In
version 1 the epoch stays, so the same request after the end may be a retry, and success is the
answer if the outcome is the same.  In version 2 the end has bumped the epoch: one below it is a
retry, and the same epoch is about the next transaction.

While the markers are written, the answer is CONCURRENT_TRANSACTIONS, to a retry as well: a producer
that is told of success sooner could begin a transaction that the old markers end.
"""

from ottla.coordinator.txn.beginning import FreshProducerId, Next, bump
from ottla.coordinator.txn.transaction import (
    LAST_CLIENT_EPOCH,
    MAX_EPOCH,
    VERSION_2,
    Producer,
    State,
    Transaction,
)
from ottla.errors import ErrorCode
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


def version_1_answer(
    current: Transaction, producer: Producer, *, is_commit: bool
) -> ErrorCode | None:
    """What to answer without deciding anything; `None` if the transaction is to be decided."""
    if not current.knows(producer.producer_id):
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer != current.owner:
        return ErrorCode.PRODUCER_FENCED
    if current.is_ending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current.state is State.ONGOING:
        return None
    return _same_outcome(current, is_commit=is_commit)


def version_2_answer(
    current: Transaction, producer: Producer, *, is_commit: bool
) -> ErrorCode | None:
    """As `version_1_answer`; an abort of nothing is decided too, for it must bump the epoch."""
    if current.is_ending:
        # Before all else: the producer may have been told of its next id or epoch already.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    owner = current.owner
    used_up_id = producer == (current.previous_producer_id, LAST_CLIENT_EPOCH) and owner.epoch == 0
    if not current.knows(producer.producer_id) and not used_up_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    # An end in version 1 bumps nothing: after it, one epoch below is a predecessor and no retry.
    # (Kafka does not look, and tells such a predecessor that it has committed.)
    has_bumped = current.state is not State.EMPTY and current.client_version >= VERSION_2
    is_retry = used_up_id or producer.epoch + 1 == owner.epoch
    if current.is_at_rest and has_bumped and is_retry:
        return _same_outcome(current, is_commit=is_commit)
    if producer != owner:
        return ErrorCode.PRODUCER_FENCED
    if current.state is State.ONGOING or not is_commit:
        return None
    return ErrorCode.INVALID_TXN_STATE


def decide(
    current: Transaction,
    last_epoch: int,
    *,
    is_commit: bool,
    version: int,
    fresh_producer_id: FreshProducerId,
    now_ms: int,
) -> Next | ErrorCode:
    """The transaction as it is to be recorded: from then on it has ended, whatever happens."""
    to = State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT
    started_ms = now_ms if current.is_at_rest else current.started_ms
    owner, successor = current.owner, current.owner
    if version >= VERSION_2:
        bumped = bump(owner, fresh_producer_id)
        if bumped is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        successor, last_epoch = bumped, owner.epoch
    epoch = current.producer_epoch
    if version >= VERSION_2 or current.is_kept:
        # The markers' epoch fences the writer.  At the very last epoch, which no client has, there
        # is nobody left to fence.
        epoch = min(epoch + 1, MAX_EPOCH)
    is_renamed = successor != (current.producer_id, epoch)
    ended = current.move(
        to,
        now_ms,
        producer_epoch=epoch,
        next_producer_id=successor.producer_id if is_renamed else NO_PRODUCER_ID,
        next_producer_epoch=successor.epoch if is_renamed else NO_PRODUCER_EPOCH,
        started_ms=started_ms,
        client_version=version,
    )
    return Next(ended, last_epoch)


def fence(
    current: Transaction, last_epoch: int, fresh_producer_id: FreshProducerId, now_ms: int
) -> Next | ErrorCode:
    """Abort an open transaction over its producer's head, in the newest version's way."""
    return decide(
        current.move(State.PREPARE_EPOCH_FENCE, now_ms),
        last_epoch,
        is_commit=False,
        version=VERSION_2,
        fresh_producer_id=fresh_producer_id,
        now_ms=now_ms,
    )


def _same_outcome(current: Transaction, *, is_commit: bool) -> ErrorCode:
    same = State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT
    return ErrorCode.NONE if current.state is same else ErrorCode.INVALID_TXN_STATE
