"""How a stream goes on, from one offset to the next."""

import json
from typing import Any

import pytest

from ottla.errors import ConfigError, ErrorCode, exception_for
from ottla.spark.offsets import CheckpointError
from ottla.spark.source.loss import DataLossError
from ottla.spark.source.tracking import Tracker
from tests.spark_samples import Clock, FakeLog, orders, tracker


def ranges(found: list[Any]) -> list[tuple[int, int, int]]:
    return [(one.tp.partition, one.start_offset, one.end_offset) for one, _ in found]


def latest(made: Tracker, start: dict[str, Any]) -> dict[str, Any]:
    """As Spark does it: what goes through it is JSON text."""
    kept: dict[str, Any] = json.loads(json.dumps(made.latest(start, is_limited=True)))
    return kept


# Where it begins.


def test_a_stream_begins_at_the_end_by_default() -> None:
    made = tracker(FakeLog(orders=[5, 7]))

    assert made.initial()["topics"]["orders"]["p"] == {"0": 5, "1": 7}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"startingOffsets": "earliest"}, {"0": 2, "1": 0}),
        ({"startingOffsets": '{"orders": {"0": -1, "1": 3}}'}, {"0": 5, "1": 3}),
        ({"startingOffsets": '{"orders": {"0": -2, "1": -1}}'}, {"0": 2, "1": 7}),
        ({"startingTimestamp": "4"}, {"0": 4, "1": 4}),
        ({"startingOffsetsByTimestamp": '{"orders": {"0": 3, "1": 6}}'}, {"0": 3, "1": 6}),
        ({"startingTimestamp": "1", "startingOffsets": "latest"}, {"0": 2, "1": 1}),
        ({"startingOffsets": "group", "kafka__group__id": "g"}, {"0": 2, "1": 6}),
    ],
)
def test_a_stream_begins_where_the_options_say(
    said: dict[str, str], expected: dict[str, int]
) -> None:
    log = FakeLog(orders=[5, 7])
    log.starts[orders(0)] = 2
    log.groups["g"] = {orders(1): 6}

    assert tracker(log, **said).initial()["topics"]["orders"]["p"] == expected


def test_a_time_without_records_is_an_error_or_the_end() -> None:
    with pytest.raises(ConfigError, match="orders-0 has no record from 5 on"):
        tracker(FakeLog(orders=[5, 9]), startingTimestamp="5").initial()
    made = tracker(
        FakeLog(orders=[5, 9]),
        startingTimestamp="5",
        startingOffsetsByTimestampStrategy="latest",
    )
    assert made.initial()["topics"]["orders"]["p"] == {"0": 5, "1": 5}


def test_given_offsets_name_all_partitions_and_no_others() -> None:
    with pytest.raises(ConfigError, match="says nothing of orders-1"):
        tracker(FakeLog(orders=[5, 7]), startingOffsets='{"orders": {"0": 1}}').initial()
    text = '{"orders": {"0": 1, "1": 1, "2": 1}}'
    with pytest.raises(ConfigError, match="names orders-2, which is not read"):
        tracker(FakeLog(orders=[5, 7]), startingOffsets=text).initial()


def test_a_group_that_is_behind_retention_has_lost_records() -> None:
    log = FakeLog(orders=9)
    log.starts[orders(0)] = 4
    log.groups["g"] = {orders(0): 1}
    said = {"startingOffsets": "group", "kafka__group__id": "g"}

    with pytest.raises(DataLossError, match="orders-0 begins at offset 4, and offsets 1 to 3"):
        tracker(log, **said).initial()
    begun = tracker(log, failOnDataLoss="false", **said).initial()
    assert begun["topics"]["orders"]["p"] == {"0": 4}


# Batch 0.


def test_the_first_batch_keeps_where_it_began() -> None:
    log = FakeLog(orders=5)
    made = tracker(log)
    start = made.initial()
    log.ends[orders(0)] = 8

    end = latest(made, start)

    assert end["init"] == {"orders": {"0": 5}}
    assert ranges(made.plan(start, end)) == [(0, 5, 8)]


