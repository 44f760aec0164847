"""Futures, callbacks, and failures that nobody looked at."""

import asyncio
import gc
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, as_completed, wait
from contextvars import Context
from typing import Any

import pytest

from ottla.client.producer.delivery import Delivery, DeliveryFuture, Failures, Outcome
from ottla.client.results import RecordMetadata
from ottla.errors import DeliveryError, OttlaError, TransportError

GONE = TransportError("gone")
SOON_S = 60.0


def delivery(hastened: list[str] | None = None) -> Delivery:
    return Delivery("orders", 3, lambda: (hastened or []).append("now"))


def delivered(made: Delivery, *, count: int = 2, error: OttlaError | None = None) -> None:
    made.settle(Outcome(0, count, 100, -1, error))


def test_a_future_tells_where_its_record_was_written() -> None:
    made = delivery()
    future = DeliveryFuture(made, 1, 5_000)
    assert not future.done()
    delivered(made)
    assert future.result(0) == RecordMetadata("orders", 3, 101, 5_000)


def test_a_future_that_is_asked_late_knows_at_once() -> None:
    made = delivery()
    future = DeliveryFuture(made, 0, 5_000)
    delivered(made)
    assert future.done()
    assert future.result(0).offset == 100


def test_the_time_of_the_broker_counts_where_it_gives_one() -> None:
    made = delivery()
    made.settle(Outcome(0, 1, 100, 9_999, None))
    assert DeliveryFuture(made, 0, 5_000).result(0).timestamp_ms == 9_999


def test_without_an_offset_there_is_none() -> None:
    made = delivery()
    made.settle(Outcome(0, 2, -1, -1, None))
    assert DeliveryFuture(made, 1, 0).result(0).offset == -1


def test_a_future_is_one_that_the_standard_library_can_wait_for() -> None:
    made = delivery()
    futures = [DeliveryFuture(made, n, 0) for n in range(2)]
    telling = threading.Thread(target=delivered, args=(made,))
    telling.start()
    assert wait(futures, timeout=SOON_S).not_done == set()
    assert {f.result().offset for f in as_completed(futures, timeout=SOON_S)} == {100, 101}
    telling.join()


def test_who_waits_for_a_future_hastens_it() -> None:
    hastened: list[str] = []
    made = Delivery("orders", 3, lambda: hastened.append("now"))
    future = DeliveryFuture(made, 0, 0)
    with pytest.raises(TimeoutError):
        future.result(0)
    assert hastened == ["now"]


def test_a_future_that_failed_raises_what_happened() -> None:
    made = delivery()
    future = DeliveryFuture(made, 0, 0)
    delivered(made, error=GONE)
    with pytest.raises(DeliveryError, match="orders-3: gone") as caught:
        future.result(0)
    assert caught.value.cause is GONE
    assert caught.value.retriable


def test_a_record_that_was_sent_cannot_be_taken_back() -> None:
    made = delivery()
    future = DeliveryFuture(made, 0, 0)
    assert not future.cancel()
    delivered(made)
    assert future.result(0).offset == 100


def test_callbacks_are_called_in_order_and_their_errors_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = delivery()
    called: list[int] = []

    def note(metadata: RecordMetadata | None, error: DeliveryError | None) -> None:
        assert metadata is not None
        called.append(metadata.offset)
        raise ValueError("oops")

    made.call_back(0, 0, note)
    made.call_back(1, 0, note)
    with caplog.at_level(logging.ERROR):
        delivered(made)
    assert called == [100, 101]
    assert caplog.text.count("a delivery callback failed: orders-3") == 2


def test_a_callback_that_comes_late_is_called_at_once() -> None:
    made = delivery()
    delivered(made)
    called: list[RecordMetadata | None] = []
    made.call_back(1, 7, lambda metadata, error: called.append(metadata))
    assert called == [RecordMetadata("orders", 3, 101, 7)]


