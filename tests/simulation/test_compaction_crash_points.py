"""Power loss at every disk operation of a compaction: no key is lost, nothing comes back wrong.

The workload fills a log with records, tombstones and transactions, compacts it three times, writes
down how far it came, and goes on.  It runs once for each disk operation and each way in which a
disk forgets.  Whatever a compaction had done by then, each key still has the newest of its durable
records, aborted records stay aborted, and the next compaction completes the work.
"""

import random
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from ottla.log import files
from ottla.log.checkpoints import read_offsets, write_offsets
from ottla.log.files import CLEANED_OFFSETS
from ottla.log.log import Log
from ottla.records.batch import NO_PRODUCER_ID, NO_SEQUENCE
from ottla.testing.disk import PowerLoss, SimDisk
from ottla.testing.inodes import Survival
from tests.compaction_samples import (
    HOUR_MS,
    Pair,
    begin,
    cleaner_config,
    committed_content_of,
    compacted_config,
    content_of,
    end_transaction,
    put,
    stable_offset,
)
from tests.log_samples import NOW_MS

TOPIC, PARTITION = "users", 0
KEY = (TOPIC, PARTITION)
FOLDER = files.folder_of(*KEY)
CONFIG = compacted_config(segment_bytes=300)
ADA, BOB = 7, 8


@dataclass
class Witness:
    """What a user was told about the log."""

    written: dict[int, Pair] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    """Offsets of records in transactions that were, or are about to be, aborted."""
    producers: dict[int, int] = field(default_factory=dict)
    """Offsets of records in transactions -> their producer."""
    durable_below: int = 0

    def check(self, log: Log) -> None:
        assert log.next_offset >= self.durable_below
        content = content_of(log)
        for offset, key, value in content:
            assert self.written[offset] == (key, value)
        present = {offset: key for offset, key, _ in content}
        for key, offset in self._newest_durable().items():
            found = [at for at, other in present.items() if other == key]
            if self.written[offset][1] is None and not found:
                continue  # The tombstone had its time, and nothing comes back without it.
            assert found, (key, offset, log)
            assert found[-1] >= offset, (key, offset, log)
        for offset, _, _ in committed_content_of(log):
            assert offset not in self.aborted or offset >= stable_offset(log)

    def _newest_durable(self) -> dict[bytes | None, int]:
        return {
            key: offset
            for offset, (key, _) in self.written.items()
            if offset < self.durable_below and offset not in self.aborted
        }


class Owner:
    """Does with a compacted log what a broker does, in the same order."""

    def __init__(self, disk: SimDisk, witness: Witness) -> None:
        self.disk = disk
        self.witness = witness
        self.now_ms = NOW_MS
        self.sequences = {ADA: 0, BOB: 0}
        self.log = Log.open(
            disk,
            FOLDER,
            CONFIG,
            now_ms=NOW_MS,
            recovery_point=read_offsets(disk, files.RECOVERY_POINTS).get(KEY, 0),
        )
        self.log.producers.advance_high_watermark(self.log.next_offset)

    def put(self, *pairs: Pair, producer_id: int = NO_PRODUCER_ID, aborted: bool = False) -> None:
        for number, pair in enumerate(pairs):
            offset = self.log.next_offset + number
            self.witness.written[offset] = pair
            if producer_id != NO_PRODUCER_ID:
                self.witness.producers[offset] = producer_id
            if aborted:
                self.witness.aborted.add(offset)
        has_producer = producer_id != NO_PRODUCER_ID
        sequence = self.sequences[producer_id] if has_producer else NO_SEQUENCE
        put(
            self.log,
            *pairs,
            producer_id=producer_id,
            sequence=sequence,
            transactional=has_producer,
        )
        if has_producer:
            self.sequences[producer_id] += len(pairs)

    def sync(self) -> None:
        self.log.sync()
        self.witness.durable_below = self.log.synced_offset

    def checkpoint(self) -> None:
        write_offsets(self.disk, files.RECOVERY_POINTS, {KEY: self.log.settle()})

    def compact(self, max_keys: int = 100) -> None:
        cleaned_offset = read_offsets(self.disk, CLEANED_OFFSETS).get(KEY)
        compaction = begin(
            self.disk,
            self.log,
            cleaned_offset=cleaned_offset,
            now_ms=self.now_ms,
            config=cleaner_config(dedupe_buffer_bytes=24 * max_keys),
        )
        while not compaction.is_done:
            for file in compaction.step():
                file.sync()
            for path in compaction.take_replaced():
                self.disk.remove(path)
        write_offsets(self.disk, CLEANED_OFFSETS, {KEY: compaction.cleaned_offset})


