"""The leader's side of one log: appends what clients send, serves what is durable.

Consumers see nothing beyond the high watermark.  On one node that is the end of what would
survive power loss (`flush=commit`) or of what was appended (`flush=os`): a record that somebody has
read never disappears again unless the user asked for that risk.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from ottla.broker.flusher import Flusher
from ottla.broker.validation import RejectedBatchError, RejectedRecord, Rules
from ottla.errors import BatchError, ErrorCode, StorageError
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.search import TimedOffset
from ottla.log.segment import LogRead
from ottla.model import INTERNAL_TOPICS
from ottla.ports import Buffer, File, Folder
from ottla.records.batch import (
    LOG_APPEND_TIME_BIT,
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    Batch,
)
from ottla.values import NamedTuple

log = logging.getLogger(__name__)

CALM_MS: Final = 10_000
"""How long no append has failed when it is said that they work again: on a disk that is nearly full
they do and do not, by their size."""

_NONE: Final = ErrorCode.NONE
"""To ask an enum for a member costs more than a call, and this is the way of every request."""


class Appended(NamedTuple):
    """The answer to one partition of a produce request.

    A tuple, because one is made for each: a frozen dataclass sets its fields one by one.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    base_offset: int = -1
    append_time_ms: int = -1
    start_offset: int = -1
    rejected: tuple[RejectedRecord, ...] = ()
    is_new: bool = False
    """Whether it speaks of something that may not be durable yet."""


_appended: Final[Callable[[tuple[Any, ...]], Appended]] = partial(tuple.__new__, Appended)
"""As `Appended(...)` with all of its fields, but in one step: this is the way of every request."""

_CLOSED = Appended(error=ErrorCode.KAFKA_STORAGE_ERROR, message="the log is closed")
"""For who waited while the topic was deleted, or the broker stopped: a clean end stays clean."""


class _Failures(NamedTuple):
    """Appends that failed, since there was last peace."""

    reason: str | None
    """That of the last one."""
    failed_count: int
    last_ms: int


class Waiter(Protocol):
    """Somebody who waits for the high watermark to move."""

    def on_advance(self, partition: "Partition") -> None: ...