def test_halves_of_a_batch_are_told_together_each_with_its_own_offset() -> None:
    made = delivery()
    futures = [DeliveryFuture(made, n, 0) for n in range(4)]
    assert not futures[0].done()
    made.split()
    made.settle(Outcome(2, 2, 500, -1, None))
    assert not futures[3].done()
    made.settle(Outcome(0, 2, 100, -1, None))
    assert [f.result(0).offset for f in futures] == [100, 101, 500, 501]


def failures_of(made: Delivery) -> Failures:
    failures = Failures()
    failures.add(made)
    return failures


def test_failures_that_nobody_looked_at_are_told_once() -> None:
    made = delivery()
    delivered(made, count=3, error=GONE)
    failures = failures_of(made)
    told = failures.take()
    assert told is not None
    assert str(told.exceptions[0]) == "orders-3: gone"
    assert told.message == "3 records were not delivered"
    assert failures.take() is None


def test_a_failure_that_its_future_told_is_not_told_again() -> None:
    made = delivery()
    future = DeliveryFuture(made, 0, 0)
    delivered(made, count=1, error=GONE)
    assert isinstance(future.exception(0), DeliveryError)
    assert failures_of(made).take() is None


def test_a_future_that_only_said_that_it_is_done_did_not_tell_of_a_failure() -> None:
    made = delivery()
    future = DeliveryFuture(made, 0, 0)
    delivered(made, count=1, error=GONE)
    assert future.done()
    assert failures_of(made).take() is not None


def test_a_failure_that_a_callback_was_given_is_not_told_again() -> None:
    made = delivery()
    errors: list[object] = []
    made.call_back(0, 0, lambda metadata, error: errors.append(error))
    DeliveryFuture(made, 1, 0).add_done_callback(lambda f: errors.append(f.exception()))
    delivered(made, error=GONE)
    assert len(errors) == 2
    assert failures_of(made).take() is None


def test_who_only_watches_does_not_look_at_a_failure() -> None:
    made = delivery()
    watched: list[object] = []
    made.follow(0, 0, lambda metadata, error: watched.append(error))
    delivered(made, count=1, error=GONE)
    assert len(watched) == 1
    assert failures_of(made).take() is not None


def test_failures_of_a_program_that_never_asks_are_counted_and_not_kept() -> None:
    failures = Failures()
    for _ in range(1_500):
        made = delivery()
        delivered(made, error=GONE)
        failures.add(made)
    told = failures.take()
    assert told is not None
    assert told.message == "3000 records were not delivered"
    assert len(told.exceptions) == 1_000


def test_futures_of_an_event_loop_are_told_there() -> None:
    made = delivery()

    async def main() -> list[RecordMetadata]:
        futures = [made.awaitable(n, 0) for n in range(2)]
        telling = asyncio.to_thread(delivered, made)
        await telling
        return list(await asyncio.gather(*futures))

    assert [m.offset for m in asyncio.run(main())] == [100, 101]


def test_a_failure_that_was_awaited_is_not_told_again_and_others_are() -> None:
    made = delivery()

    async def main() -> object:
        awaited, forgotten = made.awaitable(0, 0), made.awaitable(1, 0)
        await asyncio.to_thread(delivered, made, error=GONE)
        with pytest.raises(DeliveryError):
            await awaited
        assert forgotten.done()
        return failures_of(made).take()

    told = asyncio.run(main())
    assert isinstance(told, ExceptionGroup)
    assert told.message == "1 record was not delivered"


def test_a_future_can_be_awaited_through_the_standard_library() -> None:
    made = delivery()

    async def main() -> RecordMetadata:
        future: Future[RecordMetadata] = DeliveryFuture(made, 0, 0)
        wrapped = asyncio.wrap_future(future)
        await asyncio.to_thread(delivered, made)
        return await wrapped

    assert asyncio.run(main()).offset == 100


