"""The consumer against a real broker: what counts as processed, and where reading goes on.

`test_client_consumer_ends` says how it ends, `test_client_consumer_groups` has its groups.
"""

import sqlite3
import threading
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice, pairwise
from typing import Any

import confluent_kafka
import pytest

import ottla
from ottla.testing import TestBroker
from tests.compat.client_consumers import (
    TIMEOUT_S,
    UnluckyError,
    broker,
    committed,
    consumer,
    shared,
    topic,
    values,
)
from tests.kafka_cluster import until

__all__ = ["broker", "shared", "topic"]  # fixtures


# What counts as processed.


def test_a_record_whose_processing_raised_is_read_again(broker: TestBroker, topic: str) -> None:
    broker.produce(topic, "a", "b", "c")

    def work() -> None:
        with consumer(broker, topic, group_id=topic) as reader:
            for record in reader:
                if record.offset == 1:
                    raise UnluckyError

    with pytest.raises(UnluckyError):
        work()
    assert committed(broker, topic, topic) == 1
    with consumer(broker, topic, group_id=topic) as reader:
        assert values(islice(reader, 2)) == ["b", "c"]


def test_a_batch_whose_processing_raised_is_read_again(broker: TestBroker, topic: str) -> None:
    broker.produce(topic, "a", "b", "c", "d")

    def work() -> None:
        with consumer(broker, topic, group_id=topic) as reader:
            for batch in reader.batches(TIMEOUT_S, max_records=2):
                if batch[0].offset == 2:
                    raise UnluckyError

    with pytest.raises(UnluckyError):
        work()
    assert committed(broker, topic, topic) == 2


def test_leaving_the_block_cleanly_counts_what_was_handed_out(
    broker: TestBroker, topic: str
) -> None:
    broker.produce(topic, "a", "b", "c")
    with consumer(broker, topic, group_id=topic) as reader:
        for record in reader:
            if record.offset == 1:
                break
    assert committed(broker, topic, topic) == 2


def test_close_commits_only_what_was_followed_by_a_question(broker: TestBroker, topic: str) -> None:
    broker.produce(topic, "a", "b", "c")
    reader = consumer(broker, topic, group_id=topic)
    assert values([next(reader), next(reader)]) == ["a", "b"]
    reader.close()
    assert committed(broker, topic, topic) == 1


def test_processed_records_are_committed_while_the_program_works(
    broker: TestBroker, topic: str
) -> None:
    broker.produce(topic, "a", "b")
    done = threading.Event()

    class Watch(ottla.ConsumerInterceptor):
        def on_commit(self, offsets: Mapping[ottla.TopicPartition, Any]) -> None:
            if [at.offset for at in offsets.values()] == [2]:
                done.set()

    with consumer(
        broker, topic, group_id=topic, auto_commit_interval_ms=5, interceptors=[Watch()]
    ) as reader:
        for _ in reader.batches(0.01, idle=True):
            if done.is_set():
                break
        assert committed(broker, topic, topic) == 2


def test_without_auto_commit_nothing_is_committed_by_itself(broker: TestBroker, topic: str) -> None:
    broker.produce(topic, "a", "b", "c")
    with consumer(broker, topic, group_id=topic, enable_auto_commit=False) as reader:
        records = list(islice(reader, 3))
        assert committed(broker, topic, topic) is None
        reader.commit(records[0])
    assert committed(broker, topic, topic) == 1


def test_an_automatic_commit_does_not_go_back_behind_what_the_program_committed(
    broker: TestBroker, topic: str
) -> None:
    first, second = (ottla.TopicPartition(topic, number) for number in range(2))
    broker.create_topic(topic, partitions=2)
    broker.produce(topic, "a", partition=0)
    broker.produce(topic, "b", partition=1)
    with consumer(broker, topic, group_id=topic, auto_commit_interval_ms=400) as reader:
        assert {record.value for record in islice(reader, 2)} == {b"a", b"b"}
        broker.produce(topic, "c", partition=0)
        assert values(reader.poll(TIMEOUT_S)) == ["c"]  # it is in work; the others are processed
        reader.commit({first: 2})
        until(lambda: reader.committed([second])[second] is not None)  # by itself
        assert reader.committed([first])[first] == ottla.OffsetAndMetadata(2)


