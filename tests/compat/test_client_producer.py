"""Our producer against a real broker that loses replies, restarts, stalls and refuses."""

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import ottla
from ottla.errors import ErrorCode, OttlaError
from ottla.testing import TestBroker
from tests.compat.client_producers import SOON_S, faulty, served, values
from tests.kafka_cluster import until

__all__ = ["faulty", "served"]  # fixtures

ROOT = Path(__file__).parents[2]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def test_a_record_arrives_with_all_its_parts(served: TestBroker, topic: str) -> None:
    moment = datetime(2026, 7, 1, tzinfo=UTC)
    with ottla.Producer(served.bootstrap_servers) as producer:
        sent = producer.send(
            topic, b"espresso", key=b"7", headers={"trace": "4bf9"}, timestamp=moment
        )
        written = sent.result(SOON_S)
    (record,) = served.records(topic)
    assert (record.key, record.value) == (b"7", b"espresso")
    assert list(record.headers) == [("trace", b"4bf9")]
    assert record.timestamp_ms == written.timestamp_ms == round(moment.timestamp() * 1000)
    assert written[:3] == (topic, record.partition, record.offset)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_arrives(served: TestBroker, topic: str, codec: Any) -> None:
    with ottla.Producer(served.bootstrap_servers, compression_type=codec) as producer:
        producer.send_many(topic, numbered(500))
    assert values(served, topic) == numbered(500)


def test_the_end_of_the_block_delivers_everything(served: TestBroker, topic: str) -> None:
    with ottla.Producer(served.bootstrap_servers, linger_ms=60_000, batch_size=1000) as producer:
        for value in numbered(300):
            producer.send(topic, value)
    assert values(served, topic) == numbered(300)


def test_a_reply_that_was_lost_writes_nothing_twice(served: TestBroker, topic: str) -> None:
    served.create_topic(topic)
    lost = served.faults.drop_reply("Produce", times=3)
    with ottla.Producer(served.bootstrap_servers, batch_size=500, linger_ms=0) as producer:
        for value in numbered(400):
            producer.send(topic, value)
    assert lost.hit_count == 3
    assert values(served, topic) == numbered(400)


def test_without_idempotence_a_lost_reply_writes_twice(served: TestBroker, topic: str) -> None:
    """What the test before this one would see if nothing were numbered."""
    served.faults.drop_reply("Produce")
    with ottla.Producer(served.bootstrap_servers, enable_idempotence=False) as producer:
        producer.send(topic, b"once")
    assert values(served, topic) == [b"once", b"once"]


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_a_refusal_that_time_mends_is_not_noticed(
    served: TestBroker, topic: str, code: ErrorCode
) -> None:
    served.faults.fail("Produce", code, times=2)
    with ottla.Producer(served.bootstrap_servers, batch_size=500) as producer:
        producer.send_many(topic, numbered(200))
    assert values(served, topic) == numbered(200)


def test_a_broker_that_comes_back_gets_everything_once_and_in_order(
    served: TestBroker, topic: str
) -> None:
    served.create_topic(topic)
    crash = served.faults.crash_before("Produce")
    with ottla.Producer(served.bootstrap_servers, batch_size=500, linger_ms=0) as producer:
        for value in numbered(100):
            producer.send(topic, value)
        while crash.hit_count == 0:
            producer.send(topic, b"more")
        served.restart()
        producer.flush(SOON_S)
        for value in numbered(100):
            producer.send(topic, value)
    found = values(served, topic)
    assert found[:100] == numbered(100)
    assert found[-100:] == numbered(100)
    assert set(found[100:-100]) <= {b"more"}


def test_a_broker_that_hangs_is_given_up_and_asked_again(served: TestBroker, topic: str) -> None:
    served.create_topic(topic)
    stalled = served.faults.stall("Produce", times=1)
    with ottla.Producer(served.bootstrap_servers, request_timeout_ms=1_000) as producer:
        producer.send(topic, b"patient")
    assert stalled.hit_count == 1
    assert values(served, topic) == [b"patient"]


