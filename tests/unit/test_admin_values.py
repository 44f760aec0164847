"""What the admin client decides by itself: plans of resets, outcomes of many, its two faces."""

import inspect
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import get_type_hints

import pytest

import ottla
from ottla.client.admin.admin import Admin, AdminOptions, AsyncAdmin
from ottla.client.admin.calling import is_doubtful, may_pass, passing_error
from ottla.client.admin.config import AdminConfig
from ottla.client.admin.configs import Resource, text_of
from ottla.client.admin.outcomes import Results, all_or_raise, outcome_of
from ottla.client.admin.positions import by_topic, timestamp_ms_of
from ottla.client.admin.resets import Bounds, Destination, OffsetChange, planned
from ottla.client.config import ClientConfig
from ottla.client.options import ClientOptions
from ottla.client.records import OffsetAndMetadata
from ottla.client.targets import ANY
from ottla.errors import (
    ConnectError,
    DeadlineError,
    ErrorCode,
    OttlaError,
    RequestError,
    TopicExistsError,
    TransportError,
    exception_for,
)
from ottla.model import TopicPartition

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
BOUNDS = {
    P1: Bounds(start_offset=0, end_offset=4),
    P0: Bounds(start_offset=10, end_offset=20, at_time=15),
}


@pytest.mark.parametrize(
    ("to", "new"),
    [
        ("earliest", (10, 0)),
        ("latest", (15, 4)),
        (12, (12, 4)),
        (datetime(2026, 11, 15, tzinfo=UTC), (15, 4)),
        (-timedelta(hours=2), (15, 4)),
        ({P0: 11, P1: OffsetAndMetadata(99)}, (11, 4)),
        ({P0: 3, P1: 3}, (10, 3)),
    ],
)
def test_a_reset_ends_inside_of_what_a_partition_has(to: Destination, new: tuple[int, int]) -> None:
    bounds = dict(BOUNDS)
    if to == "latest":
        bounds[P0] = Bounds(start_offset=10, end_offset=15)

    assert planned(to, bounds, {P0: 18}) == [
        OffsetChange(P0, 18, new[0]),
        OffsetChange(P1, None, new[1]),
    ]


def test_results_have_what_worked_and_raise_what_did_not() -> None:
    error = exception_for(ErrorCode.TOPIC_ALREADY_EXISTS, "b")
    outcomes: dict[str, int | OttlaError] = {"a": 1, "b": error}

    results = Results(outcomes)

    assert dict(results) == {"a": 1}
    assert results.errors == {"b": error}
    assert ("b" in results, len(results)) == (False, 1)
    with pytest.raises(TopicExistsError):
        results["b"]
    with pytest.raises(KeyError):
        results["c"]


def test_the_first_error_of_many_has_notes_about_the_others_and_about_what_worked() -> None:
    outcomes: dict[str, int | OttlaError] = {
        "a": 1,
        "b": exception_for(ErrorCode.TOPIC_ALREADY_EXISTS, "first"),
        "c": exception_for(ErrorCode.INVALID_PARTITIONS, "second"),
    }

    with pytest.raises(TopicExistsError, match="first") as caught:
        all_or_raise(outcomes)

    assert caught.value.__notes__ == ["c: INVALID_PARTITIONS: second", "done: a"]
    assert all_or_raise({"a": 1}) == {"a": 1}


def test_an_outcome_is_a_value_or_an_error() -> None:
    assert outcome_of(0, "fine", 7) == 7
    assert isinstance(outcome_of(36, "there", 7), TopicExistsError)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (exception_for(ErrorCode.NOT_CONTROLLER), True),
        (exception_for(ErrorCode.THROTTLING_QUOTA_EXCEEDED), True),
        (exception_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), False),
        (exception_for(ErrorCode.INVALID_CONFIG), False),
        (TransportError("lost"), True),
        (DeadlineError("late"), False),
        ("no error at all", False),
    ],
)
def test_only_some_errors_may_pass(error: object, passes: bool) -> None:
    assert may_pass(error) is passes


