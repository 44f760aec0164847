"""What a producer sends when, in which order, and what it does with the answers."""

import pytest

from ottla.client.producer.batch import PendingBatch
from ottla.errors import DeadlineError, ErrorCode, RequestError, TransportError
from ottla.model import TopicPartition
from ottla.records.batch import Batch
from tests.producer_samples import LOST, PRODUCER_ID, Desk, add, desk, sequences

RETRIABLE = ErrorCode.NOT_LEADER_OR_FOLLOWER
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FAR_MS = 119_999


def test_a_batch_waits_for_company_as_long_as_linger_says() -> None:
    sending = desk(linger_ms=5)
    sending.send(b"a", is_full=False)
    assert sending.ship(4) == []
    assert sending.sender.due_ms(4) == 5
    assert len(sending.ship(5)) == 1


def test_a_full_batch_leaves_at_once() -> None:
    sending = desk(linger_ms=1000)
    for _ in range(30):
        add(sending.lines, sending.line, b"x" * 64)
    assert [len(batch.records) for batch in sending.ship_all(0)] == [12, 12]


def test_a_batch_that_somebody_waits_for_leaves_at_once_unless_one_is_on_its_way() -> None:
    sending = desk(linger_ms=1000)
    (first,) = sending.send(b"a", is_full=False)
    first.is_awaited = True
    assert sending.ship_all() == [first]
    (second,) = sending.send(b"b", is_full=False)
    second.is_awaited = True
    assert sending.ship_all() == []
    sending.answer(first)
    assert sending.ship_all() == [second]


def test_everything_leaves_at_once_while_somebody_flushes() -> None:
    sending = desk(linger_ms=1000)
    batches = sending.send(b"a", is_full=False)
    sending.sender.hurry_count = 1
    assert sending.ship_all() == batches


def test_nothing_is_sent_to_a_node_that_is_not_ready() -> None:
    sending = desk()
    sending.send(b"a")
    sending.ready = False
    assert sending.ship() == []


def test_a_line_without_a_leader_asks_for_metadata_and_waits() -> None:
    sending = desk(leaders=(None,))
    sending.send(b"a")
    assert sending.ship() == []
    assert sending.sender.lacks_leader


def test_a_request_has_at_most_one_batch_of_each_partition() -> None:
    sending = desk()
    sending.send(b"a", b"b")
    (shipment,) = sending.ship()
    assert [batch.records for batch in shipment.batches] == [[(0, None, b"a", ())]]


def test_batches_are_numbered_in_the_order_of_their_records() -> None:
    sending = desk()
    batches = sending.send(b"a", b"b", b"c")
    assert sending.ship_all() == batches
    assert sequences(*batches) == [(0, 0), (0, 1), (0, 2)]
    data = batches[2].data
    assert data is not None
    sent = Batch.parse(data)
    sent.check_crc()
    assert (sent.producer_id, sent.base_sequence) == (PRODUCER_ID, 2)


def test_nothing_overtakes_the_first_batch_of_a_producer() -> None:
    """A broker that has not heard of a producer takes any number for its first."""
    sending = desk(is_established=False)
    first, second, third = sending.send(b"a", b"b", b"c")
    assert sending.ship_all() == [first]
    sending.answer(first, RETRIABLE)
    assert sending.ship_all(200) == [first]
    sending.answer(first)
    assert sending.ship_all(200) == [second, third]


def test_nothing_leaves_before_the_producer_has_an_id() -> None:
    sending = desk(is_known=False)
    sending.send(b"a")
    assert sending.ship() == []
    assert sending.sender.needs_producer_id
    sending.sender.identified(PRODUCER_ID, 0)
    assert len(sending.ship_all()) == 1


def test_a_delivered_batch_frees_its_memory() -> None:
    sending = desk()
    (batch,) = sending.send(b"a")
    sending.ship_all()
    (settled,) = sending.answer(batch)
    assert (settled.base_offset, settled.record_count, settled.error) == (10, 1, None)
    assert sending.lines.used_bytes == 0
    assert not sending.lines.incomplete
    assert not sending.lines.busy


def test_what_is_sent_again_keeps_its_number_and_its_place() -> None:
    sending = desk()
    first, second, third = sending.send(b"a", b"b", b"c")
    sending.ship_all()
    for batch in (second, third, first):
        assert sending.lose(batch) == []
    assert sending.ship_all(now_ms=50) == []  # it waits a little
    assert sending.ship_all(now_ms=200) == [first]
    sending.answer(first)
    assert sending.ship_all(now_ms=200) == [second]
    sending.answer(second)
    assert sending.ship_all(now_ms=200) == [third]
    assert sequences(first, second, third) == [(0, 0), (0, 1), (0, 2)]