def workload(owner: Owner) -> None:
    owner.put((b"a", b"1"), (b"b", b"1"))
    owner.put((b"a", b"2"))
    owner.put((b"a", b"never"), producer_id=ADA, aborted=True)
    owner.put((b"b", b"2"), producer_id=BOB)
    end_transaction(owner.log, ADA, commit=False)
    owner.put((b"c", b"1"), (b"d", b"1"))
    end_transaction(owner.log, BOB, commit=True)
    owner.put((b"c", None))
    owner.put((b"a", b"3"), (b"e", b"1"))
    owner.log.roll(NOW_MS)
    owner.sync()
    owner.checkpoint()
    owner.compact(max_keys=5)
    owner.put((b"f", b"never"), producer_id=ADA, aborted=True)
    owner.put((b"f", b"1"), (b"b", b"3"))
    end_transaction(owner.log, ADA, commit=False)
    owner.put((b"g", b"1"))
    owner.log.roll(NOW_MS)
    owner.sync()
    owner.compact()
    owner.checkpoint()
    owner.now_ms += 2 * HOUR_MS
    owner.put((b"e", b"2"))
    owner.log.roll(NOW_MS)
    owner.sync()
    owner.compact()
    owner.put((b"h", b"1"))
    owner.sync()


def operations_of_workload() -> int:
    disk = SimDisk()
    workload(Owner(disk, Witness()))
    return disk.operation_count


EVERY_OPERATION = range(operations_of_workload())


def crash(crash_at: int, survival: Survival, again_after: int | None) -> None:
    """Lose power at one operation, maybe once more while the log recovers, then look."""
    rng = random.Random(crash_at)
    disk = SimDisk(rng, crash_at=crash_at)
    witness = Witness()
    with suppress(PowerLoss):
        workload(Owner(disk, witness))
    disk.lose_power(rng, survival=survival)
    if again_after is not None:
        disk.crash_at = disk.operation_count + again_after
        with suppress(PowerLoss):
            Owner(disk, witness)
        disk.lose_power(rng, survival=survival)
    owner = Owner(disk, witness)
    witness.check(owner.log)
    go_on(owner)


def go_on(owner: Owner) -> None:
    """What is left can be compacted like any other log, and recovered after that."""
    witness = owner.witness
    for offset in list(witness.written):
        if offset >= owner.log.next_offset:
            del witness.written[offset]
            witness.aborted.discard(offset)
            witness.producers.pop(offset, None)
    owner.now_ms += HOUR_MS
    owner.put((b"z", b"last"))
    for producer in list(owner.log.producers):
        if producer.open_since_offset is not None:
            # Its marker was lost, whatever it said: the coordinator would send one again.
            witness.aborted |= {
                offset
                for offset, producer_id in witness.producers.items()
                if producer_id == producer.producer_id and offset >= producer.open_since_offset
            }
            end_transaction(owner.log, producer.producer_id, commit=False)
    owner.log.roll(NOW_MS)
    owner.sync()
    owner.compact()
    witness.check(owner.log)
    content = content_of(owner.log)
    owner.log.abandon()
    again = Owner(owner.disk, witness)
    assert content_of(again.log) == content
    names = owner.disk.names(FOLDER)
    assert [name for name in names if name.endswith((files.CLEANED, files.SWAP))] == []


@pytest.mark.parametrize("survival", Survival, ids=lambda survival: survival.name.lower())
def test_no_key_is_lost_by_power_loss_at_any_operation_of_a_compaction(survival: Survival) -> None:
    for crash_at in EVERY_OPERATION:
        crash(crash_at, survival, again_after=None)


@pytest.mark.parametrize("survival", Survival, ids=lambda survival: survival.name.lower())
def test_no_key_is_lost_by_power_loss_during_the_recovery_after_it(survival: Survival) -> None:
    for crash_at in EVERY_OPERATION[::3]:
        crash(crash_at, survival, again_after=crash_at % 7)
