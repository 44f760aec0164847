"""The caller's turns in a rebalance: partitions are taken over and given up in his own thread.

Before partitions are given up, what was processed of them is committed, if commits are automatic.
Of partitions that are lost, nothing is: they may be somebody else's by now.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.client.consumer.callers import Caller
from ottla.client.consumer.core import Core
from ottla.client.consumer.mailbox import Change, Committed, Letter, Turn
from ottla.client.consumer.plugs import RebalanceListener
from ottla.client.consumer.progress import Progress
from ottla.client.records import Batch, OffsetAndMetadata
from ottla.errors import OttlaError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
Stored = Mapping[TopicPartition, int]

_COMMIT_TIMEOUT_S = 10.0
"""How long giving up a partition waits for its commit: others wait for the partition."""


class Turns:
    """Takes letters out of the mailbox, and does what they say."""

    def __init__(self, core: Core, caller: Caller, progress: Progress, consumer: object) -> None:
        self._core = core
        self._caller = caller
        self._progress = progress
        self._consumer = consumer
        self.listener = RebalanceListener()
        self.is_manual = False
        """Partitions were chosen with `assign`."""
        self.wake: Callable[[], None] = lambda: None
        """Has the I/O thread look at what changed."""
        self._is_begun = False
        """Whether so much of the letter in hand is done that it must not be done again."""

    async def take_all(self) -> None:
        """Do everything that waits for the caller; raise an error that does.

        A letter that was not begun, because of an interrupt or of a store that cannot tell now, is
        still to be done: the group waits for it.
        """
        mailbox = self._core.mailbox
        while (letter := mailbox.take()) is not None:
            # A listener may poll, and be interrupted in there.
            outer, self._is_begun = self._is_begun, False
            try:
                await self._read(letter)
            except BaseException:
                if not self._is_begun:
                    mailbox.put_first(letter)
                raise
            finally:
                self._is_begun = outer

    async def _read(self, letter: Letter) -> None:
        if isinstance(letter, Turn):
            is_ours = letter.change is Change.ASSIGNED
            await self._take(letter, self.stored_offsets(letter.partitions) if is_ours else {})
            return
        self._is_begun = True
        if isinstance(letter, Committed):
            self.tell_committed(letter.offsets)
        else:
            raise letter

    async def _take(self, turn: Turn, stored: Stored) -> None:
        try:
            if turn.change is Change.ASSIGNED:
                await self._take_over(turn.partitions, stored)
            elif turn.change is Change.REVOKED:
                await self._give_up(turn.partitions)
            else:
                await self._lose(turn.partitions)
        finally:
            if self._is_begun:
                turn.done()
                self.wake()

    async def _take_over(self, partitions: frozenset[TopicPartition], stored: Stored) -> None:
        shelf = self._core.shelf
        shelf.assign([*sorted(shelf.assigned), *sorted(partitions)])
        # What store and listener say counts, even if the committed offset was found meanwhile.
        self.begin_at(stored)
        self._is_begun = True
        await self._caller.result(self.listener.on_assigned(self._consumer, _sorted(partitions)))

    async def _give_up(self, partitions: frozenset[TopicPartition]) -> None:
        try:
            self._is_begun = True
            await self._commit_last(partitions)
            await self._caller.result(self.listener.on_revoked(self._consumer, _sorted(partitions)))
        finally:
            # Whatever comes between: the group takes them for given up.
            self._drop(partitions)

    async def _commit_last(self, partitions: frozenset[TopicPartition]) -> None:
        try:
            await self.commit_for(partitions, self._progress.processed(), _COMMIT_TIMEOUT_S)
        except OttlaError as error:
            log.warning("not committed before partitions were given up: %s", error)

    async def _lose(self, lost: frozenset[TopicPartition]) -> None:
        partitions = lost & self._core.shelf.assigned
        try:
            self._is_begun = True
            await self._caller.result(self.listener.on_lost(self._consumer, _sorted(partitions)))
        finally:
            self._drop(partitions)

    async def give_up_all(self, *, commits: bool = True) -> None:
        """Give up everything, because the caller wants it so; it may be lost already."""
        assigned = self._core.shelf.assigned
        if not assigned:
            return
        if self._core.is_outside:
            await self._lose(assigned)
            return
        if commits:
            await self._give_up(assigned)
            return
        try:
            await self._caller.result(self.listener.on_revoked(self._consumer, _sorted(assigned)))
        finally:
            self._drop(assigned)

    async def commit_for(
        self, partitions: frozenset[TopicPartition], offsets: Offsets, timeout_s: float
    ) -> None:
        """Commit what is processed of these partitions, where commits are automatic.

        They are given up, and nobody will come back to commit again: so it waits for a group that
        is just being shared out anew.  What the program has committed itself stays.
        """
        core = self._core
        chosen = {tp: at for tp, at in offsets.items() if tp in partitions}
        if not chosen or not core.is_auto_committing or not core.is_started:
            return
        committed = await self._caller.run(core.commit_last(chosen, int(timeout_s * 1000)))
        if committed:
            self.tell_committed(committed)

    def stored_offsets(self, partitions: Iterable[TopicPartition]) -> Stored:
        """Ask the user's own store where to begin; raises what that raises."""
        config, wanted = self._core.config, sorted(partitions)
        if config.offset_store is None or not wanted:
            return {}
        known: Stored = config.offset_store.load(config.group_id or "", wanted)
        return known

    def begin_at(self, stored: Stored) -> None:
        """Go where the user's own store says."""
        shelf = self._core.shelf
        with shelf.lock:
            for tp, offset in stored.items():
                if (partition := shelf.find(TopicPartition(*tp))) is not None:
                    partition.seek(offset)

    # Interceptors.

    def intercepted(self, batch: Batch[Any, Any]) -> Batch[Any, Any]:
        """What interceptors make of a batch."""
        for interceptor in self._core.config.interceptors:
            try:
                batch = interceptor.on_consume(batch)
            except Exception:
                log.exception("interceptor %r failed", interceptor)
        return batch

    def intercepted_arrow(self, rows: "pa.RecordBatch") -> "pa.RecordBatch":
        """What interceptors make of rows; not all of them need to be interested."""
        for interceptor in self._core.config.interceptors:
            try:
                rows = getattr(interceptor, "on_consume_arrow", _as_they_are)(rows)
            except Exception:
                log.exception("interceptor %r failed", interceptor)
        return rows

    def tell_committed(self, offsets: Offsets) -> None:
        """Tell interceptors of a commit that worked."""
        for interceptor in self._core.config.interceptors:
            try:
                interceptor.on_commit(offsets)
            except Exception:
                log.exception("interceptor %r failed", interceptor)

    def _drop(self, partitions: frozenset[TopicPartition]) -> None:
        shelf = self._core.shelf
        shelf.assign(sorted(shelf.assigned - partitions))
        self._progress.keep(shelf.assigned)


def _sorted(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return sorted(partitions)


def _as_they_are(rows: "pa.RecordBatch") -> "pa.RecordBatch":
    """For an interceptor that is not interested."""
    return rows
