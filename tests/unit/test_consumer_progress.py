"""Progress: a record is done when the next one is asked for, and not before."""

from ottla.client.consumer.progress import Cursor, Offsets, Progress
from ottla.client.records import Batch, OffsetAndMetadata, Span
from ottla.model import TopicPartition
from tests.consumer_samples import OTHER, TP, record_at


def batch(*tps: TopicPartition) -> "Batch[bytes | None, bytes | None]":
    """Two records of each partition, from offset 0 on."""
    records = [record_at(tp, offset) for tp in tps for offset in range(2)]
    return Batch(records, {tp: Span(0, 2) for tp in tps})


def at(**offsets: int) -> Offsets:
    return {
        TopicPartition("orders", int(name[1:])): OffsetAndMetadata(offset, "", 0)
        for name, offset in offsets.items()
    }


def give(cursor: Cursor, count: int = 1) -> None:
    """What a loop does when it asks for the next record."""
    for _ in range(count):
        next(cursor.rest)
        cursor.given_count += 1


class Reader:
    """A caller whose positions move when a poll takes records."""

    def __init__(self) -> None:
        self.positions = at(p0=0)
        self.progress = Progress(lambda: dict(self.positions))

    def poll(self, new: Offsets) -> None:
        self.progress.asked_for_more()
        self.positions = new


def test_what_a_poll_returned_is_done_when_the_next_poll_comes() -> None:
    reader = Reader()
    reader.poll(at(p0=5))
    assert reader.progress.processed() == at(p0=0)
    assert reader.progress.handed_out() == at(p0=5)
    reader.poll(at(p0=9))
    assert reader.progress.processed() == at(p0=5)


def test_in_a_loop_over_records_the_current_one_is_in_work() -> None:
    reader = Reader()
    reader.poll(at(p0=2))
    cursor = reader.progress.cursor = Cursor(batch(TP))
    assert reader.progress.processed() == at(p0=0)
    give(cursor)
    assert reader.progress.processed() == at(p0=0)
    assert reader.progress.handed_out() == at(p0=1)
    give(cursor)
    assert reader.progress.processed() == at(p0=1)
    assert reader.progress.handed_out() == at(p0=2)


def test_partitions_that_the_loop_has_not_come_to_stay_where_they_were() -> None:
    reader = Reader()
    reader.positions = at(p0=0, p1=0)
    reader.poll(at(p0=2, p1=2))
    cursor = reader.progress.cursor = Cursor(batch(TP, OTHER))
    give(cursor, 3)
    assert reader.progress.processed() == at(p0=2, p1=0)
    assert reader.progress.handed_out() == at(p0=2, p1=1)


def test_the_rest_of_some_partitions_can_be_taken_out_of_a_running_loop() -> None:
    cursor = Cursor(batch(TP, OTHER))
    give(cursor)
    assert cursor.next_offset(TP) == 1
    assert cursor.drop_rest(lambda tp: tp == TP) == {TP: 1}
    assert [record.tp for record in cursor.rest] == [OTHER, OTHER]
    assert cursor.next_offset(TP) is None


def test_partitions_that_were_given_up_or_left_by_a_seek_are_not_committed() -> None:
    reader = Reader()
    reader.positions = at(p0=1, p1=1)
    reader.poll(at(p0=2, p1=2))
    reader.progress.keep(frozenset({TP}))
    assert reader.progress.processed() == at(p0=1)
    reader.progress.moved(TP)
    assert reader.progress.processed() == {}