def test_a_full_buffer_blocks_for_as_long_as_allowed(served: TestBroker, topic: str) -> None:
    served.create_topic(topic)
    options: Any = {"buffer_memory": 2000, "batch_size": 500, "max_block_ms": 100}
    with ottla.Producer(served.bootstrap_servers, **options) as producer:
        producer.partitions_for(topic, SOON_S)  # or it might be that which takes too long
        with (
            served.faults.stall("Produce"),
            pytest.raises(ottla.DeadlineError, match=r"buffer\.memory = 2000 was full"),
        ):
            producer.send_many(topic, [b"x" * 100] * 100)


def test_a_full_buffer_blocks_until_there_is_room(served: TestBroker, topic: str) -> None:
    with ottla.Producer(served.bootstrap_servers, buffer_memory=3000, batch_size=500) as producer:
        for value in numbered(1000):
            producer.send(topic, value)
    assert sorted(values(served, topic), key=lambda v: int(v or b"")) == numbered(1000)


def test_a_record_that_was_not_delivered_in_time_is_told_by_flush(
    served: TestBroker, topic: str
) -> None:
    served.create_topic(topic)
    options: Any = {"delivery_timeout_ms": 200, "request_timeout_ms": 100, "linger_ms": 0}
    with ottla.Producer(served.bootstrap_servers, **options) as producer:
        with served.faults.stall("Produce"):
            producer.send(topic, b"never")
            with pytest.raises(ottla.DeliveryErrors, match="1 record was") as caught:
                producer.flush(SOON_S)
        (error,) = caught.value.exceptions
        assert isinstance(error, ottla.DeliveryError)
        assert isinstance(error.cause, ottla.DeadlineError)
        until(lambda: is_delivered(producer.send(topic, b"now")))  # though time is short
    assert values(served, topic)[-1] == b"now"


def is_delivered(sent: "Future[ottla.RecordMetadata]") -> bool:
    try:
        sent.result(SOON_S)
    except ottla.DeliveryError:
        return False
    return True


def test_a_failure_that_nobody_looked_at_leaves_the_block(served: TestBroker, topic: str) -> None:
    served.create_topic(topic)
    served.faults.fail("Produce", ErrorCode.INVALID_RECORD)
    with (
        pytest.raises(ottla.DeliveryErrors),
        ottla.Producer(served.bootstrap_servers) as producer,
    ):
        producer.send(topic, b"bad")


def test_a_failure_that_somebody_looked_at_does_not(served: TestBroker, topic: str) -> None:
    served.create_topic(topic)
    served.faults.fail("Produce", ErrorCode.INVALID_RECORD)
    told: list[Any] = []
    with ottla.Producer(served.bootstrap_servers) as producer:
        with pytest.raises(ottla.DeliveryError) as caught:
            producer.send(topic, b"bad").result(SOON_S)
        assert caught.value.code is ErrorCode.INVALID_RECORD
        served.faults.fail("Produce", ErrorCode.INVALID_RECORD)
        producer.send(topic, b"bad", on_delivery=lambda md, error: told.append(error))
    assert [error.code for error in told] == [ErrorCode.INVALID_RECORD]


def test_an_exception_in_the_block_is_not_hidden_by_failures(
    served: TestBroker, topic: str
) -> None:
    served.create_topic(topic)
    served.faults.fail("Produce", ErrorCode.INVALID_RECORD)

    def go_wrong() -> None:
        with ottla.Producer(served.bootstrap_servers) as producer:
            producer.send(topic, b"bad")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        go_wrong()
    assert "1 record was not delivered" in caught.value.__notes__[0]


