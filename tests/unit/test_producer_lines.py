"""Where records wait, and which partition they go to."""

import zlib
from typing import Any

import pytest

from ottla.client.producer.batch import Stamp, write_stamp
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.partitioners import Sticky, murmur2
from ottla.client.producer.routes import Route, Routes
from ottla.errors import MisuseError, RequestError, UnknownTopicError
from ottla.model import TopicPartition
from ottla.records.batch import Batch
from ottla.records.builder import BatchOptions, build, crc_of_body
from tests.producer_samples import TOPIC, accumulator, add, cluster_of, desk

KEYS = [b"table-%d" % n for n in range(200)]


def route_of(partition_count: int = 4, **options: Any) -> Route:
    config = ProducerConfig.of("localhost:1", **options)
    routes = Routes(config, accumulator(), luck=lambda: 0.0, now_ms=lambda: 0.0)
    found = routes.route(TOPIC, cluster_of(*[1] * partition_count))
    assert found is not None
    return found


def chosen(route: Route, key: bytes | None, size_bytes: int = 100) -> int:
    return route.line_for(key, b"value", size_bytes).partition


def test_records_fill_a_batch_up_to_its_limit() -> None:
    lines = accumulator(batch_bytes=261)
    line = lines.line(TopicPartition(TOPIC, 0))
    batches = [add(lines, line, b"x" * 64) for _ in range(3)]
    assert batches[0] is batches[1]
    assert batches[0].writer.size_bytes <= batches[0].size_bytes <= 261
    assert batches[2] is not batches[0]
    assert lines.used_bytes == batches[0].size_bytes + 161


def test_a_batch_with_several_records_has_memory_for_more_and_gives_back_what_is_left() -> None:
    lines = accumulator(batch_bytes=50_000, buffer_bytes=100_000)
    line = lines.line(TopicPartition(TOPIC, 0))
    batch = add(lines, line, b"x" * 64)
    assert batch.writer.offer(0, None, b"y" * 64) == -1, "one record brings no memory for others"
    add(lines, line, b"x" * 64)
    granted_bytes = lines.used_bytes
    indexes = [batch.writer.offer(0, None, b"y" * 64) for _ in range(3)]
    assert indexes == [2, 3, 4]
    assert lines.used_bytes == granted_bytes == batch.size_bytes
    assert lines.take(line) is batch
    assert batch.record_count == 5
    assert lines.used_bytes == batch.size_bytes == batch.writer.size_bytes < granted_bytes
    lines.finish(batch)
    assert lines.used_bytes == 0


def test_nothing_is_granted_ahead_where_memory_is_short() -> None:
    lines = accumulator(batch_bytes=50_000, buffer_bytes=400)
    line = lines.line(TopicPartition(TOPIC, 0))
    batch = add(lines, line, b"x" * 64)
    add(lines, line, b"x" * 64)
    assert lines.used_bytes == batch.size_bytes <= 61 + 2 * (64 + 36)


@pytest.mark.parametrize("buffer_bytes", range(1_758, 1_900, 7))
def test_memory_is_never_granted_beyond_the_buffer(buffer_bytes: int) -> None:
    lines = accumulator(batch_bytes=50_000, buffer_bytes=buffer_bytes)
    line = lines.line(TopicPartition(TOPIC, 0))
    add(lines, line, b"x" * 64)
    assert lines.has_room(1_536)
    add(lines, line, b"x" * 1_500)
    assert lines.used_bytes <= buffer_bytes


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_batch_that_left_or_was_given_up_takes_no_record_that_comes_too_late(
    is_sent: bool,
) -> None:
    lines = accumulator(batch_bytes=50_000, buffer_bytes=100_000)
    line = lines.line(TopicPartition(TOPIC, 0))
    batch = add(lines, line, b"x")
    assert add(lines, line, b"y") is batch
    late = batch.writer
    if is_sent:
        lines.take(line)
    else:
        lines.finish(batch)
    assert late.offer(0, None, b"z") == -1
    assert batch.record_count == 2


def test_a_record_that_is_larger_than_a_batch_gets_one_of_its_own() -> None:
    lines = accumulator(batch_bytes=100)
    line = lines.line(TopicPartition(TOPIC, 0))
    assert add(lines, line, b"x" * 500) is not add(lines, line, b"y")