def test_commits_take_records_batches_offsets_and_arrow(broker: TestBroker, topic: str) -> None:
    tp = ottla.TopicPartition(topic, 0)
    broker.produce(topic, "a", "b", "c", "d", "e")
    with consumer(broker, topic, group_id=topic, enable_auto_commit=False) as reader:
        batch = reader.poll(TIMEOUT_S, max_records=2)
        reader.commit(batch)
        assert reader.committed()[tp] == ottla.OffsetAndMetadata(2, "", 0)
        reader.commit({tp: ottla.OffsetAndMetadata(1, "a note")})
        assert reader.committed([tp])[tp] == ottla.OffsetAndMetadata(1, "a note")
        rows = reader.poll_arrow(TIMEOUT_S, max_records=2)
        assert rows is not None
        reader.commit(rows)
        assert reader.committed()[tp] == ottla.OffsetAndMetadata(4, "", 0)
        reader.commit()
        assert reader.committed()[tp] == ottla.OffsetAndMetadata(4, "", 0)


def test_commits_in_the_background_are_done_in_order(broker: TestBroker, topic: str) -> None:
    tp = ottla.TopicPartition(topic, 0)
    broker.produce(topic, "a")
    seen: list[int] = []

    def note(offset: int, future: object) -> None:
        seen.append(offset)

    with consumer(broker, topic, group_id=topic, enable_auto_commit=False) as reader:
        reader.poll(TIMEOUT_S)
        broker.faults.drop_reply("OffsetCommit")
        futures = [reader.commit_async({tp: offset}) for offset in range(5)]
        for offset, future in enumerate(futures):
            future.add_done_callback(partial(note, offset))
        futures[-1].result(TIMEOUT_S)
    assert seen == [0, 1, 2, 3, 4]
    assert committed(broker, topic, topic) == 4


def test_without_a_group_there_is_nothing_to_commit(broker: TestBroker, topic: str) -> None:
    broker.produce(topic, "a")
    with consumer(broker, topic) as reader:
        reader.poll(TIMEOUT_S)
        with pytest.raises(ottla.MisuseError, match="set group_id"):
            reader.commit()


# Where to read.


def test_seeking_by_offset_time_and_keyword(broker: TestBroker, topic: str) -> None:
    tp = ottla.TopicPartition(topic, 0)
    broker.produce(topic, "a", "b")
    broker.advance(timedelta(hours=1))
    broker.produce(topic, "c", "d")
    later = datetime.fromtimestamp(broker.records(topic)[2].timestamp_ms / 1000, UTC)
    with consumer(broker, group_id=topic) as reader:
        reader.assign([tp])
        places: list[Any] = [1, "beginning", later, "end", later + timedelta(days=1)]
        found = []
        for place in places:
            reader.seek(tp, place)
            found.append(reader.position(tp))
        assert found == [1, 0, 2, 4, 4]
        reader.commit({tp: 3})
        reader.seek(tp, "committed")
        assert reader.position(tp) == 3
        assert reader.lag() == {tp: 1}
        reader.seek_all("beginning")
        assert values(reader.poll(TIMEOUT_S)) == ["a", "b", "c", "d"]
        assert reader.beginning_offsets([tp]) == {tp: 0}
        assert reader.end_offsets([tp]) == {tp: 4}
        assert reader.offsets_for_times({tp: later}) == {tp: 2}
        assert reader.offsets_for_times({tp: later + timedelta(days=1)}) == {tp: None}


def test_a_seek_inside_the_loop_counts_from_the_next_record_on(
    broker: TestBroker, topic: str
) -> None:
    tp = ottla.TopicPartition(topic, 0)
    broker.produce(topic, *"abcdef")
    seen = []
    with consumer(broker, topic) as reader:
        for record in reader:
            seen.append(record.value.decode())
            if seen == ["a", "b"]:
                reader.seek(tp, 4)
            if record.offset == 5:
                break
    assert seen == ["a", "b", "e", "f"]


def test_a_paused_partition_is_silent_and_loses_nothing(broker: TestBroker, topic: str) -> None:
    broker.create_topic(topic, partitions=2)
    one, two = (ottla.TopicPartition(topic, p) for p in (0, 1))
    broker.produce(topic, "a", "b", partition=0)
    broker.produce(topic, "x", "y", partition=1)
    seen = []
    with consumer(broker) as reader:
        reader.assign([one, two])
        reader.pause(one)
        assert reader.paused() == {one}
        for record in reader:
            seen.append(record.value.decode())
            if seen == ["x", "y"]:
                reader.resume(one)
                reader.pause(two)
            if len(seen) == 4:
                break
    assert seen == ["x", "y", "a", "b"]


def test_without_an_offset_and_without_a_reset_reading_is_an_error_until_a_seek(
    broker: TestBroker, topic: str
) -> None:
    tp = ottla.TopicPartition(topic, 0)
    broker.produce(topic, "a")
    with consumer(broker, group_id=topic, auto_offset_reset="none") as reader:
        reader.assign([tp])
        for _ in range(2):
            with pytest.raises(ottla.PositionError, match=r"auto\.offset\.reset is none"):
                reader.poll(TIMEOUT_S)
        reader.seek(tp, 0)
        assert values(reader.poll(TIMEOUT_S)) == ["a"]


