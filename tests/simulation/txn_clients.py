"""Simulated clients of transactions: writers, copiers, and consumers of both isolation levels."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Final

from ottla.errors import ErrorCode
from ottla.ports import Ports
from ottla.records.batch import Batch, batches
from ottla.testing.history import Polled
from ottla.wire.messages.fetch import AbortedTransaction, PartitionData
from tests.simulation import group_requests
from tests.simulation import txn_requests as requests
from tests.simulation.broker_clients import Consumer, Link, Spot
from tests.simulation.journal import Journal
from tests.simulation.txn_ledger import TxnLedger, copy_of
from tests.simulation.txn_producer import FencedError, GaveUpError, TxnProducer

READ_COMMITTED: Final = 1
ABORT_CHANCE: Final = 0.25
MAX_COPIED: Final = 6


class UncommittedConsumer(Consumer):
    """Reads all records, whatever becomes of their transactions."""

    def _records(self, spot: Spot, data: PartitionData) -> list[Polled]:
        found = list(batches(data.records or b"", partial_tail=True))
        position = self._positions[spot]
        polls = []
        for batch in self._visible(found, data):
            batch.check_crc()
            polls += [
                Polled(str(spot), bytes(record[3] or b"").decode(), record[0])
                for record in batch.records()
                if record[0] >= position  # a fetch may begin inside a batch
            ]
        limit = self._limit(data)
        if found:
            position = max(position, found[-1].last_offset + 1)
        if position > limit:
            self._journal.violate(f"{spot} showed {position - 1}, but stable is only {limit}")
        self._positions[spot] = position
        return polls

    def _visible(self, found: list[Batch], data: PartitionData) -> Iterator[Batch]:
        return (batch for batch in found if not batch.is_control)

    def _limit(self, data: PartitionData) -> int:
        return data.high_watermark


class CommittedConsumer(UncommittedConsumer):
    """Reads what was committed, as clients do with isolation.level=read_committed."""

    isolation_level = READ_COMMITTED

    def __init__(self, ports: Ports, name: str, journal: Journal, rng: Random) -> None:
        super().__init__(ports, name, journal, rng)
        self._stable: dict[Spot, int] = {}

    def _watch(self, spot: Spot, data: PartitionData) -> None:
        super()._watch(spot, data)
        highest = self._stable.get(spot, 0)
        if data.last_stable_offset < highest:
            self._journal.violate(
                f"last stable offset of {spot} went back from {highest} to "
                f"{data.last_stable_offset}"
            )
        self._stable[spot] = max(highest, data.last_stable_offset)

    def _visible(self, found: list[Batch], data: PartitionData) -> Iterator[Batch]:
        aborted = list(data.aborted_transactions or ())
        if aborted != sorted(aborted, key=lambda each: each.first_offset):
            self._journal.violate(f"aborted transactions out of order: {aborted}")
        return committed(found, aborted)

    def _limit(self, data: PartitionData) -> int:
        return data.last_stable_offset


def committed(found: Iterable[Batch], aborted: list[AbortedTransaction]) -> Iterator[Batch]:
    """The batches without markers, and without those of aborted transactions: in one pass."""
    dropping: set[int] = set()
    for batch in found:
        while aborted and aborted[0].first_offset <= batch.last_offset:
            dropping.add(aborted.pop(0).producer_id)
        if batch.is_control:
            dropping.discard(batch.producer_id)
        elif not batch.is_transactional or batch.producer_id not in dropping:
            yield batch


class Tap(CommittedConsumer):
    """Reads one partition for somebody who does something with it."""

    def __init__(self, ports: Ports, name: str, journal: Journal, rng: Random) -> None:
        super().__init__(ports, name, journal, rng)
        self._polled: list[Polled] = []

    def seek(self, spot: Spot, offset: int) -> None:
        self._positions = {spot: offset}

    async def read(self) -> list[Polled]:
        """Some records, maybe none."""
        self._polled = []
        await self._poll(max_wait_ms=self._rng.choice((0, 20, 100)))
        return self._polled

    def position(self, spot: Spot) -> int:
        return self._positions[spot]

    def _add(self, polls: list[Polled]) -> None:
        self._polled = polls


class LastReader(CommittedConsumer):
    """Remembers what it read, for whoever asks."""

    def __init__(self, ports: Ports, name: str, journal: Journal, rng: Random) -> None:
        super().__init__(ports, name, journal, rng)
        self._polls: list[Polled] = []

    def of(self, spot: Spot) -> list[Polled]:
        """What it has read of one partition."""
        return [polled for polled in self._polls if polled.partition == str(spot)]

    def _add(self, polls: list[Polled]) -> None:
        super()._add(polls)
        self._polls += polls


class Writer:
    """Writes transactions over several partitions; some of them it aborts."""

    def __init__(
        self, producer: TxnProducer, spots: Sequence[Spot], *, max_rest_s: float, rng: Random
    ) -> None:
        self._producer = producer
        self._spots = spots
        self._max_rest_s = max_rest_s
        self._rng = rng

    async def work(self, is_over: Callable[[], bool]) -> None:
        """Write until it `is_over`, or somebody takes its place."""
        try:
            await self._producer.init()
            while not is_over():
                await asyncio.sleep(self._rng.uniform(0, self._max_rest_s))
                await self._write_once()
        except FencedError:
            return

    async def _write_once(self) -> None:
        attempt = self._producer.begin()
        value_count = 0

        def new_values() -> tuple[str, ...]:
            nonlocal value_count
            count = self._rng.choice((1, 1, 2, 3))
            value_count += count
            first = value_count - count
            return tuple(f"{attempt.label}.{first + number}" for number in range(count))

        def new_round() -> Mapping[Spot, tuple[str, ...]]:
            spots = self._rng.sample(self._spots, self._rng.randint(1, len(self._spots)))
            return {spot: new_values() for spot in spots}

        try:
            for _ in range(self._rng.choice((1, 1, 2, 3))):
                await self._producer.nap()
                rounds = [new_round() for _ in range(self._rng.choice((1, 1, 2)))]
                await self._producer.write(rounds)
            await self._producer.nap()
            is_commit = self._rng.random() >= ABORT_CHANCE
        except GaveUpError:
            is_commit = False
        await self._producer.end(is_commit=is_commit)


class Copier:
    """Copies one partition exactly once: what it read is committed with what it wrote."""

    def __init__(
        self,
        producer: TxnProducer,
        tap: Tap,
        offsets: "Offsets",
        *,
        source: Spot,
        targets: Sequence[Spot],
        max_rest_s: float,
        rng: Random,
    ) -> None:
        self._producer = producer
        self._tap = tap
        self._offsets = offsets
        self._source = source
        self._targets = targets
        self._max_rest_s = max_rest_s
        self._rng = rng

    async def work(self) -> None:
        """Copy until somebody takes its place."""
        try:
            await self._producer.init()
            self._tap.seek(self._source, max(await self._offsets.stable(self._source), 0))
            while True:
                await asyncio.sleep(self._rng.uniform(0, self._max_rest_s))
                begin = self._tap.position(self._source)
                if polls := await self._tap.read():
                    await self._copy(begin, polls)
        except FencedError:
            return

    async def _copy(self, begin_offset: int, polls: list[Polled]) -> None:
        attempt = self._producer.begin()
        end_offset = self._tap.position(self._source)
        if len(polls) > MAX_COPIED:
            polls = polls[:MAX_COPIED]
            end_offset = polls[-1].offset + 1
        attempt.polls += polls
        copies: dict[Spot, tuple[str, ...]] = {}
        for polled in polls:
            target = self._rng.choice(self._targets)
            copy = copy_of(str(polled.value), attempt.label)
            copies[target] = (*copies.get(target, ()), copy)
        try:
            await self._producer.nap()
            await self._producer.write([copies])
            await self._producer.commit_offsets(self._offsets.group_id, {self._source: end_offset})
            await self._producer.nap()
            is_commit = self._rng.random() >= ABORT_CHANCE
        except GaveUpError:
            is_commit = False
        await self._producer.end(is_commit=is_commit)
        self._tap.seek(self._source, end_offset if is_commit else begin_offset)


class Offsets:
    """Looks at the offsets of a group, from outside."""

    def __init__(self, link: Link, group_id: str, ledger: TxnLedger, rng: Random) -> None:
        self.group_id = group_id
        self._link = link
        self._ledger = ledger
        self._rng = rng

    async def stable(self, spot: Spot) -> int:
        """The offset of a partition, once no transaction holds it back; asks until it is told."""
        while True:
            offset = await self.peek(spot, require_stable=True)
            if offset is not None:
                return offset
            await asyncio.sleep(self._rng.uniform(0.01, 0.1))

    async def peek(self, spot: Spot, *, require_stable: bool) -> int | None:
        """The offset of a partition, as the ledger is told too; None if there is none to be had."""
        not_below = self._ledger.known_offset(spot)
        asked = requests.fetch_offsets(self.group_id, [spot], require_stable=require_stable)
        answer = await self._link.ask(*asked)
        if answer is None:
            return None
        code, found = group_requests.offsets_of(answer)
        if code is not ErrorCode.NONE:
            return None
        offset, note = found[spot]
        self._ledger.hear_of_offset(spot, offset, note, not_below=not_below)
        return offset
