"""What the overview says one should look at, and the numbers that only a broker can tell."""

import threading
from collections import deque
from datetime import timedelta
from socketserver import BaseRequestHandler, TCPServer
from typing import Any

import pytest

from ottla import measures
from ottla.broker.meters import BOUNDS_S
from ottla.client.admin.lag import GroupLag, PartitionLag
from ottla.console.attention import LASTING_S, MAX_NOTES, Note, attention
from ottla.console.broker_numbers import (
    BrokerNumbers,
    NumbersError,
    p99_ms,
    parsed,
    read_numbers,
)
from ottla.console.history import FolderSample, History, Sample, TopicSample
from ottla.console.rendering import coded
from ottla.console.why import LONG_LOOK_MS, OLDEST_LOOK_MS, SHORT_LOOK_MS, earlier_look
from ottla.model import TopicPartition
from ottla.why.sight import Sight
from tests.group_sights import NOW_MS, sight, story

GIB = 1024**3


def topic(offline_count: int = 0) -> TopicSample:
    return TopicSample(
        partition_count=3,
        record_count=0,
        end_offset=0,
        size_bytes=0,
        is_internal=False,
        offline_count=offline_count,
        under_replicated_count=0,
    )


def lag(state: str = "Stable", count: int = 0, late: timedelta = timedelta(0)) -> GroupLag:
    part = PartitionLag(
        tp=TopicPartition("orders", 0),
        committed=0,
        end_offset=count,
        lag=count,
        time_lag=late,
        member_id=None if state == "Empty" else "ada",
    )
    return GroupLag(group_id="kitchen", state=state, total=count, partitions=(part,))


def notes(*samples: dict[str, Any], every_s: float = 2.0) -> list[Note]:
    history = History()
    for number, facts in enumerate(samples):
        history.add(Sample(at_s=1_000 + number * every_s, **facts))
    return attention(history)


def test_a_cluster_at_rest_asks_for_nothing() -> None:
    assert attention(History()) == []
    assert notes({"topics": {"orders": topic()}, "lags": {"kitchen": lag()}}) == []


