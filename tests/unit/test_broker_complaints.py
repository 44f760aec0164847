"""The limit on lines about clients that misbehave."""

import logging

import pytest

from ottla.broker.complaints import INTERVAL_S, MAX_LINES, Complaints

PEER = ("192.0.2.1", 4711)


class Watch:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def complaints(watch: Watch) -> Complaints:
    return Complaints(watch)


def test_a_complaint_names_the_peer_and_the_reason(
    complaints: Complaints, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        complaints.add("connection closed", PEER, "noise")

    assert caplog.messages == ["connection closed: peer=192.0.2.1:4711 reason=noise"]


def test_complaints_above_the_limit_are_counted_and_told_in_the_next_minute(
    complaints: Complaints, watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(MAX_LINES + 5):
            complaints.add("connection closed", PEER, "noise")
        assert len(caplog.messages) == MAX_LINES

        watch.now_s += INTERVAL_S
        complaints.add("connection closed", PEER, "later")

    assert caplog.messages[MAX_LINES:] == [
        "more of the like were left out: count=5",
        "connection closed: peer=192.0.2.1:4711 reason=later",
    ]
