"""How a stream goes on: where it begins, how far the next batch goes, what is new and what is gone.

Spark asks for the latest offset again and again, keeps it, and only then runs the batch before it.
Whatever a batch needs must therefore be in its two offsets: when it is run a second time, years
later if need be, nothing else is left.  See `ottla.spark.offsets` for what is kept and why.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.errors import OttlaError, UnknownTopicError
from ottla.model import TopicPartition
from ottla.spark.offsets import CheckpointError, SourceOffset
from ottla.spark.options import SourceOptions
from ottla.spark.source import loss
from ottla.spark.source.lookup import Found, Lookup, Topics
from ottla.spark.source.planning import (
    OffsetRange,
    divided,
    limited,
    limited_by_bytes,
    ranges_between,
    total_size,
)
from ottla.spark.source.starting import starting_positions

log = logging.getLogger(__name__)

Json = dict[str, Any]

COMMIT_INTERVAL_MS: Final = 1_000
"""How often a group is told of finished batches, at most."""
TOPICS_INTERVAL_MS: Final = 1_000
"""How often brokers are asked for new topics and partitions, at most."""


@dataclass(slots=True)
class _Next:
    """The end of the next batch, while it is being found."""

    begin: Found
    """Where each partition that will be in it goes on, or begins."""
    new: Found
    """Those of them that the last batch did not have."""
    ids: dict[str, str]


class Tracker:
    """One stream's source, on its driver.  Made once for each run of the query."""

    def __init__(self, options: SourceOptions, lookup: Lookup, now_ms: Callable[[], int]) -> None:
        """`now_ms` is a clock that never jumps."""
        self._options = options
        self._lookup = lookup
        self._now_ms = now_ms
        self._topics: Topics | None = None
        self._topics_at_ms = 0
        self._target: Found | None = None
        self._newest: SourceOffset | None = None
        self._triggered_at_ms: int | None = None
        self._was_idle = False
        self._is_checked = False
        self._committed_at_ms: int | None = None
        self._committed: Mapping[TopicPartition, int] | None = None
        self._commits = options.group is not None and options.commit_offsets

    # What Spark asks.

    def initial(self) -> Json:
        """Where the first batch begins, as the options say now."""
        topics = self._topics = self._lookup.settled_topics()
        self._topics_at_ms = self._now_ms()
        found = starting_positions(self._options, self._lookup, topics.partitions, default="latest")
        return self._offset(topics.ids, found, init=found).as_json()

    def stop_at_present(self) -> None:
        """Read what is there now, and nothing that comes later (Trigger.AvailableNow)."""
        topics = self._lookup.settled_topics()
        self._target = self._lookup.latest(topics.partitions)

    def latest(self, started: Json, *, is_limited: bool) -> Json:
        """Where the next batch ends; `started`, where the last one ended, if there is none.

        If there is nothing to read for a second time in a row, it waits for records a while.
        """
        start = SourceOffset.parse(started)
        self._commit_finished(start)
        found = self._look(started, start, is_limited)
        if found is started and self._was_idle and self._target is None:
            assert self._newest is not None
            self._lookup.wait_for_records(self._newest.positions, self._options.long_poll_ms)
            found = self._look(started, start, is_limited)
        self._was_idle = found is started
        if found is not started:
            self._triggered_at_ms = self._now_ms()
        return found

    def newest(self) -> Json | None:
        """The end of all partitions when Spark asked last: for its reports of progress."""
        return None if self._newest is None else self._newest.as_json()

    def plan(self, started: Json, ended: Json) -> list[tuple[OffsetRange, str]]:
        """What the tasks of a batch read, with the ids of topics; the same for every repetition."""
        # That a batch runs while nothing is new here means that another source has records.
        self._was_idle = False
        start, end = SourceOffset.parse(started), SourceOffset.parse(ended)
        ranges = ranges_between(_beginning(start, end), end.positions)
        if ranges and not self._is_checked:
            ranges = self._checked(end, ranges)
            self._is_checked = True
        options = self._options
        cut = divided(
            ranges, min_count=options.min_partitions, max_size=options.max_records_per_partition
        )
        return [(one, end.topic_ids[one.tp.topic]) for one in cut]

    # How far.

    def _look(self, started: Json, start: SourceOffset, is_limited: bool) -> Json:
        """One look at the log; `started` itself if there is nothing."""
        for attempt in (1, 2):
            topics = self._known_topics(is_fresh=attempt == 2)
            try:
                following = self._following(start, topics)
                ends = self._ends(following)
                break
            except UnknownTopicError:
                if attempt == 2:
                    raise
        self._newest = self._offset(following.ids, ends)
        if is_limited:
            ends = self._limited(following.begin, ends)
        has_same_partitions = ends.keys() == start.positions.keys() and not following.new
        if has_same_partitions and (ends == start.positions or self._waits(following, ends)):
            return started
        is_first = start.init is not None and start.init == start.positions
        return self._offset(
            following.ids, ends, init=start.init if is_first else None, new=following.new
        ).as_json()

    def _known_topics(self, *, is_fresh: bool) -> Topics:
        now_ms = self._now_ms()
        if is_fresh or self._topics is None or now_ms - self._topics_at_ms >= TOPICS_INTERVAL_MS:
            self._topics, self._topics_at_ms = self._lookup.topics(), now_ms
        return self._topics

    def _following(self, start: SourceOffset, topics: Topics) -> _Next:
        """What goes on, what is new; loss is reported for what is gone."""
        if (
            self._options.fail_on_data_loss
            and start.cluster
            and topics.cluster not in ("", start.cluster)
        ):
            loss.report(loss.other_cluster(start.cluster, topics.cluster), fails=True)
        kept = self._kept(start, topics)
        new_ones = [tp for tp in topics.partitions if tp not in kept]
        if self._target is not None:
            new_ones = [tp for tp in new_ones if tp in self._target]
        new = self._lookup.earliest(new_ones)
        for tp, offset in new.items():
            if offset > 0:
                loss.report(loss.began_late(tp, offset), fails=self._options.fail_on_data_loss)
        names = {tp.topic for tp in (*kept, *new)}
        ids = {topic: topics.ids[topic] for topic in names}
        return _Next(begin=kept | new, new=new, ids=ids)

    def _kept(self, start: SourceOffset, topics: Topics) -> Found:
        """Positions of partitions that are still what they were, and still wanted."""
        fails = self._options.fail_on_data_loss
        kept = {tp: at for tp, at in start.positions.items() if self._options.chooses(tp)}
        for topic in sorted({tp.topic for tp in kept}):
            old_id, new_id = start.topic_ids[topic], topics.ids.get(topic)
            if new_id is None:
                loss.report(loss.topic_deleted(topic, start.positions), fails=fails)
            elif old_id and new_id and new_id != old_id:
                message = loss.topic_made_anew(topic, old_id, new_id, start.positions)
                loss.report(message, fails=fails)
            else:
                continue
            kept = {tp: offset for tp, offset in kept.items() if tp.topic != topic}
        for tp in sorted(set(kept) - set(topics.partitions)):
            loss.report(loss.partition_gone(tp, kept.pop(tp)), fails=fails)
        return kept

    def _ends(self, following: _Next) -> Found:
        ends = self._lookup.latest(list(following.begin))
        behind = [tp for tp, end in ends.items() if end < following.begin[tp]]
        if behind:
            # Open transactions hold back what may be seen; only a log that is shorter is a loss.
            marks = self._lookup.high_watermarks(behind)
            for tp in behind:
                if marks[tp] < following.begin[tp]:
                    message = loss.beyond_end(tp, following.begin[tp], marks[tp])
                    loss.report(message, fails=self._options.fail_on_data_loss)
                else:
                    ends[tp] = following.begin[tp]
        if self._target is not None:
            for tp, end in ends.items():
                begin = following.begin[tp]
                ends[tp] = max(min(end, self._target.get(tp, begin)), min(end, begin))
        return ends

    def _limited(self, begin: Found, ends: Found) -> Found:
        options = self._options
        if options.max_offsets_per_trigger is not None:
            ends = limited(begin, ends, options.max_offsets_per_trigger)
        if options.max_bytes is not None:
            waiting = {one.tp: one.start_offset for one in ranges_between(begin, ends)}
            sizes = self._lookup.offset_bytes(waiting) if waiting else {}
            ends = limited_by_bytes(begin, ends, options.max_bytes, sizes)
        return ends

    def _waits(self, following: _Next, ends: Found) -> bool:
        """Whether there is too little to begin a batch, and time to wait for more."""
        least = self._options.min_offsets_per_trigger
        if least is None or self._target is not None or self._triggered_at_ms is None:
            return False
        if total_size(ranges_between(following.begin, ends)) >= least:
            return False
        return self._now_ms() - self._triggered_at_ms < self._options.max_trigger_delay_ms

    def _offset(
        self,
        ids: Mapping[str, str],
        found: Found,
        *,
        init: Mapping[TopicPartition, int] | None = None,
        new: Mapping[TopicPartition, int] | None = None,
    ) -> SourceOffset:
        assert self._topics is not None
        return SourceOffset(
            topic_ids=ids,
            positions=found,
            cluster=self._topics.cluster,
            group=self._options.group,
            init=init,
            new=new or {},
        )

    # What is gone, and what is done.

    def _checked(self, end: SourceOffset, ranges: list[OffsetRange]) -> list[OffsetRange]:
        """Ranges of the first batch of a run: time may have passed since they were planned.

        Later batches are planned moments before they are read, and tasks look themselves.
        """
        fails = self._options.fail_on_data_loss
        topics = self._lookup.topics()
        kept = self._kept(end, topics)
        there = [one for one in ranges if one.tp in kept]
        first = self._lookup.earliest([one.tp for one in there])
        checked = []
        for one in there:
            if one.start_offset < first[one.tp]:
                message = loss.retention_passed(one.tp, one.start_offset, first[one.tp])
                loss.report(message, fails=fails)
            low = min(max(one.start_offset, first[one.tp]), one.end_offset)
            if low < one.end_offset:
                checked.append(one._replace(start_offset=low))
        return checked

    def _commit_finished(self, start: SourceOffset) -> None:
        """Let the group know what is done; lag tools wait for nothing else, and so it may fail."""
        is_finished = start.init is None or start.init != start.positions
        if not (self._commits and is_finished) or start.positions == self._committed:
            return
        now_ms, last_ms = self._now_ms(), self._committed_at_ms
        is_early = last_ms is not None and now_ms - last_ms < COMMIT_INTERVAL_MS
        if is_early and not self._was_idle:
            return
        self._committed_at_ms = now_ms
        assert self._options.group is not None
        try:
            self._lookup.commit(self._options.group, start.positions)
        except OttlaError as error:
            log.warning(
                "the offsets of finished batches were not committed for group %r: %s",
                self._options.group,
                error,
            )
            # What a pause does not mend would be told with every batch.
            self._commits = error.retriable
        else:
            self._committed = start.positions


def _beginning(start: SourceOffset, end: SourceOffset) -> dict[TopicPartition, int]:
    """Where a batch begins: at its own record of it, else where the one before ended.

    Raises:
        CheckpointError: Neither says it for some partition.
    """
    known = start.positions if end.init is None else end.init
    begin = {**known, **end.new}
    if missing := sorted(set(end.positions) - set(begin)):
        raise CheckpointError(
            f"the checkpoint does not say where {missing[0]} begins: a file of it is missing, or "
            "was changed.  Use a new checkpoint"
        )
    return begin
