"""Produce (key 0): append batches.

What belongs to a transaction is the business of `transactional_produce`, which is imported with the
first producer that has one: no broker begins with that.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from ottla.broker.context import Context
from ottla.broker.partition import Appended
from ottla.broker.validation import RejectedRecord, is_transactional
from ottla.errors import ErrorCode
from ottla.records.batch import COMPRESSION_BITS
from ottla.records.compression import Compression
from ottla.records.shapes import BATCH_HEADER_BYTES
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.wire.schema import replace

if TYPE_CHECKING:
    from ottla.broker.transactional_produce import Admission

NO_REPLICA: Final = 0
LEADER_ONLY: Final = 1
ALL_REPLICAS: Final = -1
_ACKS: Final = (NO_REPLICA, LEADER_ONLY, ALL_REPLICAS)

_ATTRIBUTES_AT: Final = 22
"""The low byte of a batch's attributes."""

_NONE: Final = ErrorCode.NONE
"""To ask an enum for a member costs more than a call, and this is the way of every request."""

_NOT_HERE: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

_LOST: Final = Appended(error=ErrorCode.KAFKA_STORAGE_ERROR, message="the disk failed")

_NO_TRANSACTIONAL_ID: Final = Appended(
    error=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    message="transactional records need a transactional id in the request",
)

_FIRST_VERSION_WITH_ZSTD: Final = 7
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13


def produce(
    request: ProduceRequest, context: Context
) -> ProduceResponse | Awaitable[ProduceResponse]:
    """Append everything; what belongs to a transaction in its turn, and only if it does."""
    if request.transactional_id is None:
        return _append_all(request, context, None)
    return _produce_in_transaction(request, context)


def _produce_in_transaction(
    request: ProduceRequest, context: Context
) -> ProduceResponse | Awaitable[ProduceResponse]:
    from ottla.broker.transactional_produce import NO_TRANSACTION, Admission, keep, written_in

    written = written_in(request, context)
    if written is None:
        return _append_all(request, context, NO_TRANSACTION)
    if isinstance(written, Appended):
        return _refuse_all(request, context, written)
    node = context.node
    producer_id = written.write.producer.producer_id
    turns = node.transactions.turns
    if turns.is_free(producer_id):
        if written.goes_on:
            return _append_all(request, context, Admission(written.partitions, {}))
        if (admission := written.admission_now(node)) is not None:
            return _append_all(request, context, admission)
    release = context.session.hold_frame()
    kept = keep(request) if release is None else request

    async def append() -> ProduceResponse | Awaitable[ProduceResponse]:
        try:
            return _append_all(kept, context, await written.admission(node))
        finally:
            if release is not None:
                release()

    return _answered(turns.run(producer_id, append))


async def _answered(
    appended: Awaitable[ProduceResponse | Awaitable[ProduceResponse]],
) -> ProduceResponse:
    """The turn ends with the append; the wait for durability comes after it."""
    outcome = await appended
    return outcome if isinstance(outcome, ProduceResponse) else await outcome


def _append_all(
    request: ProduceRequest,
    context: Context,
    admission: "Admission | None",
) -> ProduceResponse | Awaitable[ProduceResponse]:
    """Append everything, then wait once: partitions must not queue for each other.

    `admission` says which partitions may be written in a transaction; it is None without a
    transactional id.
    """
    node = context.node
    now_ms = node.ports.clock.now_ms()
    has_new = has_error = False
    topics = []
    for topic in request.topic_data:
        name, refusal = _named(request, topic, context)
        partitions = []
        for data in topic.partition_data:
            result = refusal or _append(name, data, context, now_ms, admission)
            if result.is_new:
                has_new = True
            if result.error is not _NONE:
                has_error = True
                if refusal is None and result.error is not _NOT_HERE:
                    # Whoever asks may name any topic: only of one that is there, it is counted.
                    node.meters.count_refusal(name, result.error)
            partitions.append(_response(data.index, result))
        topics.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=(*partitions,)
            )
        )
    response = ProduceResponse(responses=(*topics,))
    if has_error and request.acks == NO_REPLICA:
        context.session.close()  # the only way to tell a producer that wants no answers
    if has_new and node.flusher is not None and request.acks == ALL_REPLICAS:
        return node.flusher.after_sync(response, _not_durable)
    return response


