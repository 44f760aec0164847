"""Ctrl-C at every moment of a call: it ends the call, and nothing else is heard of it.

A signal strikes between any two lines of ours.  So a trace function sends one at the first line
of ours that a call runs in the caller's thread, at the second, and so on, until a call comes to its
end before.  Mostly, though, it strikes while the call waits.
"""

import gc
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

import pyarrow as pa
import pytest

import ottla
from ottla.broker.embedded import Broker
from ottla.testing import Fault, TestBroker

OURS = re.compile(r"ottla(\..*)?|asyncio|py\.warnings")
"""Loggers; the threads of other libraries may outlive their tests, and complain."""

PATIENCE_S = 60.0
MOST_LINES = 300
"""More than a call has: one that never comes to its end fails the test."""
EACH = 10
"""How many records a partition has."""


AFTER = "c_return"
"""When a function that is not written in Python has returned."""
AT_ONCE = 7
"""How many records are taken with one call."""

Place = tuple[ottla.TopicPartition, int]
Deserializer = Callable[[bytes | None], bytes | None]
Reads = Callable[["ottla.Consumer[Any, Any]", "InterruptAt"], list[Place]]


class InterruptAt:
    """Sends SIGINT to this process when the n-th line has been reached, or the n-th call.

    Where locks are taken, calls are the places to try: the interpreter looks for signals there, and
    not between the last line of a `with` block and its end.  It looks, too, when a function that is
    not written in Python returns (`c_return`), and what that returned is gone then.

    Meanwhile no garbage is collected: an interrupt in a `__del__` is one that nobody hears of.
    """

    def __init__(self, number: int, event: str = "line") -> None:
        self._left = number
        self._event = event
        self._place = "nowhere"

    def __enter__(self) -> Self:
        gc.disable()
        if self._event == AFTER:
            sys.setprofile(self._trace)
        else:
            sys.settrace(self._trace)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.setprofile(None)
        sys.settrace(None)
        gc.enable()

    def __str__(self) -> str:
        return self._place

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is InterruptAt.__exit__.__code__:
            return None
        if event == self._event and frame.f_globals.get("__name__", "").startswith("ottla."):
            self._left -= 1
            if self._left == 0:
                self._place = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
                sys.setprofile(None)
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return self._trace


def by_poll(consumer: "ottla.Consumer[Any, Any]", interrupt: InterruptAt) -> list[Place]:
    with interrupt:
        batch = consumer.poll(PATIENCE_S)
    return [(record.tp, record.offset) for record in batch]


def by_poll_arrow(consumer: "ottla.Consumer[Any, Any]", interrupt: InterruptAt) -> list[Place]:
    with interrupt:
        rows = consumer.poll_arrow(PATIENCE_S, max_records=AT_ONCE)
    assert rows is not None
    return [
        (ottla.TopicPartition(row["topic"], row["partition"]), row["offset"])
        for row in rows.to_pylist()
    ]


def by_loop(consumer: "ottla.Consumer[Any, Any]", interrupt: InterruptAt) -> list[Place]:
    with interrupt:
        record = next(consumer)
    return [(record.tp, record.offset)]


def test_an_interrupt_at_any_line_of_a_call_ends_it_and_leaves_nothing_behind(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()  # what tests before this one have left, so that it is not heard of here
    with ottla.Admin(broker.bootstrap_servers) as admin:
        for line_number in range(1, MOST_LINES):
            interrupt = InterruptAt(line_number)
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                was_interrupted = is_interrupted(admin, interrupt)
            heard = [str(warning.message) for warning in warned]
            heard += [told.getMessage() for told in caplog.records if OURS.fullmatch(told.name)]
            assert heard == [], f"interrupted at {interrupt}"
            admin.list_topics()  # it is as good as before
            if not was_interrupted:
                assert line_number > 10, f"a call has more than {line_number} lines"
                return
    pytest.fail("the call never came to its end")


def is_interrupted(admin: ottla.Admin, interrupt: InterruptAt) -> bool:
    """Whether a call was interrupted before it was over."""
    try:
        with interrupt:
            admin.list_topics()
    except KeyboardInterrupt:
        return True
    return False


def test_an_interrupt_at_any_call_of_a_send_leaves_a_producer_that_sends(
    broker: Broker, topic: str
) -> None:
    with ottla.Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"first").result(PATIENCE_S)
        for number in range(1, MOST_LINES):
            try:
                with InterruptAt(number, "call"):
                    producer.send(topic, b"interrupted").result(PATIENCE_S)
            except KeyboardInterrupt:
                producer.send(topic, b"after it").result(PATIENCE_S)
            else:
                assert number > 10, f"more than {number} functions are called"
                return
    pytest.fail("the call never came to its end")


def test_an_interrupt_at_any_call_of_a_send_leaves_no_batch_that_nobody_sends(
    broker: Broker, topic: str
) -> None:
    with ottla.Producer(broker.bootstrap_servers, linger_ms=1) as producer:
        producer.send(topic, b"first").result(PATIENCE_S)
        for number in range(1, MOST_LINES):
            interrupt = InterruptAt(number, "call")
            try:
                with interrupt:
                    producer.send(topic, b"interrupted")
            except KeyboardInterrupt:
                wait_until_sent(producer, interrupt)
            else:
                assert number > 10, f"more than {number} functions are called"
                return
    pytest.fail("the call never came to its end")