def test_a_first_batch_that_is_run_again_later_begins_where_it_began() -> None:
    log = FakeLog(orders=5)
    before = tracker(log)
    start = before.initial()
    log.ends[orders(0)] = 8
    end = latest(before, start)
    log.ends[orders(0)] = 20

    after = tracker(log)

    assert ranges(after.plan(after.initial(), end)) == [(0, 5, 8)]


def test_only_the_first_batch_has_such_a_record() -> None:
    log = FakeLog(orders=5)
    made = tracker(log)
    start = made.initial()
    log.ends[orders(0)] = 8
    first = latest(made, start)
    log.ends[orders(0)] = 9

    second = latest(made, first)

    assert "init" not in second
    assert ranges(made.plan(first, second)) == [(0, 8, 9)]


def test_an_empty_first_batch_is_followed_by_a_right_one() -> None:
    log = FakeLog(orders=5)
    made = tracker(log)
    start = made.initial()
    first = latest(made, start)
    assert first == start
    log.ends[orders(0)] = 6

    assert ranges(made.plan(first, latest(made, first))) == [(0, 5, 6)]


# What is new.


def test_nothing_new_is_told_by_the_very_same_offset() -> None:
    log = FakeLog(orders=[5, 5])
    made = tracker(log, startingOffsets="earliest")
    end = latest(made, made.initial())

    assert json.dumps(made.latest(end, is_limited=True)) == json.dumps(end)


def test_a_new_partition_begins_at_its_first_record() -> None:
    log, clock = FakeLog(orders=5), Clock()
    made = tracker(log, clock)
    first = latest(made, made.initial())
    log.starts[orders(1)], log.ends[orders(1)] = 0, 3
    clock.now_ms += 1_000

    end = latest(made, first)

    assert end["new"] == {"orders": {"1": 0}}
    assert ranges(made.plan(first, end)) == [(1, 0, 3)]


def test_a_new_topic_of_a_pattern_is_picked_up() -> None:
    log, clock = FakeLog(orders=5), Clock()
    made = tracker(log, clock, subscribePattern=".*")
    first = latest(made, made.initial())
    log.create("bills", 4)
    clock.now_ms += 1_000

    end = latest(made, first)

    assert [(one.tp.topic, one.size, id_) for one, id_ in made.plan(first, end)] == [
        ("bills", 4, log.ids["bills"])
    ]


def test_a_new_partition_whose_first_records_are_gone_is_a_loss() -> None:
    log, clock = FakeLog(orders=5), Clock()
    made = tracker(log, clock)
    first = latest(made, made.initial())
    log.starts[orders(1)], log.ends[orders(1)] = 2, 3
    clock.now_ms += 1_000

    with pytest.raises(DataLossError, match="new partition orders-1 begins at offset 2"):
        made.latest(first, is_limited=True)


# What is gone.


def running() -> tuple[FakeLog, Clock, dict[str, Any]]:
    """A query that has read ten records."""
    log, clock = FakeLog(orders=10), Clock()
    made = tracker(log, clock, startingOffsets="earliest")
    return log, clock, latest(made, made.initial())


def test_a_deleted_topic_is_named() -> None:
    log, clock, end = running()
    log.delete("orders")

    with pytest.raises(
        DataLossError, match=r"topic 'orders' was deleted; .*partition 0 up to offset 10"
    ):
        tracker(log, clock).latest(end, is_limited=True)


def test_a_topic_that_was_made_anew_is_named_as_such() -> None:
    log, clock, end = running()
    log.make_anew("orders", 3)

    with pytest.raises(DataLossError, match="was deleted and created anew"):
        tracker(log, clock).latest(end, is_limited=True)