def test_what_does_not_work_comes_before_what_waits() -> None:
    found = notes(
        {
            "topics": {"orders": topic(offline_count=2)},
            "lags": {"kitchen": lag("Empty", 7)},
            "folders": (FolderSample(1, GIB // 2, 100 * GIB),),
            "late_transactions": ("till",),
        }
    )

    assert [note.kind for note in found] == ["bad", "bad", "warn", "warn"]
    assert found[0].text.startswith("orders: 2 of 3 partitions offline")
    assert "512 MiB of 100 GiB" in found[1].text
    assert "kitchen has no members, and 7 records to read" in found[2].text
    assert (found[3].path, found[3].subject) == ("/transactions/show", "till")


@pytest.mark.parametrize(
    ("usable", "total", "is_told"),
    [(GIB // 2, 100 * GIB, True), (2 * GIB, 100 * GIB, False), (GIB // 2, GIB, False)],
)
def test_a_small_disk_is_not_full_for_being_small(usable: int, total: int, is_told: bool) -> None:
    assert bool(notes({"folders": (FolderSample(1, usable, total),)})) is is_told


@pytest.mark.parametrize(
    ("facts", "is_told"),
    [
        (lag("Stable", 5, timedelta(minutes=3)), True),
        (lag("Stable", 5, timedelta(seconds=3)), False),
        (lag("Empty", 0), False),
        (lag("Empty", 5), True),
    ],
)
def test_a_group_is_told_when_it_is_late_or_nobody_reads(facts: GroupLag, is_told: bool) -> None:
    assert bool(notes({"lags": {"kitchen": facts}})) is is_told


def test_a_rebalance_is_told_when_it_lasts() -> None:
    moving = {"lags": {"kitchen": lag("PreparingRebalance")}}
    calm = {"lags": {"kitchen": lag()}}

    assert notes(moving, moving) == []
    assert notes(moving, calm, moving, every_s=LASTING_S) == []
    (note,) = notes(calm, moving, moving, every_s=LASTING_S)
    assert note.text == "kitchen is PreparingRebalance for 15 s"


def test_what_producers_are_told_is_told_for_a_minute() -> None:
    def numbers(count: int) -> dict[str, Any]:
        return {"numbers": BrokerNumbers(refused={("orders", "MESSAGE_TOO_LARGE"): count})}

    assert notes(numbers(3)) == []  # it was before we looked
    (note,) = notes(numbers(3), numbers(4))
    assert note.text == "orders: 1 batch refused in the last minute, MESSAGE_TOO_LARGE"
    assert notes(numbers(3), numbers(4), numbers(4), every_s=50.0) == []


def test_of_too_many_notes_the_rest_is_counted() -> None:
    *first, last = notes({"topics": {f"t-{n}": topic(1) for n in range(50)}})

    assert len(first) == MAX_NOTES
    assert last.text == f"and {50 - MAX_NOTES} more"


def page(fast: int, slow: int) -> str:
    """Produce requests of which so many took 1 ms, and so many a second."""
    lines = []
    for bound in (*BOUNDS_S, "+Inf"):
        below = (fast if float(bound) >= 0.001 else 0) + (slow if float(bound) >= 1.0 else 0)
        lines.append(f'ottla_request_seconds_bucket{{request="Produce",le="{bound}"}} {below}')
    return "\n".join(
        [
            "# HELP kafka_server_brokertopicmetrics_bytesin_total Bytes that were written",
            'kafka_server_brokertopicmetrics_bytesin_total{topic="a} 9"} 100',
            'kafka_server_brokertopicmetrics_bytesin_total{topic="b"} 20',
            'kafka_server_brokertopicmetrics_bytesout_total{topic="b"} 7',
            "ottla_loop_lag_seconds 0.001",
            'ottla_produce_refused_total{topic="b",error="INVALID_RECORD"} 2',
            *lines,
        ]
    )


def test_numbers_are_read_from_a_page_for_prometheus() -> None:
    numbers = parsed(page(fast=3, slow=1))

    assert (numbers.bytes_in, numbers.bytes_out) == (120, 7)
    assert sum(numbers.times["Produce"]) == 4
    assert numbers.refused == {("b", "INVALID_RECORD"): 2}
    assert parsed("not such a page") == BrokerNumbers()


class Stranger(BaseRequestHandler):
    """Listens, and does not speak HTTP, or tells numbers that are none."""

    answer = b""

    def handle(self) -> None:
        self.request.recv(1024)
        self.request.sendall(self.answer)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-Stranger\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n" + f'{measures.BYTES_IN.name}{{topic="a"}} +Inf\n'.encode(),
    ],
)
def test_a_page_that_is_none_is_said_to_be_none(answer: bytes) -> None:
    handler = type("Answering", (Stranger,), {"answer": answer})
    with TCPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(NumbersError, match="does not tell how the broker does"):
            read_numbers(f"http://127.0.0.1:{server.server_address[1]}/metrics")
        thread.join()


def test_the_slowest_of_a_hundred_is_of_the_requests_in_between() -> None:
    before, now = parsed(page(fast=10, slow=50)), parsed(page(fast=1_010, slow=50))

    quick_ms = p99_ms(before, now, "Produce")
    assert quick_ms is not None
    assert 0.5 < quick_ms <= 1.0
    slow_ms = p99_ms(before, parsed(page(fast=1_010, slow=150)), "Produce")
    assert slow_ms is not None
    assert slow_ms > 500
    assert p99_ms(before, before, "Produce") is None
    assert p99_ms(before, now, "Fetch") is None


def test_looks_are_compared_once_they_are_far_enough_apart() -> None:
    looks: deque[Sight] = deque()
    first = sight(seen_ms=NOW_MS)

    assert earlier_look(looks, first) is None
    assert earlier_look(looks, sight(seen_ms=NOW_MS + SHORT_LOOK_MS)) is None  # tells no story
    told = sight(seen_ms=NOW_MS + SHORT_LOOK_MS, told=story())
    assert earlier_look(looks, told) is first
    assert earlier_look(looks, sight(seen_ms=NOW_MS + LONG_LOOK_MS)) is first
    for step in range(100):
        earlier_look(looks, sight(seen_ms=NOW_MS + LONG_LOOK_MS + step * SHORT_LOOK_MS))
    assert len(looks) <= LONG_LOOK_MS // SHORT_LOOK_MS + 2


@pytest.mark.parametrize("later_ms", [OLDEST_LOOK_MS + 1, -3_600_000])
def test_a_look_of_another_day_and_one_before_the_clock_was_set_are_not_compared(
    later_ms: int,
) -> None:
    looks: deque[Sight] = deque()
    earlier_look(looks, sight(seen_ms=NOW_MS, told=story()))
    now = sight(seen_ms=NOW_MS + later_ms, told=story())

    assert earlier_look(looks, now) is None
    soon = sight(seen_ms=now.seen_ms + SHORT_LOOK_MS, told=story())
    assert earlier_look(looks, soon) is now


def test_commands_in_advice_are_code_and_names_are_escaped() -> None:
    assert coded("run `ottla why` on <b>") == "run <code>ottla why</code> on &lt;b&gt;"
    assert coded("a ` in a name") == "a ` in a name"
