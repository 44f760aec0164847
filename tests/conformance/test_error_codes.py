"""Our error codes against those that other Kafka clients know."""

from types import ModuleType
from typing import Any

import pytest

from ottla.errors import ErrorCode, exception_for

OLD_SPELLINGS = {
    "UNKNOWN": "UNKNOWN_SERVER_ERROR",
    "NO_ERROR": "NONE",
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "MESSAGE_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "STALE_LEADER_EPOCH_CODE": "NETWORK_EXCEPTION",
    "INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION",
    "INVALID_REPLICATION_ASSIGNMENT": "INVALID_REPLICA_ASSIGNMENT",
}
"""Names that Kafka gave up or that a peer spells its own way -> Kafka's name today."""


def codes_of(peer: ModuleType) -> dict[int, Any]:
    """Number -> exception class, of those a broker sends."""
    classes: list[Any] = [value for value in vars(peer).values() if isinstance(value, type)]
    return {
        found.errno: found
        for found in classes
        if isinstance(getattr(found, "errno", None), int) and getattr(found, "message", None)
    }


@pytest.mark.parametrize(
    ("peer", "at_least"), [("kafka.errors", 120), ("aiokafka.errors", 70)], ids=lambda value: value
)
def test_names_and_numbers_agree_with_other_clients(peer: str, at_least: int) -> None:
    theirs = codes_of(pytest.importorskip(peer))
    assert len(theirs) >= at_least, "the peer keeps its codes elsewhere now"
    names = {
        number: OLD_SPELLINGS.get(found.message, found.message) for number, found in theirs.items()
    }
    assert names == {code.value: code.name for code in ErrorCode if code.value in names}


def test_what_may_be_retried_agrees_with_kafka_python() -> None:
    """Two differences: Kafka's own client does retry a corrupt message; and it calls a needless
    election retriable, although the next attempt gets the same answer.
    """
    theirs = codes_of(pytest.importorskip("kafka.errors"))
    known = [ErrorCode(number) for number in theirs if number > 0]
    we_retry = {code for code in known if exception_for(code).retriable}
    they_retry = {code for code in known if theirs[code].retriable}
    assert we_retry - they_retry == {ErrorCode.CORRUPT_MESSAGE}
    assert they_retry - we_retry == {ErrorCode.ELECTION_NOT_NEEDED}