def test_what_a_transaction_told_is_not_complained_about_by_the_event_loop() -> None:
    complaints: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about))
        made = delivery()
        made.awaitable(0, 1)
        delivered(made, count=1, error=GONE)
        assert len(made.unseen()) == 1
        await asyncio.sleep(0)

    asyncio.run(main())
    gc.collect()
    assert complaints == []


def test_failures_that_were_only_counted_are_told_though_all_others_were_seen() -> None:
    failures = Failures()
    for number in range(1001):
        made = delivery()
        delivered(made, count=1, error=GONE)
        if number:
            made.see(0)
        failures.add(made)
    told = failures.take()
    assert told is not None
    assert told.message == "1 record was not delivered"
    assert [error.__cause__ for error in told.exceptions] == [GONE]
    assert failures.take() is None


def test_a_thread_that_waits_wakes_with_the_outcome() -> None:
    hastened: list[str] = []
    made = Delivery("orders", 3, lambda: hastened.append("now"))
    found: list[RecordMetadata] = []
    thread = threading.Thread(
        target=lambda: found.append(DeliveryFuture(made, 1, 7).result(SOON_S))
    )
    thread.start()
    while not made._sleepers:
        assert thread.is_alive()
    delivered(made)
    thread.join(SOON_S)
    assert found == [RecordMetadata("orders", 3, 101, 7)]
    assert hastened == ["now"]


def test_who_waits_too_briefly_is_told_so_and_may_ask_again() -> None:
    made = delivery()
    future = DeliveryFuture(made, 0, 0)
    with pytest.raises(TimeoutError):
        future.result(0)
    delivered(made)
    assert future.result(0).offset == 100


def test_a_failure_whose_asyncio_future_was_dropped_is_told_by_failures() -> None:
    made, failures = delivery(), Failures()

    async def story() -> None:
        kept = made.awaitable(0, 0)
        made.awaitable(1, 0)  # nobody looks at this one
        made.settle(Outcome(0, 2, -1, -1, GONE))
        failures.add(made)
        with pytest.raises(DeliveryError):
            await kept

    asyncio.run(story())
    told = failures.take()
    assert told is not None
    assert "1 record was not delivered" in str(told)


def test_an_asyncio_future_that_is_held_by_its_callback_alone_is_told() -> None:
    made, told = delivery(), []

    async def story() -> None:
        made.awaitable(0, 0).add_done_callback(lambda done: told.append(done.result().offset))
        delivered(made)
        for _ in range(3):  # it is told in one turn of the loop, and calls back in the next
            await asyncio.sleep(0)

    asyncio.run(story())
    assert told == [100]


def test_nobody_is_woken_for_asyncio_futures_that_were_dropped() -> None:
    made, woken = delivery(), list[object]()

    class Loop(asyncio.SelectorEventLoop):
        def call_soon_threadsafe(  # type: ignore[override]
            self, callback: Callable[..., object], *args: Any, context: Context | None = None
        ) -> asyncio.Handle:
            woken.append(callback)
            return super().call_soon_threadsafe(callback, *args, context=context)

        def add_reader(self, *args: Any) -> None:  # type: ignore[override]
            raise NotImplementedError("so that nobody is woken in another way")

    async def story() -> None:
        made.awaitable(0, 0)
        made.awaitable(1, 0)
        delivered(made)

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(story())
        assert woken == []


def test_a_failure_that_was_known_before_anybody_awaited_it_is_looked_at_all_the_same() -> None:
    made, failures = delivery(), Failures()
    delivered(made, error=GONE)
    failures.add(made)

    async def look_at_one_of_two() -> None:
        with pytest.raises(DeliveryError):
            await made.awaitable(0, 0)
        made.awaitable(1, 0)  # nobody looks at this one

    asyncio.run(look_at_one_of_two())
    told = failures.take()
    assert told is not None
    assert "1 record was not delivered" in str(told)