class Partition:
    """One partition that this broker leads."""

    def __init__(
        self,
        *,
        topic: str,
        index: int,
        records: Log,
        leader_epoch: int,
        config: LogConfig,
        flusher: Flusher | None,
        max_decompressed_bytes: int,
    ) -> None:
        """`flusher` is None where the page cache counts as durable (`flush=os`)."""
        self.topic = topic
        self.index = index
        self.is_reserved = topic in INTERNAL_TOPICS
        """Whether only the broker itself may write it."""
        self.log = records
        self.producers = records.producers
        self.leader_epoch = leader_epoch
        self.high_watermark = self.opened_offset = records.next_offset
        self.appended_bytes = self.fetched_bytes = 0
        records.producers.advance_high_watermark(self.high_watermark)
        self.is_closed = False
        self.waiters: dict[Waiter, None] = {}
        """In the order in which they came; a dictionary, because each leaves on its own."""
        self.unsynced_bytes = 0
        """What was appended since the last sync began; nobody counts where there is no flusher."""
        self.config = config
        self._rules = Rules(config, max_decompressed_bytes=max_decompressed_bytes)
        self._failures: _Failures | None = None
        self._flusher = flusher
        self._max_decompressed_bytes = max_decompressed_bytes

    @property
    def next_offset(self) -> int:
        return self.log.next_offset

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed consumers stop."""
        first_unstable = self.producers.first_unstable_offset
        if first_unstable is None:
            return self.high_watermark
        return max(min(first_unstable, self.high_watermark), self.log.start_offset)

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """What to tell a client that believes in this leader epoch; NONE if it is right."""
        if current_leader_epoch in (NO_LEADER_EPOCH, self.leader_epoch):
            return _NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def append(self, data: Buffer, *, now_ms: int) -> Appended:
        """Append one batch that a client sent.  Never raises for what the client did."""
        try:
            batch = self._rules.accept(data, now_ms=now_ms)
        except RejectedBatchError as error:
            return Appended(error=error.code, message=error.detail, rejected=error.records)
        except BatchError as error:
            return Appended(error=error.code, message=error.detail)
        return self._append_accepted(batch, now_ms)

    def append_own(
        self, batch: Batch, *, now_ms: int, transaction_version: int = 0, can_wait: bool = False
    ) -> Appended:
        """Append a batch that the broker itself made.

        The version is that of a marker.  If nobody waits for it to be durable, it `can_wait`.
        """
        return self._append_accepted(batch, now_ms, transaction_version, can_wait)

    def _append_accepted(
        self, batch: Batch, now_ms: int, transaction_version: int = 0, can_wait: bool = False
    ) -> Appended:
        if self.is_closed:
            return _CLOSED
        start_offset = self.log.start_offset
        verdict = (
            None
            if batch.producer_id == NO_PRODUCER_ID
            else self.producers.check(batch, now_ms, transaction_version=transaction_version)
        )
        if verdict is not None:
            return Appended(
                error=verdict.error,
                message=verdict.message,
                base_offset=verdict.base_offset,
                start_offset=start_offset,
                # A repeated batch is acknowledged when the first one is durable, not before.
                is_new=verdict.error is ErrorCode.NONE,
            )
        try:
            base_offset = self.log.append(batch, leader_epoch=self.leader_epoch, now_ms=now_ms)
        except (OSError, StorageError) as error:
            self._note_failure(error, now_ms)
            return Appended(error=ErrorCode.KAFKA_STORAGE_ERROR, message=str(error))
        if self._failures is not None:
            self._note_success(self._failures, now_ms)
        size_bytes = len(batch.data)
        self.appended_bytes += size_bytes
        if self._flusher is None:
            self.advance()
        else:
            self.unsynced_bytes += size_bytes
            if can_wait:
                self._flusher.note_for_later(self)
            else:
                self._flusher.note(self)
        append_time_ms = now_ms if batch.attributes & LOG_APPEND_TIME_BIT else -1
        return _appended((_NONE, None, base_offset, append_time_ms, start_offset, (), True))

    def _note_failure(self, error: OSError | StorageError, now_ms: int) -> None:
        """Say that appends fail, and why: once, however often they are tried."""
        reason = error.strerror if isinstance(error, OSError) else str(error)
        if self._failures is None or self._failures.reason != reason:
            log.error("append failed: topic=%s partition=%d %s", self.topic, self.index, error)
        failed_count = 0 if self._failures is None else self._failures.failed_count
        self._failures = _Failures(reason, failed_count + 1, now_ms)

    def _note_success(self, failures: "_Failures", now_ms: int) -> None:
        if abs(now_ms - failures.last_ms) >= CALM_MS:  # the clock may have been set
            log.warning(
                "appends work again: topic=%s partition=%d failed_count=%d",
                self.topic,
                self.index,
                failures.failed_count,
            )
            self._failures = None

    def read(
        self, offset: int, max_bytes: int, *, committed_only: bool, at_least_one: bool
    ) -> LogRead:
        """Whole batches from the one that holds `offset` on, which must be within the log."""
        limit = self.last_stable_offset if committed_only else self.high_watermark
        found = self.log.read(offset, max_bytes, below_offset=limit, at_least_one=at_least_one)
        assert isinstance(found, LogRead), found
        return found

    def bytes_from(self, offset: int, *, at_least: int) -> int:
        """How many bytes a read from `offset` could give; no more is counted than `at_least`."""
        total = 0
        for segment in self.log.segments:
            if segment.next_offset <= offset:
                continue
            # Of those after the first one, which come whole, no index has to be loaded.
            spot = segment.find(offset) if segment.base_offset <= offset else None
            total += segment.size_bytes - (spot.position if spot else 0)
            if total >= at_least:
                break
        return total

    def offset_for_time(self, timestamp_ms: int) -> TimedOffset | None:
        """The first record that is not older than `timestamp_ms`."""
        return self.log.offset_for_time(
            timestamp_ms, max_decompressed_bytes=self._max_decompressed_bytes
        )

    def max_timestamp(self) -> TimedOffset | None:
        """The first record with the largest timestamp; None where no record has one."""
        return self.log.max_timestamp(max_decompressed_bytes=self._max_decompressed_bytes)

    def reconfigure(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        self.config = config
        self._rules = Rules(config, max_decompressed_bytes=self._max_decompressed_bytes)
        self.log.reconfigure(config)

    def close(self) -> None:
        """Let go of the log, and of everybody who waits for it to grow."""
        self.is_closed = True
        if self._flusher is not None:
            self._flusher.forget(self)
        self.log.abandon()
        waiters, self.waiters = self.waiters, {}
        for waiter in waiters:
            waiter.on_advance(self)

    def begin_writeback(self) -> None:
        self.log.segments[-1].file.begin_writeback()

    def unsynced_files(self) -> list[File | Folder]:
        self.unsynced_bytes = 0
        return self.log.unsynced_files()

    def mark_synced(self, up_to_offset: int) -> None:
        self.log.mark_synced(up_to_offset)

    def advance(self) -> None:
        """Move the high watermark as far as it may go, and tell those who wait for it."""
        end = self.log.next_offset if self._flusher is None else self.log.synced_offset
        if end <= self.high_watermark:
            return
        self.high_watermark = end
        self.producers.advance_high_watermark(end)
        if self.waiters:
            waiters, self.waiters = self.waiters, {}
            for waiter in waiters:
                waiter.on_advance(self)
