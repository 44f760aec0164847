"""The tree of exceptions, the table of error codes, and what both promise to callers."""

import pickle
from itertools import pairwise

import pytest

import ottla.errors
from ottla import errors
from ottla.errors import (
    REACTIONS,
    BatchError,
    BrokerError,
    CommitFailedError,
    DeliveryError,
    DeliveryErrors,
    DeniedError,
    ErrorCode,
    FencedError,
    OttlaError,
    RetriableError,
    UnknownTopicError,
    exception_for,
    raise_for_code,
)

FAILURES = [code for code in ErrorCode if code is not ErrorCode.NONE]
A_CODE_NOBODY_HAS_YET = 12_345


def every_exception() -> list[type[OttlaError]]:
    return [
        value
        for value in vars(ottla.errors).values()
        if isinstance(value, type) and issubclass(value, OttlaError)
    ]


def test_the_codes_have_no_gaps_and_no_doubles() -> None:
    numbers = [code.value for code in ErrorCode]
    assert numbers[0] == -1
    assert all(after == before + 1 for before, after in pairwise(numbers))


def test_every_code_but_none_has_an_exception() -> None:
    assert set(REACTIONS) == set(FAILURES)


def test_no_code_is_listed_under_two_exceptions() -> None:
    listed = [code for codes in errors._CODES_BY_CLASS.values() for code in codes]
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_has_one_sentence_of_advice(code: ErrorCode) -> None:
    assert code.advice.endswith(".")
    assert len(code.advice) >= 10
    assert "\n" not in code.advice


def test_no_exception_for_a_code_is_left_unused() -> None:
    # A commit is refused with codes that mean "join again" elsewhere: the consumer raises this one.
    by_code = {c for c in every_exception() if issubclass(c, BrokerError)} - {CommitFailedError}
    assert by_code == set(REACTIONS.values())


def test_the_tree_in_the_docstring_shows_every_exception() -> None:
    drawn = {word for word in (errors.__doc__ or "").split() if word.endswith("Error")}
    assert {c.__name__ for c in every_exception()} <= drawn


def test_none_raises_nothing() -> None:
    raise_for_code(ErrorCode.NONE)
    raise_for_code(0)


def test_there_is_no_exception_for_success() -> None:
    with pytest.raises(ValueError, match="NONE is not an error"):
        exception_for(0)


@pytest.mark.parametrize("code", FAILURES)
def test_a_code_is_raised_as_the_class_the_table_names(code: ErrorCode) -> None:
    with pytest.raises(BrokerError) as caught:
        raise_for_code(code.value, "topic 'orders'")
    assert type(caught.value) is REACTIONS[code]
    assert caught.value.code is code
    assert str(caught.value) == f"{code.name}: topic 'orders'"


def test_without_a_detail_the_message_is_the_advice() -> None:
    error = exception_for(ErrorCode.NON_EMPTY_GROUP)
    assert str(error) == f"NON_EMPTY_GROUP: {ErrorCode.NON_EMPTY_GROUP.advice}"


def test_a_code_of_a_newer_broker_keeps_its_number() -> None:
    error = exception_for(A_CODE_NOBODY_HAS_YET, "topic 'orders'")
    assert type(error) is BrokerError
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert error.number == A_CODE_NOBODY_HAS_YET
    assert str(A_CODE_NOBODY_HAS_YET) in str(error)
    assert not error.retriable


@pytest.mark.parametrize("code", FAILURES)
def test_at_most_one_of_retriable_fatal_and_abort_required_holds(code: ErrorCode) -> None:
    error = exception_for(code)
    assert [error.retriable, error.fatal, error.abort_required].count(True) == 1


@pytest.mark.parametrize(
    ("code", "builtin"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, PermissionError),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, PermissionError),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, LookupError),
        (ErrorCode.OFFSET_OUT_OF_RANGE, LookupError),
        (ErrorCode.INVALID_REPLICATION_FACTOR, ValueError),
    ],
)
def test_a_refusal_is_also_the_builtin_that_python_programmers_expect(
    code: ErrorCode, builtin: type[Exception]
) -> None:
    assert isinstance(exception_for(code), builtin)


@pytest.mark.parametrize(
    ("ours", "builtin"),
    [
        (errors.ConfigError, ValueError),
        (errors.ClosedError, RuntimeError),
        (errors.WireError, ValueError),
        (errors.BatchError, ValueError),
        (errors.TransportError, ConnectionError),
        (errors.ConnectError, ConnectionError),
        (errors.DeadlineError, TimeoutError),
    ],
)
def test_a_local_error_is_also_a_builtin(ours: type[OttlaError], builtin: type[Exception]) -> None:
    assert issubclass(ours, builtin)


def test_a_missing_topic_is_both_worth_a_retry_and_a_lookup_that_failed() -> None:
    error = exception_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert isinstance(error, UnknownTopicError)
    assert isinstance(error, RetriableError)
    assert error.retriable


def test_a_fenced_producer_must_not_abort_but_stop() -> None:
    error = exception_for(ErrorCode.PRODUCER_FENCED)
    assert isinstance(error, FencedError)
    assert error.fatal
    assert not error.abort_required


def test_a_denial_is_not_mistaken_for_an_errno() -> None:
    """`PermissionError` reads two arguments as errno and text; ours are a code and a detail."""
    error = exception_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic 'orders'")
    assert isinstance(error, DeniedError)
    assert error.errno is None
    assert str(error) == "TOPIC_AUTHORIZATION_FAILED: topic 'orders'"


@pytest.mark.parametrize(
    "error",
    [*(exception_for(code, "why") for code in FAILURES), exception_for(A_CODE_NOBODY_HAS_YET)],
    ids=lambda error: str(error.number),
)
def test_an_exception_crosses_processes_whole(error: BrokerError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert (copy.code, copy.number, copy.detail) == (error.code, error.number, error.detail)


def test_a_batch_error_crosses_processes_whole() -> None:
    error = BatchError(ErrorCode.CORRUPT_MESSAGE, "CRC does not match")
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, BatchError)
    assert copy.code is ErrorCode.CORRUPT_MESSAGE
    assert str(copy) == "CORRUPT_MESSAGE: CRC does not match"


def test_a_failed_delivery_says_what_its_cause_says() -> None:
    error = DeliveryError("orders", 3, exception_for(ErrorCode.PRODUCER_FENCED))
    assert (error.fatal, error.retriable, error.abort_required) == (True, False, False)
    assert error.code is ErrorCode.PRODUCER_FENCED
    assert str(error).startswith("orders-3: PRODUCER_FENCED")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.topic, copy.partition, copy.fatal) == ("orders", 3, True)


def test_a_part_of_failed_deliveries_is_still_a_group_of_them() -> None:
    fenced = DeliveryError("orders", 0, exception_for(ErrorCode.PRODUCER_FENCED))
    late = DeliveryError("orders", None, errors.DeadlineError("120 s passed"))
    group = DeliveryErrors("2 records were not delivered", [fenced, late])
    part = group.subgroup(lambda error: isinstance(error, DeliveryError) and error.retriable)
    assert isinstance(part, DeliveryErrors)
    assert part.exceptions == (late,)
    assert late.code is None


def test_a_store_of_ones_own_can_fence_with_a_message() -> None:
    error = FencedError("orders-0 is no longer at 17")
    assert str(error) == "orders-0 is no longer at 17"
    assert error.fatal


def test_what_could_not_be_read_comes_along() -> None:
    error = errors.SerializationError("not JSON", record=("raw",))
    assert pickle.loads(pickle.dumps(error)).record == ("raw",)