def test_a_topic_that_was_made_anew_can_be_read_from_its_beginning() -> None:
    log, clock, end = running()
    log.make_anew("orders", 3)
    made = tracker(log, clock, failOnDataLoss="false")

    after = latest(made, end)

    assert after["topics"]["orders"] == {"id": log.ids["orders"], "p": {"0": 3}}
    assert ranges(made.plan(end, after)) == [(0, 0, 3)]


def test_without_failing_a_deleted_topic_is_left_out() -> None:
    log, clock, end = running()
    log.create("bills", 1)
    log.delete("orders")
    made = tracker(log, clock, subscribePattern=".*", failOnDataLoss="false")

    assert list(latest(made, end)["topics"]) == ["bills"]


def test_a_topic_that_is_not_subscribed_to_any_more_is_no_loss() -> None:
    log, clock = FakeLog(orders=10, bills=5), Clock()
    before = tracker(log, clock, subscribe="orders,bills", startingOffsets="earliest")
    end = latest(before, before.initial())
    log.delete("bills")

    after = latest(tracker(log, clock, subscribe="orders"), end)

    assert list(after["topics"]) == ["orders"]


def test_a_log_that_is_shorter_than_the_query_is_a_loss() -> None:
    log, clock, end = running()
    log.ends[orders(0)] = 7

    with pytest.raises(DataLossError, match=r"orders-0 ends at offset 7, and the query is .* 10"):
        tracker(log, clock).latest(end, is_limited=True)


def test_open_transactions_are_no_loss() -> None:
    log, clock, end = running()
    log.stable[orders(0)] = 8

    assert latest(tracker(log, clock), end) == end


def test_another_cluster_is_named() -> None:
    log, clock, end = running()
    log.cluster = "cluster-2"

    with pytest.raises(DataLossError, match="of cluster cluster-1, and this is cluster cluster-2"):
        tracker(log, clock).latest(end, is_limited=True)


def test_retention_that_passed_the_checkpoint_is_a_loss() -> None:
    log, clock, end = running()
    log.ends[orders(0)] = 30
    log.starts[orders(0)] = 20
    made = tracker(log, clock)

    with pytest.raises(DataLossError, match="offsets 10 to 19 were not read yet"):
        made.plan(end, latest(made, end))
    going_on = tracker(log, clock, failOnDataLoss="false")
    assert ranges(going_on.plan(end, latest(going_on, end))) == [(0, 20, 30)]


def test_a_checkpoint_that_lacks_a_file_is_not_guessed_at() -> None:
    log, clock, end = running()
    log.starts[orders(1)], log.ends[orders(1)] = 0, 3
    clock.now_ms += 1_000
    made = tracker(log, clock)
    after = {name: part for name, part in latest(made, end).items() if name != "new"}

    with pytest.raises(CheckpointError, match="does not say where orders-1 begins"):
        made.plan(end, after)


# Limits.