def test_an_interrupt_at_any_call_of_a_large_table_leaves_a_producer_that_sends(
    broker: Broker, topic: str
) -> None:
    table = pa.table({"value": [b"x" * 1000] * 100})
    with ottla.Producer(broker.bootstrap_servers, max_request_size=20_000) as producer:
        producer.send_arrow(topic, table).result(PATIENCE_S)
        for call_number in range(1, MOST_LINES):
            interrupt = InterruptAt(call_number, "call")
            try:
                with interrupt:
                    producer.send_arrow(topic, table)
            except KeyboardInterrupt:
                producer.send(topic, b"after it").result(PATIENCE_S)
                wait_until_sent(producer, interrupt)
            else:
                assert call_number > 20, f"a call makes more than {call_number} calls"
                return
    pytest.fail("the call never came to its end")


def wait_until_sent(producer: "ottla.Producer[Any, Any]", interrupt: InterruptAt) -> None:
    """Wait until nothing is on its way, without a call that would hasten it."""
    deadline_s = time.monotonic() + PATIENCE_S
    while producer.metrics()["batches-incomplete"]:
        assert time.monotonic() < deadline_s, f"interrupted at {interrupt}"
        time.sleep(0.001)


def test_an_interrupt_at_any_line_of_a_transactions_beginning_leaves_none_open(
    broker: Broker, topic: str
) -> None:
    with ottla.Producer(broker.bootstrap_servers, transactional_id=topic) as producer:
        for number in range(1, MOST_LINES):
            try:
                with InterruptAt(number):
                    transaction = producer.transaction()
                    transaction.__enter__()
            except KeyboardInterrupt:
                with producer.transaction() as after:
                    after.send(topic, b"after it")
            else:
                transaction.__exit__(None, None, None)
                assert number > 10, f"it has more than {number} lines"
                return
    pytest.fail("the call never came to its end")


def as_it_is(value: bytes | None) -> bytes | None:
    return value


@pytest.mark.parametrize("event", ["call", AFTER])
@pytest.mark.parametrize(
    ("reads", "deserializer"),
    [(by_poll, None), (by_poll_arrow, None), (by_loop, None), (by_loop, as_it_is)],
)
def test_an_interrupt_at_any_call_of_a_poll_loses_no_record(
    broker: Broker, topic: str, reads: Reads, deserializer: Deserializer | None, event: str
) -> None:
    places = [ottla.TopicPartition(topic, number) for number in range(2)]
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(topic, partitions=len(places))
    with ottla.Producer(broker.bootstrap_servers) as producer:
        for number in range(EACH * len(places)):
            producer.send(topic, b"x", partition=number % len(places))
    servers = broker.bootstrap_servers
    with (
        warnings.catch_warnings(),
        ottla.Consumer(
            bootstrap_servers=servers,
            fetch_max_wait_ms=1,
            max_poll_records=AT_ONCE,
            value_deserializer=deserializer,
        ) as consumer,
    ):
        warnings.simplefilter("ignore")  # those of coroutines that could not begin
        for number in range(MOST_LINES):  # the first is never interrupted: modules are imported
            consumer.assign(dict.fromkeys(places, 0))
            interrupt = InterruptAt(number, event)
            seen = read_all(consumer, reads, interrupt, EACH * len(places))
            for tp in places:
                came = [offset for key, offset in seen if key == tp]
                assert came == list(range(EACH)), f"{tp}, interrupted at {interrupt}"
            if number and str(interrupt) == "nowhere":
                assert number > 10, f"more than {number} functions are called"
                return
    pytest.fail("the call never came to its end")


def read_all(
    consumer: "ottla.Consumer[Any, Any]", reads: Reads, interrupt: InterruptAt, count: int
) -> list[Place]:
    """What comes of so many records, with the second call interrupted; in its order."""
    seen = [(record.tp, record.offset) for record in consumer.poll(PATIENCE_S, max_records=1)]
    with suppress(KeyboardInterrupt):
        seen += reads(consumer, interrupt)
    while len(seen) < count and (more := consumer.poll(PATIENCE_S)):
        seen += [(record.tp, record.offset) for record in more]
    return seen


def test_an_interrupt_ends_the_wait_for_a_broker_that_does_not_answer() -> None:
    with TestBroker() as broker, ottla.Admin(broker.bootstrap_servers) as admin:
        main_thread = threading.main_thread().ident
        assert main_thread is not None
        with broker.faults.stall("Metadata") as stalled:
            interrupter = threading.Thread(target=interrupt_when, args=(stalled, main_thread))
            interrupter.start()
            with pytest.raises(KeyboardInterrupt):
                admin.list_topics()
            interrupter.join()
        assert admin.list_topics() == []


def interrupt_when(fault: Fault, thread_id: int) -> None:
    """Send SIGINT to a thread once somebody has met the fault."""
    while not fault.hit_count:
        time.sleep(0.001)
    signal.pthread_kill(thread_id, signal.SIGINT)
