"""What `why` makes of topics whose disk is full, and of names that do not exist."""

from collections.abc import Iterable

import pytest

from ottla.errors import BrokerError, DeadlineError, ErrorCode, NotFoundError, OttlaError
from ottla.why.suggesting import suggest
from ottla.why.topic_waits import FullFolder, is_nearly_full, waits

GIB = 1024**3


@pytest.mark.parametrize(
    ("usable", "total", "is_told"),
    [(0, 24_000_000, True), (GIB, 20 * GIB, False), (GIB - 1, 100 * GIB, True), (9, 100, False)],
)
def test_a_disk_is_nearly_full_by_what_is_left_and_by_its_size(
    usable: int, total: int, is_told: bool
) -> None:
    assert is_nearly_full(usable, total) is is_told


@pytest.mark.parametrize(
    ("usable", "code", "words"),
    [
        (0, "disk_full", "is full: 0 B of"),
        (GIB // 2, "disk_nearly_full", "is nearly full: 512 MiB"),
    ],
)
def test_a_disk_without_room_is_told_with_what_to_do(usable: int, code: str, words: str) -> None:
    folder = FullFolder(broker_id=1, path="/data", usable_bytes=usable, total_bytes=100 * GIB)

    (found,) = waits([], [], [folder], 0)

    assert found.code == code
    assert words in found.text
    assert "retention" in found.advice


def refused() -> NotFoundError:
    return NotFoundError(ErrorCode.GROUP_ID_NOT_FOUND)


def test_a_name_that_does_not_exist_is_met_with_those_that_are_like_it() -> None:
    error = refused()

    suggest(error, "kitchn", lambda: ["pantry", "kitchen"])

    assert error.__notes__ == ["is it one of these? kitchen"]


@pytest.mark.parametrize(
    "reason", [BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), DeadlineError("it is slow")]
)
def test_names_that_cannot_be_had_are_no_second_error(reason: OttlaError) -> None:
    def names() -> Iterable[str]:
        raise reason

    error = refused()
    suggest(error, "kitchn", names)

    assert not hasattr(error, "__notes__")
