"""The one future of a table that was sent: who does not look at it is told by `flush`."""

from threading import Thread

import pytest

from ottla.client.producer.arrow import Sent
from ottla.client.producer.delivery import Delivery, Failures, Outcome
from ottla.errors import DeliveryError, OttlaError, TransportError

GONE = TransportError("gone")


def sent(*errors: OttlaError | None) -> tuple[Sent, Failures]:
    """A table in as many batches, and what was kept of their failures."""
    made, failures = Sent(), Failures()
    for error in errors:
        made.expect()
        delivery = Delivery("orders", 0, lambda: None)
        delivery.listen(made.settled)
        delivery.settle(Outcome(0, 3, 100, -1, error))
        if error is not None:
            failures.add(delivery)
    made.complete()
    return made, failures


def test_what_failed_of_a_table_and_nobody_looked_at_is_told() -> None:
    _, failures = sent(None, GONE)
    told = failures.take()
    assert told is not None
    assert told.message == "3 records were not delivered"


def test_what_the_future_of_a_table_told_is_not_told_again() -> None:
    made, failures = sent(GONE)
    with pytest.raises(DeliveryError, match="gone"):
        made.future.result(0)
    assert failures.take() is None


def test_what_a_callback_of_the_future_is_told_is_not_told_again() -> None:
    heard: list[object] = []
    made, failures = Sent(), Failures()
    made.future.add_done_callback(lambda future: heard.append(future.exception()))
    made.expect()
    delivery = Delivery("orders", 0, lambda: None)
    delivery.listen(made.settled)
    delivery.settle(Outcome(0, 3, -1, -1, GONE))
    failures.add(delivery)
    made.complete()
    assert len(heard) == 1
    assert failures.take() is None


def test_a_caller_who_waits_goes_on_when_several_batches_are_settled() -> None:
    made = Sent()
    deliveries = [Delivery("orders", 0, lambda: None) for _ in range(10)]
    for delivery in deliveries:
        made.wait_for_room()
        made.expect()
        delivery.listen(made.settled)
    waiting = Thread(target=made.wait_for_room)
    waiting.start()
    for delivery in deliveries[:4]:
        delivery.settle(Outcome(0, 3, 100, -1, None))
    waiting.join()
    for delivery in deliveries[4:]:
        delivery.settle(Outcome(0, 3, 100, -1, None))
    made.complete()
    assert made.future.result(0) == {0: range(100, 103)}
