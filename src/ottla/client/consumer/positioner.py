"""Finds out where to read: committed offsets, resets, and whether a new leader has what we read.

Lives on the I/O thread, and looks whenever something was assigned, sought or led anew.  Each broker
is asked in a task of its own, so one that says nothing delays nobody else's partitions.  Where
`auto.offset.reset` is none, and for errors that time does not mend, the caller hears of it when he
comes to that partition.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from ottla.client.cluster_view import Leader
from ottla.client.consumer.chunks import Trouble
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.lookups import EARLIEST, LATEST, EpochEnd, Found, Lookups
from ottla.client.consumer.partition import Need, Partition
from ottla.client.consumer.shelf import Shelf
from ottla.client.engine import Engine
from ottla.client.records import NO_EPOCH
from ottla.errors import ErrorCode, OttlaError, PositionError
from ottla.model import TopicPartition

log = logging.getLogger(__name__)

NO_RESET = "none"


class Positioner:
    """Made in the loop of the engine."""

    def __init__(
        self,
        engine: Engine,
        shelf: Shelf,
        config: ConsumerConfig,
        lookups: Lookups,
        on_news: Callable[[], None],
        fail: Callable[[OttlaError], None],
    ) -> None:
        """`on_news` is called when a position became known; `fail` when something went wrong."""
        self._engine = engine
        self._shelf = shelf
        self._config = config
        self._lookups = lookups
        self._on_news = on_news
        self._fail = fail
        self._wake = asyncio.Event()
        self._attended: dict[TopicPartition, tuple[Partition, int]] = {}
        """Whose need, known by its number, somebody sees to."""
        engine.subscribe(self.wake)

    def wake(self) -> None:
        """Look again."""
        self._wake.set()

    async def run(self) -> None:
        """Find positions for ever: of each broker's partitions on their own, whatever others do."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._wake.clear()
                for some in self._unattended():
                    tasks.create_task(self._attend(some))
                await self._wake.wait()

    def _unattended(self) -> list[list[Partition]]:
        """Partitions that need something that nobody sees to yet, by who is to be asked."""
        by_source: dict[object, list[Partition]] = {}
        for partition in self._shelf:
            mark = (partition, partition.number)
            if self._attended.get(partition.tp) == mark or not self._is_needy(partition):
                continue
            self._attended[partition.tp] = mark
            leader = self._engine.cluster.leader(partition.tp)
            source = None if leader is None else leader.node_id
            is_led = partition.need is not Need.COMMITTED
            by_source.setdefault(source if is_led else partition.need, []).append(partition)
        return list(by_source.values())

    def _is_needy(self, partition: Partition) -> bool:
        if partition.need is Need.NOTHING:
            leader = self._engine.cluster.leader(partition.tp)
            return leader not in (None, partition.validated)
        return partition.need is Need.COMMITTED or not partition.trouble

    async def _attend(self, partitions: list[Partition]) -> None:
        """Ask, again after a pause where that may help, until nothing of it is left to ask."""
        marks = {p.tp: (p, p.number) for p in partitions}
        failure_count = 0
        try:
            while left := [p for p, number in marks.values() if self._is_left(p, number)]:
                if failure_count:
                    luck = self._engine.ports.entropy.random()
                    pause_ms = self._engine.backoff.delay_ms(failure_count, luck)
                    await asyncio.sleep(pause_ms / 1000)
                failure_count += 1
                await self._attempt(left)
        finally:
            for tp, mark in marks.items():
                if self._attended.get(tp) == mark:
                    del self._attended[tp]
            self.wake()  # what was found may lead to another question

    def _is_left(self, partition: Partition, number: int) -> bool:
        is_ours = self._shelf.find(partition.tp) is partition and partition.number == number
        return is_ours and self._is_needy(partition)

    async def _attempt(self, partitions: list[Partition]) -> None:
        """Find what can be found; what cannot keeps nothing else waiting."""
        by_need: dict[Need, list[Partition]] = {need: [] for need in Need}
        for partition in partitions:
            by_need[partition.need].append(partition)
        for need, find in (
            (Need.COMMITTED, self._find_committed),
            (Need.RESET, self._reset),
            (Need.NOTHING, self._validate),
        ):
            try:
                await find(by_need[need])
            except OttlaError as error:
                self._engine.check_open()
                if error.retriable:
                    log.debug("positions not found yet: %s", error)
                else:
                    self._fail(error)

    # Committed offsets.

    async def _find_committed(self, partitions: list[Partition]) -> None:
        if not partitions:
            return
        group_id = self._config.group_id
        numbers = {p.tp: p.number for p in partitions}
        if group_id is None:
            found = dict.fromkeys(numbers)
        else:
            found = await self._lookups.committed(group_id, numbers)
        with self._shelf.lock:
            for partition in self._still(partitions, numbers, Need.COMMITTED):
                committed = found[partition.tp]
                if committed is None:
                    partition.ask(Need.RESET)
                else:
                    partition.seek(committed.offset, committed.leader_epoch)
        self._on_news()

    # Resets.

    async def _reset(self, partitions: list[Partition]) -> None:
        numbers = {p.tp: p.number for p in partitions}
        times: dict[TopicPartition, int] = {}
        for partition in partitions:
            target = partition.reset_to
            if target is None and self._config.auto_offset_reset == NO_RESET:
                self._refuse(partition)
            else:
                times[partition.tp] = self._time_of(target)
        if not times:
            return
        found: dict[TopicPartition, Found] = {}
        begin = await self._skippable(partitions, times)

        def take(more: dict[TopicPartition, Found]) -> None:
            found.update(more)
            self._tell_skipped(begin, more)
            with self._shelf.lock:
                for partition in self._still(partitions, numbers, Need.RESET):
                    if (at := more.get(partition.tp)) is not None and at.offset >= 0:
                        partition.seek(at.offset)
            self._on_news()

        trouble: OttlaError | None = None
        try:
            await self._lookups.offsets_once(times, take)
        except OttlaError as error:
            trouble = error
        if beyond := {tp: LATEST for tp, at in found.items() if at.offset < 0}:
            await self._lookups.offsets_once(beyond, take)
        if trouble is not None:
            raise trouble

    def _time_of(self, target: object) -> int:
        chosen = self._config.auto_offset_reset if target is None else target
        if chosen in ("earliest", "beginning"):
            return EARLIEST
        if chosen in ("latest", "end"):
            return LATEST
        if isinstance(chosen, datetime):
            return int(chosen.timestamp() * 1000)
        assert isinstance(chosen, timedelta), f"{chosen!r} is no place to reset to"
        return self._engine.ports.clock.now_ms() - int(abs(chosen).total_seconds() * 1000)

    def _refuse(self, partition: Partition) -> None:
        error = PositionError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition.tp} has no committed offset, or no record there, and auto.offset.reset "
            "is none; seek, or choose earliest or latest",
        )
        self._shelf.refuse(partition, error)
        self._on_news()

    async def _skippable(
        self, partitions: Iterable[Partition], times: dict[TopicPartition, int]
    ) -> dict[TopicPartition, Found]:
        """Where partitions begin of which a new group reads the end only, to say what it skips."""
        begin: dict[TopicPartition, Found] = {}
        at_end = [p.tp for p in partitions if p.reset_to is None and times.get(p.tp) == LATEST]
        if at_end and self._config.group_id is not None and log.isEnabledFor(logging.INFO):
            try:
                await self._lookups.offsets_once(dict.fromkeys(at_end, EARLIEST), begin.update)
            except OttlaError as error:
                log.debug("beginnings not found: %s", error)
        return begin

    def _tell_skipped(
        self, begin: dict[TopicPartition, Found], found: dict[TopicPartition, Found]
    ) -> None:
        """A new group that starts at the end says so: it is the most common surprise of all."""
        if at_end := sorted(begin.keys() & found.keys()):
            log.info(
                "group %r has no committed offset for %s; starting at the end, %d records skipped",
                self._config.group_id,
                ", ".join(map(str, at_end)),
                sum(found[tp].offset - begin[tp].offset for tp in at_end),
            )

    # New leaders.

    async def _validate(self, partitions: list[Partition]) -> None:
        cluster = self._engine.cluster
        unsure: dict[TopicPartition, int] = {}
        leaders: dict[TopicPartition, Leader] = {}
        numbers: dict[TopicPartition, int] = {}
        has_news = False
        for partition in partitions:
            leader = cluster.leader(partition.tp)
            if partition.need is not Need.NOTHING or leader in (None, partition.validated):
                continue
            assert leader is not None
            with self._shelf.lock:
                epoch, numbers[partition.tp] = partition.fetch_epoch, partition.number
                if NO_EPOCH in (epoch, leader.epoch) or epoch == leader.epoch:
                    partition.validated = leader
                    has_news = True
                else:
                    unsure[partition.tp], leaders[partition.tp] = epoch, leader
        if has_news:
            self._on_news()
        if unsure:

            def take(ends: dict[TopicPartition, EpochEnd]) -> None:
                for tp, end in ends.items():
                    self._judge(tp, numbers[tp], leaders[tp], end)
                self._on_news()

            await self._lookups.epoch_ends_once(unsure, take)

    def _judge(self, tp: TopicPartition, number: int, leader: Leader, end: EpochEnd) -> None:
        """Compare what we read with what the new leader has (KIP-320)."""
        with self._shelf.lock:
            partition = self._shelf.find(tp)
            if partition is None or partition.number != number:
                return
            is_unknown = end.end_offset < 0 or end.leader_epoch < 0
            if not is_unknown and end.end_offset >= partition.fetch_offset:
                partition.validated = leader
                return
            detail = (
                f"{tp} was truncated below offset {partition.fetch_offset}, up to which it was "
                f"read: epoch {partition.fetch_epoch} ends at offset {end.end_offset}"
            )
            log.warning("%s", detail)
            error = None
            if self._config.auto_offset_reset == NO_RESET:
                error = PositionError(ErrorCode.OFFSET_OUT_OF_RANGE, detail)
            partition.validated = leader
            trouble = Trouble(error, None if is_unknown else end.end_offset)
            self._shelf.put_trouble(partition, number, partition.fetch_offset, trouble)

    def _still(
        self, partitions: Iterable[Partition], numbers: dict[TopicPartition, int], need: Need
    ) -> list[Partition]:
        """Those that nobody took away or sent elsewhere meanwhile."""
        return [
            p
            for p in partitions
            if p.number == numbers[p.tp] and p.need is need and self._shelf.find(p.tp) is p
        ]