def _not_durable(response: ProduceResponse) -> ProduceResponse:
    """The answer if the sync fails: nobody knows what of it is on disk, so none of it counts."""
    return replace(
        response,
        responses=tuple(
            replace(
                topic,
                partition_responses=tuple(
                    _response(result.index, _LOST) if not result.error_code else result
                    for result in topic.partition_responses
                ),
            )
            for topic in response.responses
        ),
    )


def _named(
    request: ProduceRequest, topic: TopicProduceData, context: Context
) -> tuple[str, Appended | None]:
    """The topic's name, and what to answer for all of its partitions if it is not to be written."""
    name = topic.name
    if request.acks not in _ACKS:
        return name, Appended(
            error=ErrorCode.INVALID_REQUIRED_ACKS, message=f"acks = {request.acks} is not 0, 1, -1"
        )
    if context.version >= _FIRST_VERSION_WITH_TOPIC_IDS:
        known = context.node.controller.image.topic_name(topic.topic_id)
        if known is None:
            return name, Appended(error=ErrorCode.UNKNOWN_TOPIC_ID)
        name = known
    return name, None


def _refuse_all(request: ProduceRequest, context: Context, why: Appended) -> ProduceResponse:
    if request.acks == NO_REPLICA:
        context.session.close()
    return ProduceResponse(
        responses=tuple(
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=tuple(
                    _response(data.index, why) for data in topic.partition_data
                ),
            )
            for topic in request.topic_data
        )
    )


def _append(
    name: str,
    data: PartitionProduceData,
    context: Context,
    now_ms: int,
    admission: "Admission | None",
) -> Appended:
    found = context.node.partitions.find(name, data.index)
    if isinstance(found, ErrorCode):
        return Appended(error=found)
    if found.is_reserved:
        return Appended(
            error=ErrorCode.INVALID_TOPIC_EXCEPTION,
            message="only the broker writes internal topics",
        )
    records = data.records
    if not records:
        return Appended(error=ErrorCode.INVALID_RECORD, message="there are no records")
    if admission is None:
        if is_transactional(records):
            return _NO_TRANSACTIONAL_ID
    elif (refusal := admission.refusal(found, records)) is not None:
        return refusal
    if context.version < _FIRST_VERSION_WITH_ZSTD and _is_zstd(records):
        return Appended(
            error=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            message=f"zstd needs Produce v{_FIRST_VERSION_WITH_ZSTD} or newer",
        )
    return found.append(records, now_ms=now_ms)


def _is_zstd(records: bytes | bytearray | memoryview) -> bool:
    if len(records) < BATCH_HEADER_BYTES:
        return False
    return records[_ATTRIBUTES_AT] & COMPRESSION_BITS == Compression.ZSTD


def _response(index: int, result: Appended) -> PartitionProduceResponse:
    if result.error is _NONE:
        return PartitionProduceResponse(
            index=index,
            base_offset=result.base_offset,
            log_append_time_ms=result.append_time_ms,
            log_start_offset=result.start_offset,
        )
    return PartitionProduceResponse(
        index=index,
        error_code=result.error,
        base_offset=result.base_offset,
        log_start_offset=result.start_offset,
        record_errors=_record_errors(result.rejected),
        error_message=result.message,
    )


def _record_errors(rejected: tuple[RejectedRecord, ...]) -> tuple[BatchIndexAndErrorMessage, ...]:
    return tuple(
        BatchIndexAndErrorMessage(
            batch_index=record.index, batch_index_error_message=record.message
        )
        for record in rejected
    )
