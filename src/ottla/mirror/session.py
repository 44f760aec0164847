"""One connection to both clusters: looks at topics, copies records, brings groups along.

It ends when it is done or stopped, and raises when anything goes wrong.  Then nothing that it knew
is trusted any more: the next session reads from the target how far the copy is.
"""

import threading
import time
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.producer import Producer
from ottla.errors import OttlaError, PositionError
from ottla.mirror.clients import Ends
from ottla.mirror.groups import bring_along
from ottla.mirror.journal import (
    Copy,
    Entry,
    Journal,
    Names,
    checkpoint_entry,
    copy_entry,
    source_entry,
)
from ottla.mirror.offset_map import Checkpoint, Run
from ottla.mirror.progress import Meter, MirrorProgress, Watch
from ottla.mirror.settings import MirrorSettings, Say
from ottla.mirror.topics import Seen, Topics
from ottla.mirror.transfer import MAX_RECORDS, Ledger, RecordTransfer, Transfer, more_lots
from ottla.mirror.translation import Translation, settled_ends
from ottla.model import TopicPartition
from ottla.values import dataclass

POLL_S: Final = 0.5
SETTLE_S: Final = 5.0
"""How long somebody who stops it waits for marks of the last transaction, which come behind it.

One that runs once waits longer: nobody else would bring groups behind them.
"""
SETTINGS_LOOKS: Final = 6
"""Settings seldom change, and each topic is asked for its own: at every so many looks."""


class LossError(OttlaError):
    """The source has deleted, or lost, records that were not copied yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Those who see what a mirror does, and may stop it."""

    say: Say
    watch: Watch
    meter: Meter
    stopping: threading.Event