def test_what_follows_a_batch_that_is_sent_again_waits_behind_it() -> None:
    sending = desk()
    first, second = sending.send(b"a", b"b")
    sending.ship()
    sending.answer(first, RETRIABLE)
    assert sending.ship_all(now_ms=1) == []
    assert sending.ship_all(now_ms=200) == [first, second]


def test_a_follower_that_came_too_early_is_sent_again_under_its_own_number() -> None:
    sending = desk()
    first, second = sending.send(b"a", b"b")
    sending.ship_all()
    sending.answer(first, RETRIABLE)
    assert sending.answer(second, OUT_OF_ORDER) == []
    sending.ship_all(now_ms=200)
    sending.answer(first, now_ms=200)
    assert sending.ship_all(now_ms=400) == [second]
    assert sequences(first, second) == [(0, 0), (0, 1)]


def test_after_a_refused_batch_numbers_begin_anew_under_the_next_epoch() -> None:
    sending = desk()
    first, second, third = sending.send(b"a", b"b", b"c")
    sending.ship()
    sending.ship()
    (settled,) = sending.answer(first, ErrorCode.INVALID_RECORD)
    assert isinstance(settled.error, RequestError)
    assert sending.ship_all() == []  # `second` is on its way, under the old numbers
    assert sending.answer(second, OUT_OF_ORDER) == []
    sending.ship_all(now_ms=200)
    assert sequences(second, third) == [(1, 0), (1, 1)]


def test_what_is_in_doubt_is_never_sent_under_another_number() -> None:
    sending = desk(delivery_timeout_ms=120_000)
    first = sending.send(b"a")[0]
    sending.ship_all()
    second = sending.send(b"b", now_ms=60_000)[0]
    sending.ship_all(60_000)
    sending.lose(second, 60_000)
    (expired,) = sending.sender.expire(120_000)
    assert expired.batch is first
    sending.lose(first, 120_000)
    assert sending.ship_all(120_000) == [second]
    assert sequences(second) == [(0, 1)]
    # Only when the broker says that it does not have it, it gets another number.
    assert sending.answer(second, OUT_OF_ORDER, 120_000) == []
    assert sending.ship_all(121_000) == [second]
    assert sequences(second) == [(1, 0)]


def in_doubt_at_a_broker_that_restarted() -> tuple[Desk, list[PendingBatch]]:
    """Three batches are in doubt; the broker finds the first out of order."""
    sending = desk()
    batches = sending.send(b"a", b"b", b"c")
    sending.ship_all()
    for batch in batches:
        sending.lose(batch)
    assert sending.ship_all(200) == batches[:1]
    assert sending.answer(batches[0], OUT_OF_ORDER, 200) == []
    assert sending.ship_all(200) == batches[1:2]
    assert sequences(*batches) == [(0, 0), (0, 1), (0, 2)]
    return sending, batches


def test_a_broker_that_has_a_later_batch_has_what_it_forgot() -> None:
    sending, (first, second, third) = in_doubt_at_a_broker_that_restarted()
    told = sending.answer(second, now_ms=200)
    assert [(s.batch, s.base_offset, s.error) for s in told] == [
        (first, -1, None),
        (second, 10, None),
    ]
    assert sending.ship_all(200) == [third]
    assert sequences(third) == [(0, 2)]


def test_a_broker_that_has_none_of_them_gets_all_of_them_in_order() -> None:
    sending, batches = in_doubt_at_a_broker_that_restarted()
    assert sending.answer(batches[1], OUT_OF_ORDER, 200) == []
    assert sending.ship_all(400) == batches[2:]
    assert sending.answer(batches[2], OUT_OF_ORDER, 400) == []
    assert sending.ship_all(1000) == batches
    assert sequences(*batches) == [(1, 0), (1, 1), (1, 2)]


def test_what_a_broker_may_have_forgotten_expires_too() -> None:
    sending, batches = in_doubt_at_a_broker_that_restarted()
    assert [settled.batch for settled in sending.sender.expire(120_000)] == batches
    assert not sending.lines.incomplete
    assert sending.line.suspects == []


def test_a_broker_that_forgot_the_producer_is_served_under_the_next_epoch() -> None:
    sending = desk()
    (batch,) = sending.send(b"a")
    sending.ship_all()
    assert sending.answer(batch, ErrorCode.UNKNOWN_PRODUCER_ID) == []
    assert sending.ship_all(200) == [batch]
    assert sequences(batch) == [(1, 0)]


