"""What a produced batch must be before it is appended, and what becomes of it.

The rules are those of Kafka's `LogValidator`: one batch of magic 2, a good checksum, the records
that its header announces, keys where the topic is compacted, timestamps in range.  A topic may
also ask for LogAppendTime or another compression; then the batch is changed here.
"""

from typing import Final

from ottla.errors import BatchError, ErrorCode
from ottla.log.config import LogConfig
from ottla.ports import Buffer
from ottla.records.batch import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    Batch,
    TimestampType,
    batches,
    size_of_batch,
)
from ottla.records.builder import BatchOptions, build
from ottla.records.compression import Compression
from ottla.records.kernel import kernel
from ottla.records.shapes import (
    BATCH_HEADER_BYTES,
    MAX_INT64,
    NO_TIMESTAMP_MS,
    Binary,
    Survey,
)
from ottla.values import dataclass

_ATTRIBUTES_AT: Final = 22
"""The low byte of a batch's attributes."""

_PRODUCER_DECIDES: Final = "producer"


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """One record that made its batch unacceptable."""

    index: int
    message: str


class RejectedBatchError(BatchError):
    """A batch that is refused because of some of its records."""

    def __init__(self, code: ErrorCode, detail: str, records: tuple[RejectedRecord, ...]) -> None:
        super().__init__(code, detail)
        self.records = records


class Rules:
    """What the settings of a topic ask of a batch."""

    __slots__ = (
        "_after_max_ms",
        "_before_max_ms",
        "_config",
        "_max_decompressed_bytes",
        "_max_size_bytes",
        "_needs_keys",
        "_takes_plain",
    )

    def __init__(self, config: LogConfig, *, max_decompressed_bytes: int) -> None:
        self._config = config
        self._max_decompressed_bytes = max_decompressed_bytes
        self._needs_keys = config.is_compacted
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._after_max_ms = min(config.message_timestamp_after_max_ms, MAX_INT64 // 2)
        self._max_size_bytes = min(config.max_message_bytes, config.segment_bytes)
        self._takes_plain = (
            config.compression_type == _PRODUCER_DECIDES
            and config.timestamp_type is TimestampType.CREATE_TIME
        )
        """Whether there is nothing to change in a batch that is plain."""

    def accept(self, data: Binary, *, now_ms: int) -> Batch:
        """The batch to append for what a client sent; `BatchError` if it is refused.

        `data` must be writable: offsets and epoch are set in it when it is appended.
        """
        if (
            self._takes_plain
            and len(data) <= self._max_size_bytes
            and now_ms - self._before_max_ms <= NO_TIMESTAMP_MS
            and kernel.is_plain(data, now_ms + self._after_max_ms, self._needs_keys)
        ):
            return Batch(data if type(data) is memoryview else memoryview(data))
        return self.examine(data, now_ms=now_ms)

    def examine(self, data: Binary, *, now_ms: int) -> Batch:
        """Do the same rule by rule, and make the changes that the topic asks for."""
        config = self._config
        batch = _only_batch(data)
        _check_size(batch, config)
        batch.check_crc()
        _check_header(batch)
        survey = _check_records(batch, config, self._max_decompressed_bytes)
        is_stamped = config.timestamp_type is TimestampType.LOG_APPEND_TIME
        if not is_stamped:
            _check_timestamps(batch, survey, config, now_ms, self._max_decompressed_bytes)
        if config.compression_type != _PRODUCER_DECIDES:
            batch = _recompressed(batch, config, self._max_decompressed_bytes)
            _check_size(batch, config)
        if is_stamped:
            batch.stamp_append_time(now_ms)
        return batch


def _check_size(batch: Batch, config: LogConfig) -> None:
    size_bytes = batch.size_bytes
    if size_bytes > config.max_message_bytes:
        raise BatchError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size_bytes} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    if size_bytes > config.segment_bytes:
        raise BatchError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {size_bytes} bytes, segment.bytes is {config.segment_bytes}",
        )