@pytest.mark.parametrize(
    ("size_bytes", "setting"), [(9_940, "max.request.size"), (200_000, "max.request.size")]
)
def test_a_record_that_no_request_can_hold_is_refused(size_bytes: int, setting: str) -> None:
    with pytest.raises(RequestError, match=setting):
        accumulator().check_size(size_bytes)


def test_a_record_that_the_buffer_cannot_hold_is_refused() -> None:
    with pytest.raises(RequestError, match=r"buffer\.memory"):
        accumulator(buffer_bytes=500).check_size(500)


def test_there_is_room_until_the_buffer_is_full() -> None:
    lines = accumulator(buffer_bytes=400)
    line = lines.line(TopicPartition(TOPIC, 0))
    add(lines, line, b"x" * 200)
    assert lines.used_bytes == 297
    assert lines.has_room(42)
    assert not lines.has_room(43)


def test_what_comes_back_goes_to_its_old_place() -> None:
    sending = desk()
    first, second, third = sending.send(b"a", b"b", b"c")
    line = sending.line
    line.queue.clear()
    for batch in (second, first):
        line.put_back((batch,))
    line.put_back((third,))
    assert list(line.queue) == [first, second, third]


@pytest.mark.parametrize("key", KEYS[:20])
def test_a_key_finds_the_partition_that_java_finds(key: bytes) -> None:
    assert chosen(route_of(), key) == murmur2(key) % 4


@pytest.mark.parametrize("key", KEYS[:20])
def test_a_key_finds_the_partition_that_librdkafka_finds(key: bytes) -> None:
    assert chosen(route_of(partitioner="consistent_random"), key) == zlib.crc32(key) % 4


def test_an_empty_key_is_a_key_to_java_and_none_to_librdkafka() -> None:
    assert chosen(route_of(), b"") == murmur2(b"") % 4
    assert chosen(route_of(partitioner="consistent_random"), b"") == 0


def test_the_hash_of_a_key_is_known() -> None:
    # Vectors of Kafka's own tests, without their sign.
    assert murmur2(b"21") == -973932308 & 0x7FFFFFFF
    assert murmur2(b"foobar") == -790332482 & 0x7FFFFFFF


@pytest.mark.parametrize("options", [{"partitioner": "sticky"}, {"partitioner_ignore_keys": True}])
def test_keys_that_are_ignored_do_not_spread_records(options: dict[str, Any]) -> None:
    route = route_of(**options)
    assert {chosen(route, key) for key in KEYS} == {0}


def test_records_without_a_key_move_on_when_a_batch_is_full() -> None:
    drawn = iter([0.0, 0.3, 0.6])
    lines = accumulator(batch_bytes=261)
    choices = [lines.line(TopicPartition(TOPIC, p)) for p in range(4)]
    sticky = Sticky(choices, lambda: next(drawn), adapts=False)
    went = [add(lines, sticky.line_for(100), b"x" * 64).line.partition for _ in range(6)]
    assert went == [0, 0, 1, 1, 2, 2]


def test_records_without_a_key_stay_where_batches_leave_early_until_it_is_enough() -> None:
    drawn = iter([0.0, 0.9])
    lines = accumulator(batch_bytes=100_000)
    choices = [lines.line(TopicPartition(TOPIC, p)) for p in range(2)]
    sticky = Sticky(choices, lambda: next(drawn), adapts=False)
    went = []
    for _ in range(5):
        line = sticky.line_for(5_000)
        add(lines, line, b"x" * 5_000)
        lines.take(line)
        went.append(line.partition)
    assert went == [0, 0, 0, 0, 1]


def test_records_without_a_key_stay_no_longer_than_for_a_batch_however_small() -> None:
    drawn = iter([0.0, 0.9])
    lines = accumulator(batch_bytes=1_000)
    choices = [lines.line(TopicPartition(TOPIC, p)) for p in range(2)]
    sticky = Sticky(choices, lambda: next(drawn), adapts=False)
    went = []
    for _ in range(3):
        line = sticky.line_for(600)
        add(lines, line, b"x" * 564)
        lines.take(line)
        went.append(line.partition)
    assert went == [0, 0, 1]


def test_long_lines_are_chosen_less() -> None:
    sending = desk(leaders=(1, 1))
    sending.send(*[b"x"] * 9)
    lines = [sending.line, sending.lines.line(TopicPartition(TOPIC, 1))]
    points = [n / 100 for n in range(100)]
    draws = iter([0.0, *points])
    sticky = Sticky(lines, lambda: next(draws))
    counts = [sticky.another().partition for _ in range(100)]
    assert counts.count(0) < counts.count(1) / 5