def test_a_duplicate_was_delivered() -> None:
    sending = desk()
    (batch,) = sending.send(b"a")
    sending.ship_all()
    (settled,) = sending.answer(batch, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert (settled.error, settled.base_offset) == (None, -1)


def test_a_producer_that_used_up_its_epochs_asks_for_another_id() -> None:
    sending = desk()
    sending.line.number_anew(PRODUCER_ID, 2**15 - 1)
    (batch,) = sending.send(b"a")
    sending.ship_all()
    sending.answer(batch, OUT_OF_ORDER)
    assert sending.ship_all(200) == []
    assert sending.sender.needs_producer_id
    sending.sender.identified(78, 0)
    assert sending.ship_all(200) == [batch]
    assert batch.stamp is not None
    assert batch.stamp[:3] == (78, 0, 0)


def test_a_batch_that_is_too_large_is_sent_in_halves_in_order() -> None:
    sending = desk()
    for value in (b"a", b"b", b"c"):
        batch = add(sending.lines, sending.line, value)
    sending.line.open = None
    (behind,) = sending.send(b"d")
    sending.ship_all()
    used_bytes = sending.lines.used_bytes
    assert sending.answer(batch, ErrorCode.MESSAGE_TOO_LARGE) == []
    assert sending.answer(behind, OUT_OF_ORDER) == []
    assert sending.lines.used_bytes == used_bytes
    assert sending.line.limit_bytes == 1000
    left = sending.ship_all(200)
    assert [[r[2] for r in b.records] for b in left] == [[b"a"], [b"b", b"c"], [b"d"]]
    assert sequences(*left) == [(0, 0), (0, 1), (0, 3)]
    for part in left:
        for batch_of, count, offset, time_ms, error in sending.answer(part):
            assert (offset, time_ms, error) == (10, -1, None)
            assert count == part.record_count
            assert batch_of is part
    assert sending.lines.used_bytes == 0


def test_one_record_that_is_too_large_fails() -> None:
    sending = desk()
    (batch,) = sending.send(b"a")
    sending.ship_all()
    (settled,) = sending.answer(batch, ErrorCode.MESSAGE_TOO_LARGE)
    assert isinstance(settled.error, RequestError)


def test_what_waits_longer_than_the_delivery_timeout_fails() -> None:
    sending = desk(leaders=(None,))
    sending.send(b"a")
    assert sending.sender.expire(FAR_MS) == []
    assert sending.sender.due_ms(FAR_MS) == 120_000
    (settled,) = sending.sender.expire(120_000)
    assert isinstance(settled.error, DeadlineError)
    assert sending.lines.used_bytes == 0


def test_an_answer_to_what_was_given_up_changes_nothing() -> None:
    sending = desk()
    (batch,) = sending.send(b"a")
    sending.ship_all()
    sending.sender.expire(120_000)
    assert sending.answer(batch) == []
    assert sending.lines.used_bytes == 0


def test_a_batch_is_sent_again_as_often_as_retries_says() -> None:
    sending = desk(retries=1, enable_idempotence=False)
    (batch,) = sending.send(b"a")
    sending.ship_all()
    assert sending.lose(batch) == []
    assert sending.ship_all(200) == [batch]
    (settled,) = sending.lose(batch, 200)
    assert settled.error is LOST


def test_an_error_that_time_does_not_mend_fails_at_once() -> None:
    sending = desk()
    (batch,) = sending.send(b"a")
    sending.ship_all()
    (settled,) = sending.answer(batch, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert settled.error is not None
    assert not settled.error.retriable


def test_with_one_request_in_flight_a_line_waits_for_its_answer() -> None:
    sending = desk(enable_idempotence=False, max_in_flight_requests_per_connection=1)
    first, second = sending.send(b"a", b"b")
    assert sending.ship_all() == [first]
    sending.answer(first)
    assert sending.ship_all() == [second]


def test_after_a_fatal_error_everything_fails() -> None:
    sending = desk()
    first, second = sending.send(b"a", b"b")
    failure = TransportError("over")
    assert [settled.batch for settled in sending.sender.break_off(failure)] == [first, second]
    assert sending.sender.failure is failure
    assert not sending.lines.incomplete


@pytest.mark.parametrize("code", [RETRIABLE, ErrorCode.REQUEST_TIMED_OUT])
def test_errors_that_time_mends_are_retried_with_growing_pauses(code: ErrorCode) -> None:
    sending = desk()
    (batch,) = sending.send(b"a")
    pauses = []
    now_ms = 0.0
    for _ in range(3):
        sending.ship_all(now_ms)
        sending.answer(batch, code, now_ms)
        pauses.append(batch.not_before_ms - now_ms)
        now_ms = batch.not_before_ms
    assert pauses == [100, 200, 400]


def test_lines_are_served_in_turn() -> None:
    sending = desk(leaders=(1, 1), max_request_size=150, enable_idempotence=False)
    lines = [sending.lines.line(TopicPartition("orders", p)) for p in (0, 1)]
    for line in lines:
        for _ in range(2):
            sending.lines.begin(line, [(0, None, b"x", ())], 64, 0)
            line.open = None
    served = [shipment.batches[0].line.partition for _ in range(4) for shipment in sending.ship()]
    assert served == [0, 1, 0, 1]