def test_of_several_codes_one_that_may_pass_counts() -> None:
    assert passing_error([0, ErrorCode.INVALID_CONFIG, ErrorCode.NOT_COORDINATOR]) == 16
    assert passing_error([0, ErrorCode.INVALID_CONFIG]) == 0


def test_no_answer_leaves_a_doubt_and_no_connection_leaves_none() -> None:
    assert is_doubtful(TransportError("lost"))
    assert is_doubtful(exception_for(ErrorCode.REQUEST_TIMED_OUT))
    assert not is_doubtful(ConnectError("nobody there"))
    assert not is_doubtful(exception_for(ErrorCode.NOT_CONTROLLER))


def test_settings_of_one_broker_are_asked_of_that_broker() -> None:
    assert Resource.of(None, 3, None).target == 3
    assert Resource.of(None, "all", None) == (4, "")
    assert Resource.of(None, "all", None).target is ANY
    assert Resource.of("orders", None, None).target is ANY
    assert str(Resource.of(None, None, "billing")) == "group 'billing'"


@pytest.mark.parametrize("given", [(None, None, None), ("orders", 1, None)])
def test_settings_are_those_of_one_thing(given: tuple[str | None, int | None, None]) -> None:
    with pytest.raises(RequestError, match="name one thing"):
        Resource.of(*given)


def test_values_are_written_as_kafka_writes_them() -> None:
    assert [text_of(value) for value in (True, 7, 0.5, "zstd")] == ["true", "7", "0.5", "zstd"]


def test_moments_become_milliseconds_and_words_become_numbers() -> None:
    assert timestamp_ms_of(datetime.fromtimestamp(1_700_000_000, UTC)) == 1_700_000_000_000
    assert [timestamp_ms_of(word) for word in ("latest", "earliest", "max_timestamp")] == [
        -1,
        -2,
        -3,
    ]
    assert timestamp_ms_of(42) == 42


def test_a_moment_without_a_time_zone_is_refused_as_everywhere() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        timestamp_ms_of(datetime(2026, 1, 1))  # noqa: DTZ001, that is the point


def test_partitions_are_put_together_by_topic() -> None:
    other = TopicPartition("audit", 0)
    assert by_topic([P1, other, P0], lambda tp: tp.partition) == {"orders": (1, 0), "audit": (0,)}


def methods(face: type) -> dict[str, str]:
    looked_up = {name: getattr(face, name) for name in dir(face) if not name.startswith("_")}
    return {
        name: str(inspect.signature(value))
        for name, value in looked_up.items()
        if inspect.isfunction(value)
    }


def test_both_faces_have_the_same_methods_with_the_same_parameters() -> None:
    blocking, awaited = methods(Admin), methods(AsyncAdmin)
    assert blocking.pop("close") == awaited.pop("aclose")
    assert blocking == awaited
    assert len(blocking) > 40


def test_every_method_of_asyncio_is_awaited() -> None:
    plain = {
        name
        for name in methods(AsyncAdmin)
        if not inspect.iscoroutinefunction(getattr(AsyncAdmin, name))
    }
    assert plain == {"metrics"}


def test_help_shows_what_users_call() -> None:
    first, *_ = inspect.signature(Admin.describe_topic).parameters
    assert first == "self"
    assert Admin.describe_topic.__doc__
    assert Admin.describe_topic.__qualname__ == "Admin.describe_topic"


@pytest.mark.parametrize(
    ("options", "config"), [(ClientOptions, ClientConfig), (AdminOptions, AdminConfig)]
)
def test_type_checkers_know_every_setting(options: type, config: type) -> None:
    declared = {field.name for field in fields(config)} - {"bootstrap_servers"}
    assert set(get_type_hints(options, localns={"SSLContext": object})) - {"config"} == declared


def test_making_a_client_connects_to_nobody_and_refuses_unknown_settings() -> None:
    unknown: Mapping[str, object] = {"request.timeout": 3}
    with pytest.raises(ottla.errors.ConfigError, match=r"request\.timeout\.ms"):
        Admin("localhost:1", config=unknown)
    Admin("localhost:1").close()