def test_a_batch_that_the_topic_finds_too_large_is_split(served: TestBroker, topic: str) -> None:
    served.create_topic(topic, config={"max.message.bytes": "1000"})
    with ottla.Producer(served.bootstrap_servers) as producer:
        sent = [producer.send(topic, value * 10) for value in numbered(100)]
        assert [future.result(SOON_S).offset for future in sent] == list(range(100))
        with pytest.raises(ottla.DeliveryError) as caught:
            producer.send(topic, b"x" * 2000).result(SOON_S)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        producer.send(topic, b"end")
    assert values(served, topic) == [*(value * 10 for value in numbered(100)), b"end"]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgment_delivers(served: TestBroker, topic: str, acks: Any) -> None:
    with ottla.Producer(served.bootstrap_servers, acks=acks) as producer:
        written = producer.send(topic, b"a").result(SOON_S)
    assert written.offset == (-1 if acks == 0 else 0)
    assert [record.value for record in served.wait_for(topic, 1, SOON_S)] == [b"a"]


def test_records_of_two_threads_keep_their_order(served: TestBroker, topic: str) -> None:
    def send_all(name: bytes) -> None:
        for value in numbered(1000):
            producer.send(topic, value, key=name)

    with ottla.Producer(served.bootstrap_servers, batch_size=500) as producer:
        threads = [threading.Thread(target=send_all, args=(name,)) for name in (b"a", b"b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for name in (b"a", b"b"):
        assert [r.value for r in served.records(topic) if r.key == name] == numbered(1000)


def test_a_key_goes_where_java_would_send_it(served: TestBroker, topic: str) -> None:
    served.create_topic(topic, partitions=5)
    keys = [b"key-%d" % n for n in range(50)]
    with ottla.Producer(served.bootstrap_servers) as producer:
        producer.send_many(topic, ((key, b"v") for key in keys))
        assert producer.partitions_for(topic) == [0, 1, 2, 3, 4]
    assert {r.key: r.partition for r in served.records(topic)} == {
        key: ottla.murmur2(key) % 5 for key in keys
    }


def test_interceptors_see_each_record_and_what_became_of_it(served: TestBroker, topic: str) -> None:
    acknowledged: list[int] = []

    class Stamp(ottla.ProducerInterceptor):
        def on_send(self, record: ottla.ProducerRecord) -> ottla.ProducerRecord:
            return record.with_header("stamp", "x")

        def on_ack(
            self, metadata: ottla.RecordMetadata | None, error: ottla.DeliveryError | None
        ) -> None:
            assert metadata is not None
            acknowledged.append(metadata.offset)

    class Broken(ottla.ProducerInterceptor):
        def on_send(self, record: ottla.ProducerRecord) -> ottla.ProducerRecord:
            raise ValueError("it is logged")

    with ottla.Producer(served.bootstrap_servers, interceptors=[Broken(), Stamp()]) as producer:
        producer.send(topic, b"a")
        producer.send_many(topic, [b"b"])
    assert acknowledged == [0, 1]
    assert [list(r.headers) for r in served.records(topic)] == [[("stamp", b"x")]] * 2


def test_a_value_that_cannot_be_serialized_is_refused_at_once(
    served: TestBroker, topic: str
) -> None:
    with (
        ottla.Producer(served.bootstrap_servers) as plain,
        pytest.raises(ottla.SerializationError, match=r"ottla\.UTF8 or ottla\.JSON"),
    ):
        plain.send(topic, "text")  # type: ignore[arg-type]
    with ottla.Producer(served.bootstrap_servers, value_serde=ottla.JSON) as typed:
        with pytest.raises(ottla.SerializationError, match="not JSON serializable"):
            typed.send(topic, object())
        typed.send(topic, {"id": 1})
    assert values(served, topic) == [b'{"id":1}']


def test_a_closed_producer_says_so(served: TestBroker, topic: str) -> None:
    producer: ottla.Producer = ottla.Producer(served.bootstrap_servers)
    producer.send(topic, b"a")
    producer.close()
    producer.close()
    for attempt in (lambda: producer.send(topic, b"b"), producer.flush):
        with pytest.raises(ottla.ClosedError):
            attempt()
    assert values(served, topic) == [b"a"]


def test_closing_fails_what_cannot_be_delivered_in_time(served: TestBroker, topic: str) -> None:
    served.create_topic(topic)
    producer: ottla.Producer = ottla.Producer(served.bootstrap_servers)
    with served.faults.stall("Produce"):
        sent = producer.send(topic, b"a")
        with pytest.raises(ottla.DeliveryErrors):
            producer.close(timeout=0.1)
        with pytest.raises(ottla.DeliveryError, match="closed"):
            sent.result(0)


def test_a_producer_that_finds_no_broker_names_the_address() -> None:
    with pytest.raises(ottla.ConnectError, match=r"127\.0\.0\.1:1"):
        ottla.Producer("127.0.0.1:1", default_api_timeout_ms=2_000).__enter__()


def test_a_topic_that_cannot_exist_is_refused(served: TestBroker) -> None:
    with (
        ottla.Producer(served.bootstrap_servers) as producer,
        pytest.raises(ottla.RequestError),
    ):
        producer.send("no spaces", b"a")


@pytest.mark.parametrize("creates", [True, False])
def test_a_producer_creates_topics_unless_it_is_told_not_to(
    served: TestBroker, topic: str, creates: bool
) -> None:
    with ottla.Producer(
        served.bootstrap_servers,
        allow_auto_create_topics=creates,
        max_block_ms=60_000 if creates else 1_000,
    ) as producer:
        if creates:
            producer.send(topic, b"new").result(SOON_S)
        else:
            with pytest.raises(OttlaError):  # that there is none, or that nobody told in time
                producer.send(topic, b"misspelled")
    with ottla.Admin(served.bootstrap_servers) as admin:
        assert (topic in admin.list_topics()) is creates


def test_a_callback_may_send(served: TestBroker, topic: str) -> None:
    done = threading.Event()

    def again(metadata: Any, error: Any) -> None:
        producer.send(topic, b"second", on_delivery=lambda *_: done.set())

    with ottla.Producer(served.bootstrap_servers) as producer:
        producer.send(topic, b"first", on_delivery=again)
        assert done.wait(SOON_S)
    assert values(served, topic) == [b"first", b"second"]


@pytest.fixture
def alarm() -> Iterator[Callable[[float], object]]:
    """Ctrl-C after so many seconds."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_ctrl_c_ends_a_block_that_waits_for_a_broker(
    served: TestBroker, topic: str, alarm: Callable[[float], object]
) -> None:
    served.create_topic(topic)

    def send_for_ever() -> None:
        with ottla.Producer(served.bootstrap_servers, buffer_memory=1000) as producer:
            alarm(0.1)
            producer.send_many(topic, itertools.repeat(b"x" * 100))

    with served.faults.stall("Produce"), pytest.raises(KeyboardInterrupt):
        send_for_ever()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_is_told_to_make_its_own_producer(served: TestBroker, topic: str) -> None:
    script = """
        import os, sys
        import ottla
        producer = ottla.Producer(sys.argv[1], linger_ms=1000)
        producer.send(sys.argv[2], b"parent")
        if (child := os.fork()) == 0:
            try:
                producer.send(sys.argv[2], b"child")
            except ottla.MisuseError as error:
                producer.close()
                with ottla.Producer(sys.argv[1]) as own:
                    own.send(sys.argv[2], b"own")
                os._exit(7 if "make a new producer" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        producer.close()
    """
    arguments = [served.bootstrap_servers, topic]
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), *arguments],
        check=True,
        timeout=120,
        cwd=ROOT,
    )
    assert sorted(values(served, topic), key=str) == [b"own", b"parent"]


def test_closing_sends_what_nobody_acknowledges(served: TestBroker, topic: str) -> None:
    """With acks=0 nobody waits for answers, and yet nothing may be cut off in the middle."""
    count = 40
    with ottla.Producer(served.bootstrap_servers, acks=0, linger_ms=0) as producer:
        for _ in range(count):  # more than sockets have room for
            producer.send(topic, b"x" * 900_000, partition=0)
    place = ottla.TopicPartition(topic, 0)
    with ottla.Admin(served.bootstrap_servers) as admin:
        deadline_s = time.monotonic() + SOON_S
        while (end := admin.list_offsets([place])[place]) != count:
            assert time.monotonic() < deadline_s, f"{end} of {count} records came"