def test_a_reset_by_duration_begins_so_long_ago(broker: TestBroker, topic: str) -> None:
    broker.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
    broker.produce(topic, "now")
    with consumer(broker, topic, auto_offset_reset=timedelta(hours=1)) as reader:
        assert values(reader.poll(TIMEOUT_S)) == ["now"]


def test_an_offset_out_of_range_is_reset(broker: TestBroker, topic: str) -> None:
    tp = ottla.TopicPartition(topic, 0)
    broker.produce(topic, "a", "b")
    with consumer(broker) as reader:
        reader.assign({tp: 99})
        assert values(reader.poll(TIMEOUT_S)) == ["a", "b"]


def test_a_group_that_starts_at_the_end_says_so(
    broker: TestBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    tp = ottla.TopicPartition(topic, 0)
    broker.produce(topic, "a", "b", "c")
    with (
        caplog.at_level("INFO", "ottla"),
        consumer(broker, group_id=topic, auto_offset_reset="latest") as reader,
    ):
        reader.assign([tp])
        assert reader.position(tp) == 3
    assert f"group '{topic}' has no committed offset" in caplog.text
    assert "starting at the end, 3 records skipped" in caplog.text


# Transactions.


def transactions(broker: TestBroker, topic: str, *outcomes: tuple[str, bool]) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic}
    )
    producer.init_transactions()
    for letters, is_commit in outcomes:
        producer.begin_transaction()
        for letter in letters:
            producer.produce(topic, letter, partition=0)
        producer.flush()
        producer.commit_transaction() if is_commit else producer.abort_transaction()


def test_aborted_transactions_are_unseen_and_batches_chain_over_the_holes(
    broker: TestBroker, topic: str
) -> None:
    tp = ottla.TopicPartition(topic, 0)
    transactions(broker, topic, ("ab", True), ("xyz", False), ("c", True), ("q", False))
    with consumer(broker, topic, isolation_level="read_committed") as reader:
        batches = [reader.poll(TIMEOUT_S, max_records=1) for _ in range(3)]
        assert [values(batch) for batch in batches] == [["a"], ["b"], ["c"]]
        assert batches[0].start_offsets == {tp: 0}
        for before, after in pairwise(batches):
            assert after.start_offsets == before.next_offsets

        def is_at_the_end() -> bool:
            assert not reader.poll(0.05)
            return bool(reader.lag() == {tp: 0})

        until(is_at_the_end)
    with consumer(broker, topic) as reader:
        assert len(list(islice(reader, 7))) == 7


def test_a_batch_is_rewound_to_where_it_began(broker: TestBroker, topic: str) -> None:
    broker.produce(topic, "a", "b", "c")
    with consumer(broker, topic) as reader:
        first = reader.poll(TIMEOUT_S, max_records=2)
        reader.rewind(first)
        again = reader.poll(TIMEOUT_S)
    assert values(again) == ["a", "b", "c"]
    assert again.start_offsets == first.start_offsets


class SqliteOffsets:
    """Offsets beside the results, in one database."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        db.execute("create table offsets(topic, part int, next int, primary key(topic, part))")
        db.execute("create table results(body)")

    def load(
        self, group_id: str, partitions: Collection[ottla.TopicPartition]
    ) -> dict[ottla.TopicPartition, int]:
        rows = self.db.execute("select topic, part, next from offsets")
        found = {ottla.TopicPartition(topic, part): offset for topic, part, offset in rows}
        return {tp: offset for tp, offset in found.items() if tp in partitions}

    def save(self, batch: "ottla.Batch[Any, Any]") -> None:
        for tp, offset in batch.next_offsets.items():
            self.db.execute("replace into offsets values(?, ?, ?)", (*tp, offset))


def test_offsets_in_a_database_make_results_exactly_once(broker: TestBroker, topic: str) -> None:
    broker.produce(topic, *"abcdef")
    db = sqlite3.connect(":memory:")
    store = SqliteOffsets(db)
    for is_lucky in (False, True):
        try:
            with consumer(broker, topic, group_id=topic, offset_store=store) as reader:
                for batch in reader.batches(TIMEOUT_S, max_records=2):
                    with db:
                        rows = [(record.value,) for record in batch]
                        db.executemany("insert into results values(?)", rows)
                        if not is_lucky and batch[0].offset == 2:
                            raise UnluckyError
                        store.save(batch)
                    if batch[-1].offset == 5:
                        break
        except UnluckyError:
            continue
    found = [body.decode() for (body,) in db.execute("select body from results")]
    db.close()
    assert found == list("abcdef")
    assert committed(broker, topic, topic) is None
