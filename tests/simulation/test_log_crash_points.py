"""Power loss at every disk operation of a workload: what was synced is there, nothing is invented.

The workloads append, roll, sync, truncate, delete, replace segments, checkpoint and close.  Each
runs once for each of its operations and each way in which a disk forgets; power goes at that
operation, and again while the log recovers or goes on.  A witness knows what must be there, and
what may.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from ottla.log import files
from ottla.log.checkpoints import (
    had_clean_shutdown,
    mark_clean_shutdown,
    read_offsets,
    write_offsets,
)
from ottla.log.log import Log
from ottla.log.producer_state import ProducerStates
from ottla.log.segment import Segment
from ottla.log.transaction_index import TransactionIndex, aborted_in
from ottla.records.batch import Batch
from ottla.records.builder import BatchOptions
from ottla.records.control import Marker, build_marker
from ottla.testing.disk import PowerLoss, SimDisk
from ottla.testing.inodes import Survival
from tests.log_samples import NOW_MS, batch_of, log_config, read_all

TOPIC, PARTITION = "orders", 0
FOLDER = files.folder_of(TOPIC, PARTITION)
CONFIG = log_config(segment_bytes=700, index_interval_bytes=150)

History = list[tuple[int, bytes]]
"""The batches of a log: base offset and bytes."""


@dataclass
class Witness:
    """What a user was told about the log."""

    history: History = field(default_factory=list)
    """Every batch that was appended and not taken back."""
    other: History | None = None
    """What the log may hold instead, while it changes from one to the other."""
    durable_below: int = 0
    """Batches that end here or before were called durable."""
    start_offsets: tuple[int, int] = (0, 0)
    """The least and the largest start offset that the log may have."""
    steps: int = 0
    first_operation: int = 0
    """Where to begin losing power."""

    def check(self, log: Log) -> None:
        least, most = self.start_offsets
        assert least <= log.start_offset <= most, (log, self.start_offsets)
        assert log.next_offset >= self.durable_below, (log, self.durable_below)
        found = [(batch.base_offset, bytes(batch.data)) for batch in read_all(log)]
        candidates = [self.history] if self.other is None else [self.history, self.other]
        assert any(found == self._part(candidate, log) for candidate in candidates), log
        for base_offset, data in found:
            offset = max(base_offset, log.start_offset)
            assert log.epoch_for(offset) == Batch.parse(data).partition_leader_epoch
        if log.start_offset == 0:
            check_producers(log, found)

    def _part(self, history: History, log: Log) -> History:
        """The batches of `history` in the range of `log`."""
        return [
            (base_offset, data)
            for base_offset, data in history
            if Batch.parse(data).last_offset >= log.start_offset and base_offset < log.next_offset
        ]


def check_producers(log: Log, history: History) -> None:
    """What the log knows of its producers is what its batches say."""
    states, transactions = ProducerStates(), TransactionIndex()
    for _, data in history:
        transactions.note(states.apply(Batch.parse(data)))
    assert log.producers.snapshot() == states.snapshot()
    aborted = aborted_in([transactions], 0, log.next_offset)
    assert log.aborted_transactions(0, log.next_offset) == aborted


class Owner:
    """Does with a log what a broker does, in the same order, and tells the witness."""

    def __init__(self, disk: SimDisk, witness: Witness) -> None:
        self.disk = disk
        self.witness = witness
        self.log = self.open()

    def open(self) -> Log:
        was_clean = had_clean_shutdown(self.disk)
        if was_clean:
            self.disk.remove(files.CLEAN_SHUTDOWN)
            self.disk.sync_folder("")
        key = (TOPIC, PARTITION)
        return Log.open(
            self.disk,
            FOLDER,
            CONFIG,
            now_ms=NOW_MS,
            recovery_point=read_offsets(self.disk, files.RECOVERY_POINTS).get(key, 0),
            start_offset=read_offsets(self.disk, files.START_OFFSETS).get(key, 0),
            was_clean=was_clean,
        )

    def append(self, count: int, epoch: int = 0, size_bytes: int = 20) -> None:
        for _ in range(count):
            value = b"%d" % self.witness.steps
            self.put(batch_of(value.rjust(size_bytes), *[value] * (self.witness.steps % 3)), epoch)

    def put(self, batch: Batch, epoch: int = 0) -> None:
        # The witness knows the batch before the log does: power may go in the middle.
        self.witness.steps += 1
        batch.place(self.log.next_offset, epoch)
        self.witness.history.append((batch.base_offset, bytes(batch.data)))
        self.log.append(batch, leader_epoch=epoch, now_ms=NOW_MS)

    def transact(self, producer_id: int, sequence: int) -> None:
        """Write in a transaction."""
        options = BatchOptions(
            producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True
        )
        self.put(batch_of(b"in a transaction", options=options))

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        marker = Marker(
            is_commit=is_commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=NOW_MS,
        )
        self.put(Batch.parse(build_marker(marker)))

    def sync(self) -> None:
        up_to = self.log.next_offset
        for file in self.log.unsynced_files():
            file.sync()
        self.log.mark_synced(up_to)
        self.witness.durable_below = self.log.synced_offset

    def checkpoint(self, recovery_point: int | None = None) -> None:
        point = self.log.settle() if recovery_point is None else recovery_point
        write_offsets(self.disk, files.RECOVERY_POINTS, {(TOPIC, PARTITION): point})

    def truncate(self, offset: int) -> None:
        witness = self.witness
        end_offset = self.log.truncation_point(offset)
        kept = [(base, data) for base, data in witness.history if base < end_offset]
        witness.durable_below = min(witness.durable_below, end_offset)
        self.checkpoint(min(self.log.settle(), end_offset))
        self.log.truncate_to(offset)
        witness.history = kept

    def delete_below(self, offset: int) -> None:
        self.witness.start_offsets = (self.witness.start_offsets[0], offset)
        self.log.advance_start(offset)
        write_offsets(self.disk, files.START_OFFSETS, {(TOPIC, PARTITION): offset})
        self.witness.start_offsets = (offset, offset)
        for path in self.log.delete_old_segments(NOW_MS):
            self.disk.remove(path)

    def delete_below_when_full(self, offset: int) -> None:
        """Delete without room to write the start offset down."""
        self.witness.start_offsets = (self.witness.start_offsets[0], offset)
        self.log.advance_start(offset)
        self.log.remove_old_segments(NOW_MS)
        self.witness.start_offsets = (self.log.segments[0].base_offset, offset)

    def compact(self, count: int) -> None:
        """Replace the first segments by two others: every second batch, and the last one."""
        old = list(self.log.segments[:count])
        data = [bytes(batch.data) for segment in old for batch in segment.batches()]
        kept = [item for i, item in enumerate(data) if i % 2 == 0 or item is data[-1]]
        middle = len(kept) // 2
        new = [
            self._cleaned(old[0].base_offset, kept[:middle]),
            self._cleaned(Batch.parse(kept[middle - 1]).next_offset, kept[middle:]),
        ]
        dropped = set(data) - set(kept)
        before = self.witness.history
        after = [entry for entry in before if entry[1] not in dropped]
        self.witness.history, self.witness.other = after, before
        paths = self.log.replace_segments(old, new)
        self.witness.other = None
        for path in paths:
            self.disk.remove(path)

    def _cleaned(self, base_offset: int, kept: list[bytes]) -> Segment:
        segment = self.log.create_cleaned_segment(base_offset)
        for item in kept:
            segment.append(Batch.parse(item))
        for file in segment.write_out():
            file.sync()
        return segment

    def close(self) -> None:
        self.log.close()
        self.witness.durable_below = self.log.synced_offset
        self.checkpoint()
        mark_clean_shutdown(self.disk, broker_epoch=1)

    def reopen(self) -> None:
        self.log = self.open()

    def kill(self) -> None:
        """End the process, but not the machine, and start again."""
        self.disk.end_process()
        self.reopen()

    def adopt(self) -> None:
        """Go on with what was found, whatever it was."""
        found = [(batch.base_offset, bytes(batch.data)) for batch in read_all(self.log)]
        self.witness.history, self.witness.other = found, None
        # What is appended next has the size of what was lost, if something was: should any of the
        # lost batches come back behind it, they would fit.
        self.witness.steps = len(found)
        self.witness.start_offsets = (self.log.start_offset, self.log.start_offset)

    def begin(self) -> None:
        """What was done up to here is the matter of other workloads."""
        self.witness.first_operation = self.disk.operation_count


def append_and_roll(owner: Owner) -> None:
    owner.append(6)
    owner.sync()
    owner.append(9, epoch=1)
    owner.checkpoint()
    owner.sync()
    owner.append(3, epoch=1)
    owner.sync()
    owner.checkpoint()
    owner.log.roll(NOW_MS)
    owner.append(4, epoch=2)


def truncate_to_an_older_segment(owner: Owner) -> None:
    owner.append(8, size_bytes=250)
    owner.sync()
    owner.kill()
    owner.checkpoint()
    owner.truncate(owner.log.segments[1].base_offset - 1)
    owner.append(3)
    owner.sync()
    owner.append(4)
    owner.sync()
    owner.checkpoint()


def truncate_and_write_the_same_again(owner: Owner) -> None:
    owner.append(5, epoch=1)
    owner.sync()
    owner.append(3, epoch=2)
    owner.truncate(5)
    owner.append(3, epoch=2)
    owner.sync()
    owner.checkpoint()
    owner.append(1, epoch=3)


def truncate_fully(owner: Owner) -> None:
    owner.append(8, size_bytes=200)
    owner.sync()
    owner.begin()
    owner.checkpoint(0)
    owner.witness.durable_below = 0
    owner.witness.start_offsets = (0, 50)
    owner.log.truncate_fully_and_start_at(50)
    owner.witness.history = []
    owner.witness.start_offsets = (50, 50)
    owner.append(3)
    owner.sync()
    owner.checkpoint()


def replace_three_segments(owner: Owner) -> None:
    for _ in range(3):
        owner.append(4, epoch=1)
        owner.log.roll(NOW_MS)
    owner.sync()
    owner.checkpoint()
    owner.begin()
    owner.compact(3)
    owner.append(1, epoch=1)
    owner.sync()


def delete_records(owner: Owner) -> None:
    owner.append(18)
    owner.sync()
    owner.checkpoint()
    owner.begin()
    owner.delete_below(owner.log.segments[2].base_offset + 1)
    owner.append(2)
    owner.delete_below(owner.log.next_offset)
    owner.append(1)
    owner.sync()


def delete_records_when_full(owner: Owner) -> None:
    for producer_id in (1, 2, 3):
        owner.transact(producer_id, 0)
        owner.end(producer_id, is_commit=False)
        owner.append(4)
        owner.log.roll(NOW_MS)
    owner.sync()
    owner.checkpoint()
    owner.begin()
    owner.delete_below_when_full(owner.log.segments[2].base_offset + 1)
    owner.append(2)
    owner.delete_below_when_full(owner.log.next_offset)
    owner.append(1)
    owner.sync()


def end_transactions(owner: Owner) -> None:
    for number in range(3):
        owner.transact(1, number)
        owner.transact(2 + number, 0)
        owner.end(1, is_commit=number % 2 == 0)
        owner.sync()
        if number == 1:
            owner.checkpoint()
        owner.end(2 + number, is_commit=False)
    owner.log.roll(NOW_MS)
    owner.transact(1, 3)
    owner.end(1, is_commit=False)
    owner.close()
    owner.reopen()
    owner.truncate(owner.log.next_offset - 1)
    owner.end(1, is_commit=True)
    owner.close()
    owner.reopen()
    owner.transact(1, 4)
    owner.sync()


def close_and_go_on(owner: Owner) -> None:
    owner.append(8, epoch=1)
    owner.close()
    owner.reopen()
    owner.append(5, epoch=4)
    owner.sync()
    owner.close()


WORKLOADS: dict[str, Callable[[Owner], None]] = {
    work.__name__: work
    for work in (
        append_and_roll,
        truncate_to_an_older_segment,
        truncate_and_write_the_same_again,
        truncate_fully,
        replace_three_segments,
        delete_records,
        delete_records_when_full,
        end_transactions,
        close_and_go_on,
    )
}

LUCK = {Survival.NOTHING: 1, Survival.EVERYTHING: 1, Survival.PREFIX: 1, Survival.SCATTERED: 3}
"""How often to try the ways of forgetting that are drawn by lot."""

LUCK_WITH_NAMES = 4
"""How much more often where it matters which of many renames survive."""


def operations_of(work: Callable[[Owner], None]) -> range:
    """When to lose power: at each operation, and after the last one."""
    disk, witness = SimDisk(), Witness()
    work(Owner(disk, witness))
    return range(witness.first_operation, disk.operation_count + 1)


def live_until_power_loss(work: Callable[[Owner], None], disk: SimDisk, witness: Witness) -> None:
    with suppress(PowerLoss):
        work(Owner(disk, witness))


def go_on(owner: Owner) -> None:
    """A log that was recovered is a log as any other."""
    owner.witness.check(owner.log)
    owner.adopt()
    owner.append(6, epoch=9)
    owner.sync()
    owner.checkpoint()
    owner.append(1, epoch=9)


def crash(work: Callable[[Owner], None], crash_at: int, survival: Survival, seed: int) -> None:
    """Lose power at one operation, and again in the life that follows, and look each time."""
    rng = random.Random(seed)
    witness = Witness()
    disk = SimDisk(rng, crash_at=crash_at)
    live_until_power_loss(work, disk, witness)
    disk.lose_power(rng, survival=survival)
    disk.crash_at = disk.operation_count + rng.randrange(30)
    live_until_power_loss(go_on, disk, witness)
    disk.lose_power(rng, survival=survival)
    owner = Owner(disk, witness)
    go_on(owner)
    owner.close()
    owner.reopen()
    witness.check(owner.log)


@pytest.mark.parametrize("survival", Survival, ids=lambda survival: survival.name.lower())
@pytest.mark.parametrize("work", WORKLOADS.values(), ids=WORKLOADS)
def test_what_was_synced_survives_power_loss_at_every_operation(
    work: Callable[[Owner], None], survival: Survival
) -> None:
    tries = LUCK[survival]
    if survival is Survival.SCATTERED and work is replace_three_segments:
        tries *= LUCK_WITH_NAMES
    for crash_at in operations_of(work):
        for luck in range(tries):
            crash(work, crash_at, survival, seed=100 * crash_at + luck)