def test_a_trigger_takes_no_more_than_it_may() -> None:
    log = FakeLog(orders=[100, 300])
    made = tracker(log, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    start = made.initial()

    assert ranges(made.plan(start, latest(made, start))) == [(0, 0, 10), (1, 0, 30)]


def test_a_trigger_that_wants_everything_gets_it() -> None:
    made = tracker(FakeLog(orders=100), startingOffsets="earliest", maxOffsetsPerTrigger="40")

    assert made.latest(made.initial(), is_limited=False)["topics"]["orders"]["p"] == {"0": 100}


def test_bytes_limit_a_trigger_too() -> None:
    log = FakeLog(orders=1_000)
    log.bytes_of_offset = 200.0
    made = tracker(log, startingOffsets="earliest", maxBytesPerTrigger="10k")

    assert latest(made, made.initial())["topics"]["orders"]["p"] == {"0": 51}


def test_a_batch_waits_until_there_is_enough_or_it_has_waited_long_enough() -> None:
    log, clock = FakeLog(orders=10), Clock()
    made = tracker(
        log, clock, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="1m"
    )
    first = latest(made, made.initial())
    log.ends[orders(0)] = 12

    assert latest(made, first) == first
    log.ends[orders(0)] = 15
    assert latest(made, first)["topics"]["orders"]["p"] == {"0": 15}


def test_after_the_longest_delay_a_small_batch_runs() -> None:
    log, clock = FakeLog(orders=10), Clock()
    made = tracker(
        log, clock, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="1m"
    )
    first = latest(made, made.initial())
    log.ends[orders(0)] = 12
    clock.now_ms += 60_000

    assert latest(made, first)["topics"]["orders"]["p"] == {"0": 12}


def test_what_is_available_now_ends_where_the_log_ended() -> None:
    log = FakeLog(orders=10)
    made = tracker(log, startingOffsets="earliest", maxOffsetsPerTrigger="6")
    made.stop_at_present()
    log.ends[orders(0)] = 50
    log.starts[orders(1)], log.ends[orders(1)] = 0, 9

    first = latest(made, made.initial())
    second = latest(made, first)

    assert second["topics"]["orders"]["p"] == {"0": 10, "1": 0}
    assert latest(made, second) == second
    assert log.waits == []


# Waiting, and telling.


def test_a_second_look_at_nothing_waits_for_records() -> None:
    log = FakeLog(orders=5)
    made = tracker(log, longPollMs="700")
    end = latest(made, made.initial())
    assert log.waits == []

    latest(made, end)

    assert log.waits == [700]
    assert log.waited_at == {orders(0): 5}


def test_records_that_come_while_it_waits_are_in_the_answer() -> None:
    log = FakeLog(orders=5)
    made = tracker(log)
    end = latest(made, made.initial())

    def write() -> None:
        log.ends[orders(0)] = 6

    log.on_wait = write

    assert latest(made, end)["topics"]["orders"]["p"] == {"0": 6}


def test_it_does_not_wait_while_another_source_has_records() -> None:
    log = FakeLog(orders=5)
    made = tracker(log)
    end = latest(made, made.initial())

    made.plan(end, end)
    latest(made, end)

    assert log.waits == []


def test_the_newest_offsets_are_told_for_reports() -> None:
    log = FakeLog(orders=100)
    made = tracker(log, startingOffsets="earliest", maxOffsetsPerTrigger="10")
    assert made.newest() is None
    latest(made, made.initial())

    newest = made.newest()

    assert newest is not None
    assert newest["topics"]["orders"]["p"] == {"0": 100}


def test_a_finished_batch_is_committed_for_the_group_and_no_other() -> None:
    log, clock = FakeLog(orders=5), Clock()
    made = tracker(log, clock, startingOffsets="earliest", kafka__group__id="g")
    first = latest(made, made.initial())
    assert log.groups == {}

    log.ends[orders(0)] = 9
    latest(made, first)

    assert log.groups == {"g": {orders(0): 5}}


def test_commits_are_not_more_often_than_once_a_second() -> None:
    log, clock = FakeLog(orders=5), Clock()
    made = tracker(log, clock, startingOffsets="earliest", kafka__group__id="g")
    end = latest(made, made.initial())
    for size in (6, 7):
        log.ends[orders(0)] = size
        end = latest(made, end)
    assert log.groups["g"] == {orders(0): 5}

    clock.now_ms += 1_000
    latest(made, end)

    assert log.groups["g"] == {orders(0): 7}


def test_a_commit_that_fails_does_not_end_the_query(caplog: pytest.LogCaptureFixture) -> None:
    log = FakeLog(orders=5)
    log.commit_error = exception_for(ErrorCode.NON_EMPTY_GROUP, "group 'g' has members")
    made = tracker(log, startingOffsets="earliest", kafka__group__id="g")
    end = latest(made, made.initial())

    latest(made, end)
    latest(made, end)

    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_commits_can_be_left_to_others() -> None:
    log = FakeLog(orders=5)
    made = tracker(log, startingOffsets="earliest", kafka__group__id="g", commitOffsets="false")
    end = latest(made, made.initial())

    assert latest(made, end)["group"] == "g"
    assert log.groups == {}