def test_a_line_that_is_stuck_is_avoided() -> None:
    sending = desk(leaders=(1, 1))
    lines = [sending.line, sending.lines.line(TopicPartition(TOPIC, 1))]
    sticky = Sticky(lines, lambda: 0.0, is_stuck=lambda line: line.partition == 0)
    assert sticky.line_for(1).partition == 1


def test_round_robin_takes_one_partition_after_the_other() -> None:
    route = route_of(partitioner="round_robin")
    assert [chosen(route, key) for key in KEYS[:8]] == [0, 1, 2, 3, 0, 1, 2, 3]


def test_a_partitioner_is_a_function_of_topic_key_value_and_partitions() -> None:
    asked: list[object] = []

    def last(topic: str, key: object, value: object, partitions: object) -> int:
        asked.append((topic, key, value, partitions))
        return 3

    assert chosen(route_of(partitioner=last), b"k") == 3
    assert asked == [(TOPIC, b"k", b"value", range(4))]


@pytest.mark.parametrize("wrong", [4, -1, None, "0"])
def test_a_partitioner_that_chooses_what_is_not_there_is_told_so(wrong: object) -> None:
    route = route_of(partitioner=lambda *_: wrong)
    with pytest.raises(MisuseError, match="4 partitions"):
        chosen(route, b"k")


def test_a_partition_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownTopicError, match="no number 4"):
        route_of().line_at(4)


def test_partitions_without_a_leader_get_no_records_without_a_key() -> None:
    config = ProducerConfig.of("localhost:1")
    draws = iter(n / 50 for n in range(50))
    routes = Routes(config, accumulator(), luck=lambda: next(draws), now_ms=lambda: 0.0)
    route = routes.route(TOPIC, cluster_of(1, None, 1))
    assert route is not None
    assert route.sticky is not None
    assert {route.sticky.another().partition for _ in range(49)} == {0, 2}


def test_a_rack_is_preferred_when_asked_for() -> None:
    config = ProducerConfig.of("localhost:1", partitioner_rack_aware=True, client_rack="r2")
    cluster = cluster_of(1, 2)
    nodes = {n: node._replace(rack=f"r{n}") for n, node in cluster.nodes.items()}
    object.__setattr__(cluster, "nodes", nodes)
    routes = Routes(config, accumulator(), luck=lambda: 0.0, now_ms=lambda: 0.0)
    route = routes.route(TOPIC, cluster)
    assert route is not None
    assert chosen(route, None) == 1


def test_a_stamp_is_written_into_a_finished_batch() -> None:
    data = build([(1, b"k", b"v", ())])
    write_stamp(data, Stamp(5, 6, 7, is_transactional=True))
    batch = Batch.parse(data)
    batch.check_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 6, 7)
    assert batch.is_transactional


def test_the_memory_of_a_built_batch_is_there_for_the_next_unless_somebody_holds_it() -> None:
    lines = accumulator(batch_bytes=5_000)
    line = lines.line(TopicPartition(TOPIC, 0))
    assert lines.spares.take() is None
    held = [bytearray(build([(0, None, b"v", ())])) for _ in range(2)]
    for data in held:
        lines.append_built(line, data, 1, 0, crc_of_body(data))
        lines.finish(lines.take(line))
    del data
    assert lines.spares.take() is None, "both are held here"
    watched = memoryview(held[0])
    kept_id = id(held[1])
    held.clear()
    spare = lines.spares.take()
    assert id(spare) == kept_id, "nobody looks into it"
    assert lines.spares.take() is None
    watched.release()
    assert lines.spares.take() is not None


def test_a_built_batch_is_sealed_as_any_other() -> None:
    lines = accumulator(batch_bytes=5_000)
    line = lines.line(TopicPartition(TOPIC, 0))
    data = bytearray(build([(0, None, b"v" * 500, ())]))
    batch = lines.append_built(line, data, 1, 0, crc_of_body(data))
    batch.made_ready(Stamp(7, 1, 42), BatchOptions())
    assert batch.data is not None
    sent = Batch.parse(batch.data)
    sent.check_crc()
    assert (sent.producer_id, sent.base_sequence) == (7, 42)