def _only_batch(data: Binary) -> Batch:
    view = memoryview(data)
    if size_of_batch(view) == view.nbytes:
        return Batch(view)
    count = sum(1 for _ in batches(data, partial_tail=False))
    raise BatchError(
        ErrorCode.INVALID_RECORD, f"a partition's records must be one batch, not {count}"
    )


def _check_header(batch: Batch) -> None:
    attributes, record_count = batch.attributes, batch.record_count
    if attributes & CONTROL_BIT:
        raise BatchError(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if batch.base_offset != 0:
        raise BatchError(
            ErrorCode.INVALID_RECORD, f"the base offset is {batch.base_offset}, it must be 0"
        )
    if record_count != batch.last_offset_delta + 1:
        raise BatchError(
            ErrorCode.INVALID_RECORD,
            f"the batch has {record_count} records, but offsets for {batch.last_offset_delta + 1}",
        )
    if batch.producer_id != NO_PRODUCER_ID and batch.base_sequence == NO_SEQUENCE:
        raise BatchError(
            ErrorCode.INVALID_RECORD, "a batch with a producer id needs a sequence number"
        )
    if attributes & LOG_APPEND_TIME_BIT:
        raise BatchError(
            ErrorCode.INVALID_TIMESTAMP, "only the broker may set the timestamp type LogAppendTime"
        )


def _check_records(batch: Batch, config: LogConfig, max_decompressed_bytes: int) -> Survey:
    survey = batch.survey(max_decompressed_bytes)
    if not survey.is_dense:
        raise BatchError(
            ErrorCode.INVALID_RECORD, "the offsets of the records are not 0, 1, 2 and so on"
        )
    if survey.null_key_count and config.is_compacted:
        raise RejectedBatchError(
            ErrorCode.INVALID_RECORD,
            "the topic is compacted, so every record needs a key",
            tuple(
                RejectedRecord(index, "a record of a compacted topic needs a key")
                for index, record in enumerate(batch.records(max_decompressed_bytes))
                if record[2] is None
            ),
        )
    return survey


def _check_timestamps(
    batch: Batch, survey: Survey, config: LogConfig, now_ms: int, max_decompressed_bytes: int
) -> None:
    earliest_ms = now_ms - config.message_timestamp_before_max_ms
    latest_ms = now_ms + config.message_timestamp_after_max_ms
    if earliest_ms <= NO_TIMESTAMP_MS and survey.max_timestamp_ms <= latest_ms:
        return
    rejected = tuple(
        RejectedRecord(index, f"timestamp {record[1]} is outside [{earliest_ms}, {latest_ms}]")
        for index, record in enumerate(batch.records(max_decompressed_bytes))
        if record[1] != NO_TIMESTAMP_MS and not earliest_ms <= record[1] <= latest_ms
    )
    if rejected:
        raise RejectedBatchError(
            ErrorCode.INVALID_TIMESTAMP,
            "timestamps are out of the range that message.timestamp.before.max.ms and "
            "message.timestamp.after.max.ms allow",
            rejected,
        )


def _recompressed(batch: Batch, config: LogConfig, max_decompressed_bytes: int) -> Batch:
    """Rewrite the batch if the topic wants another compression than the producer chose."""
    wanted = (
        Compression.NONE
        if config.compression_type == "uncompressed"
        else Compression.named(config.compression_type)
    )
    if batch.compression is wanted:
        return batch
    options = BatchOptions(
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        compression=wanted,
        compression_level=config.compression_level(wanted),
    )
    records = (record[1:] for record in batch.records(max_decompressed_bytes))
    return Batch.parse(build(records, options))


def is_transactional(records: Buffer | None) -> bool:
    """Whether the first batch, and a request has only one a partition, is transactional."""
    return (
        records is not None
        and len(records) >= BATCH_HEADER_BYTES
        and records[_ATTRIBUTES_AT] & TRANSACTIONAL_BIT != 0
    )
