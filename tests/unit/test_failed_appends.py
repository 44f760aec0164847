"""Appends that fail, as on a full disk: what is told of them, and how often."""

import errno

import pytest

from ottla.broker.partition import CALM_MS
from ottla.errors import ErrorCode
from ottla.records.builder import build
from ottla.testing.disk import Operation
from tests.broker_fixture import NOW_MS, LittleBroker


class Producers:
    """They try, whatever they are told."""

    def __init__(self) -> None:
        self.broker = LittleBroker()
        self.broker.create("orders", partition_count=2)
        self.now_ms = NOW_MS

    def fail(self, error: int, index: int = 0) -> None:
        self.broker.disk.fail(error, Operation.WRITE, path=f"orders-{index}")
        assert self._append(index) is ErrorCode.KAFKA_STORAGE_ERROR

    def succeed(self, index: int = 0) -> None:
        assert self._append(index) is ErrorCode.NONE

    def _append(self, index: int) -> ErrorCode:
        data = bytearray(build([(NOW_MS, b"key", b"value", ())]))
        return self.broker.partition("orders", index).append(data, now_ms=self.now_ms).error


def test_a_full_disk_is_told_once_for_each_partition(caplog: pytest.LogCaptureFixture) -> None:
    producers = Producers()
    for _ in range(5):
        for index in (0, 1):
            producers.fail(errno.ENOSPC, index)

    told = [record.message for record in caplog.records]
    assert ["append failed: topic=orders partition=0" in line for line in told] == [True, False]
    assert ["append failed: topic=orders partition=1" in line for line in told] == [False, True]


def test_another_reason_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    producers = Producers()
    for error in (errno.ENOSPC, errno.ENOSPC, errno.EDQUOT):
        producers.fail(error)

    assert caplog.text.count("append failed") == 2


def test_when_appends_work_again_it_is_told_how_many_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    producers = Producers()
    for _ in range(3):
        producers.fail(errno.ENOSPC)
    producers.now_ms += CALM_MS
    producers.succeed()
    producers.succeed()

    assert caplog.messages[1:] == ["appends work again: topic=orders partition=0 failed_count=3"]
    producers.fail(errno.ENOSPC)
    assert caplog.text.count("append failed") == 2, "it is another time"


def test_a_disk_that_is_nearly_full_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    producers = Producers()
    for _ in range(5):
        producers.fail(errno.ENOSPC)
        producers.now_ms += CALM_MS - 1
        producers.succeed()

    assert len(caplog.messages) == 1


def test_a_clock_that_was_set_back_ends_it_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    producers = Producers()
    producers.fail(errno.ENOSPC)
    producers.now_ms -= CALM_MS
    producers.succeed()

    assert "appends work again" in caplog.text
