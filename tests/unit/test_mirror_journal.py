"""What a mirror writes down is what it reads."""

import pytest

from ottla.client.records import OffsetAndMetadata
from ottla.errors import ConfigError
from ottla.mirror.groups import moves
from ottla.mirror.journal import (
    Copy,
    Entry,
    Journal,
    JournalError,
    Names,
    checkpoint_entry,
    copy_entry,
    source_entry,
)
from ottla.mirror.offset_map import Checkpoint, Run
from ottla.mirror.progress import RATE_WINDOW_S, Rate
from ottla.model import TopicPartition

COPY = Copy(
    topic="orders", topic_id="s1", target="copy", target_id="t1", config={"retention.ms": "1"}
)


def checkpoint(number: int, next_offset: int) -> Checkpoint:
    runs = (Run(next_offset - 5, next_offset + 100, 5),)
    return Checkpoint(number=number, next_offset=next_offset, runs=runs, lost_count=3)


def test_what_was_written_is_read_again() -> None:
    journal = Journal()
    journal.apply(source_entry("cluster"))
    journal.apply(copy_entry(COPY))
    journal.apply(checkpoint_entry(COPY.partition(2), checkpoint(1, 10)))

    assert journal.source_cluster_id == "cluster"
    assert journal.copies == {"orders": COPY}
    assert journal.offsets(COPY.partition(2)).last == checkpoint(1, 10)
    assert journal.offsets(COPY.partition(1)).last is None


def test_the_newest_checkpoint_counts_in_whatever_order_compaction_left_them() -> None:
    journal = Journal()
    for number in (4, 6, 5):
        journal.apply(checkpoint_entry(COPY.partition(0), checkpoint(number, 10 * number)))

    assert journal.offsets(COPY.partition(0)).last == checkpoint(6, 60)


def test_what_was_known_of_a_deleted_topic_is_not_taken_for_the_new_one() -> None:
    journal = Journal()
    journal.apply(checkpoint_entry(COPY.partition(0), checkpoint(1, 10)))
    anew = Copy(topic="orders", topic_id="s2", target="copy", target_id="t1", config={})

    assert journal.offsets(anew.partition(0)).last is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\xff", b"{}"),
        (b'["future"]', b"{}"),
        (b'["mirror"]', b'{"version": 2, "source": "x"}'),
        (b'["topic", "orders"]', b"{}"),
        (b'["at", "orders", "s", "t", 0, "0"]', b'{"number": 1, "next": 2, "runs": 3, "lost": 0}'),
    ],
)
def test_a_record_of_somebody_else_is_not_read_as_ours(key: bytes, value: bytes) -> None:
    with pytest.raises(JournalError, match="none of a mirror's"):
        Journal().apply(Entry(key, value))


def test_the_name_of_a_mirror_must_fit_into_that_of_a_topic() -> None:
    assert Names("shop").topic == "__ottla_mirror-shop"
    with pytest.raises(ConfigError, match="--name"):
        Names("a/b")


def test_a_group_moves_where_that_is_forward_and_the_topic_is_copied() -> None:
    here = {TopicPartition("orders", n): OffsetAndMetadata(10 * n, f"note {n}") for n in range(4)}
    here[TopicPartition("other", 0)] = OffsetAndMetadata(5)
    there = {
        TopicPartition("copy", 1): OffsetAndMetadata(11),
        TopicPartition("copy", 2): OffsetAndMetadata(22),
    }

    def translate(tp: TopicPartition, offset: int) -> tuple[TopicPartition, int] | None:
        return (TopicPartition("copy", tp.partition), offset + 1) if tp.topic == "orders" else None

    assert moves(here, there, translate) == {
        TopicPartition("copy", 0): OffsetAndMetadata(1, "note 0"),
        TopicPartition("copy", 3): OffsetAndMetadata(31, "note 3"),
    }


def test_a_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate(now_s=0.0)
    rate.count(100, now_s=1.0)
    assert rate.per_s(now_s=2.0) == 50
    rate.count(50, now_s=RATE_WINDOW_S + 5)
    assert rate.per_s(now_s=RATE_WINDOW_S + 6) == 50 / RATE_WINDOW_S
    assert rate.per_s(now_s=10 * RATE_WINDOW_S) == 0
    assert rate.total == 150
