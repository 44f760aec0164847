"""Options of the format: names of any case, suggestions, and what is refused."""

from collections.abc import Mapping

import pytest

from ottla.errors import ConfigError
from ottla.model import TopicPartition
from ottla.spark.option_values import duration_ms, size_bytes
from ottla.spark.options import SinkOptions, SourceOptions

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def source(**more: str) -> SourceOptions:
    return SourceOptions.of(with_dots(more))


def with_dots(more: Mapping[str, str]) -> dict[str, str]:
    return {**BASE, **{name.replace("__", "."): value for name, value in more.items()}}


def test_names_are_of_any_case_because_spark_makes_them_lower() -> None:
    options = SourceOptions.of(
        {"kafka.bootstrap.servers": "h:1", "SUBSCRIBE": "a, b", "maxoffsetspertrigger": "10"}
    )

    assert options.subscribe == ("a", "b")
    assert options.max_offsets_per_trigger == 10


def test_an_unknown_option_is_an_error_that_suggests_a_known_one() -> None:
    with pytest.raises(ConfigError, match="did you mean startingOffsets"):
        source(startingOffset="earliest")


def test_a_setting_of_the_client_needs_its_prefix() -> None:
    with pytest.raises(ConfigError, match=r"so kafka\.isolation\.level"):
        source(isolation__level="read_committed")


def test_an_unknown_setting_of_the_client_is_an_error_too() -> None:
    with pytest.raises(ConfigError, match=r"did you mean isolation\.level"):
        source(kafka__isolation__levle="read_committed")


@pytest.mark.parametrize(
    "name",
    [
        "kafka.auto.offset.reset",
        "kafka.enable.auto.commit",
        "kafka.key.deserializer",
        "kafka.value.deserializer",
        "kafka.interceptor.classes",
        "auto.offset.reset",
    ],
)
def test_a_setting_that_spark_forbids_says_what_to_do_instead(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be set"):
        SourceOptions.of({**BASE, name: "x"})


def test_options_of_sparks_own_source_that_need_nothing_are_accepted() -> None:
    source(groupIdPrefix="x", fetchOffset__numRetries="3", fetchOffset__retryIntervalMs="10")


def test_the_group_may_be_given_as_spark_gives_it() -> None:
    options = source(kafka__group__id="billing")

    assert options.group == "billing"
    assert "group.id" not in options.client


def test_the_group_is_not_given_twice() -> None:
    with pytest.raises(ConfigError, match="given twice"):
        source(kafka__group__id="a", group="b")


def test_brokers_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers"):
        SourceOptions.of({"subscribe": "orders"})


def test_brokers_may_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "broker:9092")

    assert SourceOptions.of({"subscribe": "t"}).client == {"bootstrap.servers": "broker:9092"}


def test_exactly_one_way_to_choose_topics_is_allowed() -> None:
    with pytest.raises(ConfigError, match="none is given"):
        SourceOptions.of({"kafka.bootstrap.servers": "h:1"})
    with pytest.raises(ConfigError, match="subscribe and subscribePattern are given"):
        source(subscribePattern="o.*")


def test_assigned_partitions_are_read_from_json() -> None:
    options = SourceOptions.of(
        {"kafka.bootstrap.servers": "h:1", "assign": '{"b": [1, 0], "a": [2]}'}
    )

    assert options.assigned == (
        TopicPartition("a", 2),
        TopicPartition("b", 0),
        TopicPartition("b", 1),
    )


@pytest.mark.parametrize("text", ["[0]", '{"a": 0}', '{"a": [-1]}', '{"a": [0, 0]}', "{}", "a"])
def test_an_assignment_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="assign"):
        SourceOptions.of({"kafka.bootstrap.servers": "h:1", "assign": text})


@pytest.mark.parametrize("text", ["newest", '{"a": 3}', '{"a": {"x": 3}}', '{"a": {"0": "3"}}'])
def test_starting_offsets_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="startingOffsets"):
        source(startingOffsets=text)


def test_the_group_as_a_start_needs_a_group() -> None:
    with pytest.raises(ConfigError, match=r"needs kafka\.group\.id"):
        source(startingOffsets="group")


def test_a_stream_has_no_end() -> None:
    with pytest.raises(ConfigError, match=r"endingOffsets is an option of spark\.read"):
        source(endingOffsets="latest").check_for_stream()


def test_a_batch_does_not_begin_at_the_end() -> None:
    with pytest.raises(ConfigError, match="for streams"):
        source(startingOffsets="latest").check_for_batch()


def test_the_least_of_a_trigger_is_not_more_than_the_most() -> None:
    with pytest.raises(ConfigError, match="is more than maxOffsetsPerTrigger"):
        source(minOffsetsPerTrigger="10", maxOffsetsPerTrigger="5")


def test_avro_needs_a_schema_or_a_registry() -> None:
    with pytest.raises(ConfigError, match="needs avroSchema or schemaRegistry"):
        source(valueFormat="avro")
    with pytest.raises(ConfigError, match="is for valueFormat = avro"):
        source(valueFormat="json", avroSchema='"string"')


def test_words_are_of_any_case() -> None:
    assert source(valueFormat="JSON", mode="failfast").mode == "FAILFAST"


def test_committed_records_only_is_the_default_and_can_be_changed() -> None:
    assert source().is_committed_only
    assert not source(kafka__isolation__level="read_uncommitted").is_committed_only


@pytest.mark.parametrize(
    ("text", "expected_ms"), [("15m", 900_000), ("30 s", 30_000), ("250", 250), ("1h", 3_600_000)]
)
def test_durations_are_written_as_spark_writes_them(text: str, expected_ms: int) -> None:
    assert duration_ms("maxTriggerDelay", text) == expected_ms


@pytest.mark.parametrize(
    ("text", "expected_bytes"), [("64m", 64 << 20), ("1g", 1 << 30), ("2 MiB", 2 << 20), ("9", 9)]
)
def test_sizes_are_written_as_spark_writes_them(text: str, expected_bytes: int) -> None:
    assert size_bytes("maxBytesPerTrigger", text) == expected_bytes


@pytest.mark.parametrize("text", ["", "m", "-1m", "0", "1x"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a size"):
        size_bytes("maxBytesPerTrigger", text)


def test_a_sink_refuses_what_only_a_source_knows() -> None:
    with pytest.raises(ConfigError, match="unknown option 'subscribe'"):
        SinkOptions.of({"kafka.bootstrap.servers": "h:1", "subscribe": "orders"})
