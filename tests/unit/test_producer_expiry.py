"""What a producer gives up, what it says of it, and when it looks next."""

from ottla.errors import ErrorCode
from tests.producer_samples import desk

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
TIMEOUT_MS = 120_000


def test_an_answer_that_nobody_waits_for_any_more_is_nothing_to_look_for() -> None:
    sending = desk()
    sending.send(b"a")
    sending.ship_all()
    sending.sender.expire(TIMEOUT_MS)
    assert sending.sender.due_ms(TIMEOUT_MS) == float("inf")


def test_what_was_sent_once_and_expired_is_not_called_unsent() -> None:
    sending = desk(leaders=(1, None))
    sending.send(b"a")
    sending.ship_all()
    sending.send(b"b")
    said = [str(settled.error) for settled in sending.sender.expire(TIMEOUT_MS)]
    assert [text.partition("(")[2] for text in said] == ["sent, without an answer)", "not sent)"]


def test_what_a_broker_may_have_forgotten_is_looked_for_when_it_expires() -> None:
    sending = desk()
    first, second = sending.send(b"a", b"b")
    sending.ship_all()
    sending.lose(first)
    sending.lose(second)
    assert sending.ship_all(200) == [first]
    assert sending.answer(first, OUT_OF_ORDER, 200) == []
    assert sending.line.suspects == [first]
    assert sending.ship_all(400) == [second]
    sending.answer(second, ErrorCode.TOPIC_AUTHORIZATION_FAILED, 400)
    assert sending.sender.due_ms(400) == TIMEOUT_MS
