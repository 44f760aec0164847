"""Groups go on at the target with the record with which they would have gone on at the source."""

import pytest

import ottla
from ottla.model import TopicPartition
from ottla.testing import TestBroker
from tests.mirror.world import (
    Pair,
    commit,
    committed,
    create,
    next_value,
    until,
    values,
    write,
    write_committed,
)


def gappy_topic(bootstrap: str, topic: str) -> list[tuple[int, bytes]]:
    """A topic whose offsets have holes where markers and aborted records are; what is visible."""
    create(bootstrap, topic)
    lots = [[b"%d.%d" % (lot, n) for n in range(lot % 4 + 1)] for lot in range(8)]
    write_committed(bootstrap, topic, *lots, aborted={2, 5, 7})
    with ottla.Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign({TopicPartition(topic, 0): 0})
        visible = sum(len(lot) for number, lot in enumerate(lots) if number not in {2, 5, 7})
        found: list[tuple[int, bytes]] = []
        for record in consumer:
            found.append((record.offset, record.value or b""))
            if len(found) == visible:
                return found
    raise AssertionError("the consumer stopped by itself")


@pytest.mark.parametrize("uses_arrow", [True, False], ids=["columns", "records"])
def test_every_offset_of_the_source_leads_to_its_record_at_the_target(
    pair: Pair, topic: str, uses_arrow: bool
) -> None:
    tp = TopicPartition(topic, 0)
    visible = gappy_topic(pair.source, topic)
    last = visible[-1][0]
    groups = {offset: f"{topic}at-{offset}" for offset in range(last + 1)}
    for offset, group in groups.items():
        commit(pair.source, group, {tp: offset})

    pair.mirror(topic, groups=(f"{topic}*",), uses_arrow=uses_arrow)

    copied = values(pair.target, topic)
    for offset, group in groups.items():
        expected = next(value for at, value in visible if at >= offset)
        there = committed(pair.target, group)[tp]
        assert copied[there] == expected, (offset, there)


def test_a_group_that_has_read_everything_has_no_lag_at_the_target(pair: Pair, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    create(pair.source, topic)
    write(pair.source, topic, [b"1", b"2"])
    commit(pair.source, topic, {tp: 2})

    pair.mirror(topic, groups=(topic,))

    with ottla.Admin(pair.target) as admin:
        assert admin.lag(topic).total == 0
    write(pair.source, topic, [b"3"])
    pair.mirror(topic)
    assert next_value(pair.target, topic, topic) == b"3"


def test_a_group_goes_on_behind_what_compaction_took(topic: str) -> None:
    tp = TopicPartition(topic, 0)
    with TestBroker() as source, TestBroker() as target:
        pair = Pair(source.bootstrap_servers, target.bootstrap_servers)
        create(
            pair.source,
            topic,
            cleanup_policy="compact",
            min_cleanable_dirty_ratio=0,
            segment_bytes=1_048_576,
        )
        with ottla.Producer(pair.source) as producer:
            for number in range(100):
                producer.send(topic, b"%d" % number, key=b"%d" % (number % 7)).result()
            # A segment is compacted when another has begun.
            for number in range(12):
                producer.send(topic, b"x" * 100_000, key=b"filler-%d" % number).result()

        def is_compacted() -> bool:
            source.run_housekeeping()
            return len(values(pair.source, topic)) < 112

        until(is_compacted)
        commit(pair.source, "half", {tp: 50})
        commit(pair.source, "late", {tp: 97})

        pair.mirror(topic, groups=("*",))

        copied = values(pair.target, topic)
        assert copied == values(pair.source, topic)
        assert next_value(pair.target, "half", topic) == b"93"
        assert next_value(pair.target, "late", topic) == b"97"
        assert committed(pair.target, "late") == {tp: copied.index(b"97")}


def test_a_group_is_never_moved_backwards(pair: Pair, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    create(pair.source, topic)
    write(pair.source, topic, [b"%d" % number for number in range(10)])
    commit(pair.source, topic, {tp: 3})
    pair.mirror(topic, groups=(topic,))
    commit(pair.target, topic, {tp: 8})

    assert pair.mirror(topic, groups=(topic,)).groups_moved == 0

    assert committed(pair.target, topic) == {tp: 8}


def test_a_group_that_somebody_is_in_is_left_alone(pair: Pair, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    create(pair.source, topic)
    write(pair.source, topic, [b"%d" % number for number in range(10)])
    pair.mirror(topic)
    commit(pair.source, topic, {tp: 3})
    with ottla.Consumer(
        topic,
        bootstrap_servers=pair.target,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        assert next(consumer).value == b"0"

        progress = pair.mirror(topic, groups=(topic,))

    assert progress.groups_active == (topic,)
    assert committed(pair.target, topic) == {}


def test_a_group_that_moves_is_followed(pair: Pair, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    create(pair.source, topic)
    write(pair.source, topic, [b"%d" % number for number in range(10)])
    with pair.following(topic, groups=(topic,)):
        commit(pair.source, topic, {tp: 3})
        until(lambda: committed(pair.target, topic) == {tp: 3})
        commit(pair.source, topic, {tp: 7})
        until(lambda: committed(pair.target, topic) == {tp: 7})


@pytest.mark.parametrize("pattern", ["other-*", "x"])
def test_a_group_that_is_not_meant_stays_behind(pair: Pair, topic: str, pattern: str) -> None:
    create(pair.source, topic)
    write(pair.source, topic, [b"1"])
    commit(pair.source, topic, {TopicPartition(topic, 0): 1})

    assert pair.mirror(topic, groups=(pattern,)).groups_moved == 0

    assert committed(pair.target, topic) == {}