class Session:
    """See the module's words."""

    def __init__(
        self,
        settings: MirrorSettings,
        names: Names,
        ends: Ends,
        journal: Journal,
        watcher: Watcher,
    ) -> None:
        self._settings = settings
        self._names = names
        self._ends = ends
        self._journal = journal
        self._watcher = watcher
        self._topics = Topics(ends.source, ends.target, journal, watcher.say)
        self._copies: dict[str, Copy] = {}
        self._assigned: dict[TopicPartition, int] = {}
        self._goals: dict[TopicPartition, int] | None = None
        self._transfer: type[Transfer[Any]] = transfer_type(settings.uses_arrow)
        self._is_outdated = False
        """Whether topics or partitions are others than those that the clients know."""
        self._look_due_s = 0.0
        self._look_count = 0

    def run(self, consumer: Consumer[Any, Any], producer: Producer[Any, Any]) -> bool:
        """Copy until it is done, or somebody stops it; False: until another session is needed."""
        self._topics.learn_settings(self._names.topic)
        self._look(consumer, producer, is_first=True)
        while not self._watcher.stopping.is_set() and not self._is_done(consumer):
            if time.monotonic() >= self._look_due_s:
                self._look(consumer, producer)
                self._bring_groups()
            if self._is_outdated or self._topics.has_grown:
                return False  # clients would hear of new partitions in some minutes only
            try:
                self._copy(consumer, producer)
            except PositionError as error:
                self._find_lost(error, consumer, producer)
            self._watcher.watch(self.progress())
        self._note_lags(consumer)
        is_patient = self._settings.is_once and not self._watcher.stopping.is_set()
        self._bring_groups(wait_s=self._settings.timeout_s if is_patient else SETTLE_S)
        self._watcher.watch(self.progress())
        return True

    def progress(self) -> MirrorProgress:
        """How it stands."""
        counts: dict[str, int] = {}
        for tp in self._assigned:
            counts[tp.topic] = counts.get(tp.topic, 0) + 1
        rows = [(name, copy.target, counts.get(name, 0)) for name, copy in self._copies.items()]
        return self._watcher.meter.shown(self._names.name, rows)

    # Topics.

    def _look(
        self, consumer: Consumer[Any, Any], producer: Producer[Any, Any], *, is_first: bool = False
    ) -> None:
        """See which topics there are now, and go on with all of them."""
        seen = self._prepare(producer)
        if is_first:
            self._skip_lost(seen, producer)
            if not self._copies:
                self._watcher.say("warning: no topic of the source is meant")
        self._assign(consumer)
        if is_first and self._settings.is_once:
            ends = self._ends.source.list_offsets(
                list(self._assigned), isolation_level="read_committed"
            )
            self._goals = {tp: end or 0 for tp, end in ends.items()}
        if self._look_count % SETTINGS_LOOKS == 0:
            self._follow_settings(producer)
        self._note_lags(consumer)
        self._look_count += 1
        self._look_due_s = time.monotonic() + self._settings.look_interval_s

    def _prepare(self, producer: Producer[Any, Any]) -> Seen:
        chosen = self._settings.selection.chosen(
            self._ends.source.list_topics(), is_same_cluster=self._ends.is_same_cluster
        )
        seen = self._topics.look(chosen)
        copies = {
            name: self._topics.prepare(name, chosen[name], seen, appends=self._settings.appends)
            for name in seen.sources
        }
        for name in self._copies.keys() - copies.keys():
            self._watcher.say(f"warning: {name} is gone at the source; its copy stays")
        # One that was made anew is read from elsewhere than where the consumer is.
        self._is_outdated |= any(
            name in self._copies and copy.partition(0) != self._copies[name].partition(0)
            for name, copy in copies.items()
        )
        entries = []
        if self._journal.source_cluster_id is None:
            entries.append(source_entry(self._ends.source_id))
        for copy in copies.values():
            entries += self._begun(copy, seen)
        self._write(producer, entries)
        self._copies = copies
        return seen

    def _begun(self, copy: Copy, seen: Seen) -> list[Entry]:
        """What is new about a topic, or its partitions."""
        entries = [] if self._journal.copies.get(copy.topic) == copy else [copy_entry(copy)]
        there = {p.id: p.end_offset for p in seen.targets[copy.target].partitions}
        for partition in seen.sources[copy.topic].partitions:
            place = copy.partition(partition.id)
            first = partition.start_offset
            if first is None or self._journal.offsets(place).last is not None:
                continue  # it has no leader now, or we know it
            anchor = Run(first, there.get(partition.id) or 0, 0)
            checkpoint = Checkpoint(number=0, next_offset=first, runs=(anchor,))
            entries.append(checkpoint_entry(place, checkpoint))
        return entries

    def _assign(self, consumer: Consumer[Any, Any]) -> None:
        """Read what is to be copied, from where the copy ends."""
        wanted: dict[TopicPartition, int] = {}
        for copy, number, last in self._positions():
            wanted[TopicPartition(copy.topic, number)] = last.next_offset
        if wanted.keys() != self._assigned.keys():
            read = {tp.topic for tp in self._assigned}
            new = wanted.keys() - self._assigned.keys()
            self._is_outdated |= any(tp.topic in read for tp in new)
            consumer.assign(wanted)
        self._assigned = wanted

    def _positions(self) -> list[tuple[Copy, int, Checkpoint]]:
        """Every partition that was begun, and how far it is."""
        found = []
        for partition, offsets in self._journal.items():
            copy = self._copies.get(partition.topic)
            if copy is None or copy.partition(partition.number) != partition:
                continue
            if offsets.last is not None:
                found.append((copy, partition.number, offsets.last))
        return found

    def _follow_settings(self, producer: Producer[Any, Any]) -> None:
        changed = [self._topics.follow_settings(copy) for copy in self._copies.values()]
        for copy in changed:
            if copy is not None:
                self._write(producer, [copy_entry(copy)])
                self._copies[copy.topic] = copy

    # Records.

    def _copy(self, consumer: Consumer[Any, Any], producer: Producer[Any, Any]) -> None:
        """One transaction, if there is anything to copy."""
        if not self._assigned:
            self._watcher.stopping.wait(POLL_S)
            return
        lot = self._transfer.poll(consumer, POLL_S, MAX_RECORDS)
        if lot is None:
            return
        interval_s = None if self._settings.is_once else self._settings.interval_s
        with producer.transaction() as tx:
            ledger = Ledger(self._copies, self._journal)
            transfer = self._transfer(producer, ledger)
            transfer.send(lot)
            for more in more_lots(partial(self._polled, consumer), ledger, interval_s):
                transfer.send(more)
            entries = ledger.entries(transfer)
            self._send(tx, entries)
        for entry in entries:
            self._journal.apply(entry)
        self._watcher.meter.transaction_count += 1
        for topic, record_count in ledger.counts.items():
            self._watcher.meter.count(topic, record_count)

    def _polled(self, consumer: Consumer[Any, Any], wait_s: float, max_records: int) -> Any:
        """What there is to copy; None if nothing comes, or it shall end."""
        if self._watcher.stopping.is_set():
            return None
        return self._transfer.poll(consumer, wait_s, max_records)

    def _write(self, producer: Producer[Any, Any], entries: list[Entry]) -> None:
        if entries:
            with producer.transaction() as tx:
                self._send(tx, entries)
            for entry in entries:
                self._journal.apply(entry)

    def _send(self, tx: Any, entries: list[Entry]) -> None:
        for entry in entries:
            tx.send(self._names.topic, entry.value, key=entry.key, partition=0)

    def _is_done(self, consumer: Consumer[Any, Any]) -> bool:
        if self._goals is None:
            return False
        positions = self._assigned
        self._goals = {
            tp: goal
            for tp, goal in self._goals.items()
            if tp in positions and consumer.position(tp) < goal
        }
        return not self._goals

    # What is gone.

    def _find_lost(
        self, error: PositionError, consumer: Consumer[Any, Any], producer: Producer[Any, Any]
    ) -> None:
        """Go on behind what the source has deleted."""
        if not self._skip_lost(self._prepare(producer), producer):
            truncated = LossError(
                f"the source has no record where the copy goes on, and none after it: {error}"
            )
            truncated.add_note(
                "it has lost records that were copied, as after an unclean election; look which "
                "ones are right, delete the copy at the target, and it is copied anew"
            )
            raise truncated from error
        self._assigned = {}
        self._assign(consumer)

    def _skip_lost(self, seen: Seen, producer: Producer[Any, Any]) -> bool:
        """Move positions to where partitions begin now; whether any had to be moved."""
        entries = []
        for copy, number, last in self._positions():
            starts = {p.id: p.start_offset for p in seen.sources[copy.topic].partitions}
            start_offset = starts.get(number)
            if start_offset is None or start_offset <= last.next_offset:
                continue
            self._tell_loss(copy.partition(number).source, last.next_offset, start_offset)
            moved = Checkpoint(
                number=last.number + 1,
                next_offset=start_offset,
                runs=(),
                lost_count=last.lost_count + start_offset - last.next_offset,
            )
            entries.append(checkpoint_entry(copy.partition(number), moved))
        self._write(producer, entries)
        return bool(entries)

    def _tell_loss(self, tp: TopicPartition, next_offset: int, start_offset: int) -> None:
        count = start_offset - next_offset
        text = (
            f"{tp}: offsets {next_offset} to {start_offset - 1} ({count:,}) were deleted at the "
            "source before they were copied"
        )
        if self._settings.fails_on_loss:
            error = LossError(text)
            error.add_note("without --fail-on-loss the copy goes on behind them")
            raise error
        self._watcher.meter.lost_now += count
        self._watcher.say(f"warning: {text}: LOST")

    def _note_lags(self, consumer: Consumer[Any, Any]) -> None:
        ends = self._ends.source.list_offsets(
            list(self._assigned), isolation_level="read_committed", missing_ok=True
        )
        lags = dict.fromkeys(self._copies, 0)
        for tp, end in ends.items():
            lags[tp.topic] += max(0, (end or 0) - consumer.position(tp))
        lost = dict.fromkeys(self._copies, 0)
        for copy, _, last in self._positions():
            lost[copy.topic] += last.lost_count
        self._watcher.meter.lags, self._watcher.meter.lost = lags, lost

    # Groups.

    def _bring_groups(self, wait_s: float = 0.0) -> None:
        if not self._settings.groups or not self._copies:
            return
        there = [TopicPartition(copy.target, number) for copy, number, _ in self._positions()]
        ends = settled_ends(self._ends.target, there, wait_s)
        report = bring_along(
            self._ends.source,
            self._ends.target,
            self._settings.groups,
            Translation(self._copies, self._journal, ends),
        )
        self._watcher.meter.groups_moved += len(report.moved)
        self._watcher.meter.groups_active = report.active


def transfer_type(uses_arrow: bool | None) -> type[Transfer[Any]]:
    """How records are carried: as columns where that is possible, unless one way is asked for."""
    if uses_arrow or (uses_arrow is None and find_spec("pyarrow") is not None):
        from ottla.mirror.arrow_transfer import ArrowTransfer

        return ArrowTransfer
    return RecordTransfer
