"""The order in which answers leave, and with whom they leave together."""

import asyncio
from typing import Any

from ottla.broker.answers import COALESCED_BYTES, Answers
from ottla.broker.flusher import AfterSync, Sync
from ottla.wire.frame import with_size
from ottla.wire.header import RequestHeader, encode_response
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse

VERSION = 0


class Written(asyncio.Transport):
    """Keeps what is written to it, write by write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))


def answer(payload: bytes) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(auth_bytes=payload)


def after(sync: Sync, payload: bytes) -> AfterSync[Any]:
    return AfterSync(answer(payload), sync, lambda response: answer(b"lost"))


def header(correlation_id: int = 0) -> RequestHeader:
    return RequestHeader(
        request_api_key=36,
        request_api_version=VERSION,
        correlation_id=correlation_id,
        client_id=None,
    )


def framed(*payloads: bytes) -> bytes:
    frames = (encode_response(answer(p), VERSION, correlation_id=0) for p in payloads)
    return b"".join(part for frame in frames for part in with_size(frame))


def written(answers: Answers) -> list[bytes]:
    transport = Written()
    answers.write_to(transport)
    return transport.writes


def test_answers_that_are_there_leave_in_one_write() -> None:
    answers = Answers()
    answers.add(header(), answer(b"first"))
    answers.add(header(), answer(b"second"))
    assert answers.count == 2
    assert answers.size_bytes > len(b"firstsecond")

    assert written(answers) == [framed(b"first", b"second")]
    assert (answers.count, answers.size_bytes) == (0, 0)
    assert written(answers) == []


def test_an_answer_names_the_request_that_it_belongs_to() -> None:
    answers = Answers()
    answers.add(header(7), answer(b"seventh"))
    frame = encode_response(answer(b"seventh"), VERSION, correlation_id=7)
    assert written(answers) == [b"".join(with_size(frame))]


def test_an_answer_waits_for_those_before_it() -> None:
    answers = Answers()
    slot = answers.reserve()
    answers.add(header(), answer(b"second"))
    assert written(answers) == []
    assert answers.count == 2

    answers.fill(slot, header(), answer(b"first"))
    assert written(answers) == [framed(b"first", b"second")]


def test_what_is_before_a_missing_answer_leaves_without_it() -> None:
    answers = Answers()
    answers.add(header(), answer(b"first"))
    slot = answers.reserve()
    assert written(answers) == [framed(b"first")]
    answers.fill(slot, header(), answer(b"second"))
    answers.add(header(), answer(b"third"))
    assert written(answers) == [framed(b"second", b"third")]


def test_answers_wait_for_their_sync_and_for_no_other() -> None:
    early, late = Sync(), Sync()
    answers = Answers()
    answers.add(header(), answer(b"before"))
    answers.add_after(header(), after(early, b"saved"))
    answers.add_after(header(), after(early, b"saved too"))
    answers.add(header(), answer(b"behind"))
    answers.add_after(header(), after(late, b"later"))
    assert answers.count == 5
    assert written(answers) == [framed(b"before")]

    answers.settle(late)
    assert written(answers) == []
    answers.settle(early)
    assert written(answers) == [framed(b"saved", b"saved too", b"behind", b"later")]
    assert answers.count == 0


def test_a_sync_that_failed_makes_other_answers() -> None:
    sync = Sync()
    answers = Answers()
    answers.add_after(header(), after(sync, b"saved"))
    answers.add(header(), answer(b"behind"))
    sync.error = OSError("the disk is gone")
    answers.settle(sync)
    assert written(answers) == [framed(b"lost", b"behind")]


def test_a_large_part_is_written_as_it_is() -> None:
    answers = Answers()
    large = bytes(COALESCED_BYTES)
    for payload in (b"small", large, b"last"):
        answers.add(header(), answer(payload))
    writes = written(answers)
    assert b"".join(writes) == framed(b"small", large, b"last")
    assert [large in write for write in writes] == [False, True, False]


def test_nothing_is_left_of_answers_that_nobody_reads() -> None:
    sync = Sync()
    answers = Answers()
    answers.add(header(), answer(b"first"))
    answers.add_after(header(), after(sync, b"second"))
    answers.reserve()
    answers.clear()
    answers.settle(sync)
    assert (answers.count, answers.size_bytes) == (0, 0)
    assert written(answers) == []
