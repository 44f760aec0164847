"""`TestBroker` under the hands of clients: what each fault does to them, and what time does."""

import asyncio
import gc
import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import pytest

from ottla.errors import ClosedError, DeadlineError, ErrorCode
from ottla.testing import TestBroker
from ottla.testing.faults import key_of
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.registry import ApiKey
from tests.broker.wire_client import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    WireClient,
    batch_of,
    fetch_request,
    framed,
    produce_request,
    request_bytes,
)
from tests.kafka_cluster import until

REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER
FULL_OPENS_SESSION = 0
LATE_S = 3600.0
PATIENCE_S = 60.0


@pytest.fixture
def client(ottla_broker: TestBroker) -> Iterator[WireClient]:
    with WireClient(ottla_broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic(ottla_broker: TestBroker, ottla_topic: str) -> str:
    """A topic that exists, and from which time takes nothing."""
    ottla_broker.create_topic(ottla_topic, config={"retention.ms": "-1"})
    return ottla_topic


def values(broker: TestBroker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


def is_refused(broker: TestBroker) -> bool:
    try:
        with WireClient(broker.bootstrap_servers) as newcomer:
            return newcomer.is_closed_by_peer()
    except ConnectionError:
        return True


def test_a_failed_produce_writes_nothing(
    ottla_broker: TestBroker, client: WireClient, topic: str
) -> None:
    fault = ottla_broker.faults.fail("Produce", REFUSED, times=2)
    codes = [client.produce(topic, batch_of(b"%d" % n)).error_code for n in range(3)]
    assert codes == [REFUSED, REFUSED, ErrorCode.NONE]
    assert values(ottla_broker, topic) == [b"2"]
    assert fault.hit_count == 2


def test_faults_with_a_count_come_first_and_in_order(
    ottla_broker: TestBroker, client: WireClient, topic: str
) -> None:
    faults = ottla_broker.faults
    faults.fail("Produce", ErrorCode.INVALID_RECORD, times=None)
    faults.fail("Produce", ErrorCode.MESSAGE_TOO_LARGE, times=None)
    faults.fail("Produce", REFUSED)
    faults.fail("Produce", ErrorCode.KAFKA_STORAGE_ERROR)
    codes = [client.produce(topic, batch_of(b"x")).error_code for _ in range(4)]
    assert codes == [
        REFUSED,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.MESSAGE_TOO_LARGE,
    ]


def test_a_fault_ends_with_its_block(
    ottla_broker: TestBroker, client: WireClient, topic: str
) -> None:
    with ottla_broker.faults.fail("Produce", REFUSED, times=None) as fault:
        assert client.produce(topic, batch_of(b"a")).error_code == REFUSED
    assert client.produce(topic, batch_of(b"b")).error_code == ErrorCode.NONE
    assert fault.hit_count == 1


def test_a_producer_without_acks_is_told_by_a_closed_connection(
    ottla_broker: TestBroker, client: WireClient, topic: str
) -> None:
    ottla_broker.faults.fail("Produce", REFUSED)
    client.send(produce_request(topic, batch_of(b"x"), acks=0), PRODUCE_VERSION)
    assert client.is_closed_by_peer()
    assert values(ottla_broker, topic) == []


def test_a_failed_fetch_fails_for_each_partition_of_the_session(
    ottla_broker: TestBroker, client: WireClient, topic: str
) -> None:
    request = fetch_request(topic, session_epoch=FULL_OPENS_SESSION)
    session_id = client.ask(request, FETCH_VERSION).session_id
    ottla_broker.faults.fail("Fetch", REFUSED)
    nothing_new: dict[str, Any] = {"session_id": session_id, "session_epoch": 1}
    again = fetch_request(topic, **nothing_new)
    answer = client.ask(again, FETCH_VERSION)
    assert answer.error_code == ErrorCode.NONE
    assert [p.error_code for t in answer.responses for p in t.partitions] == [REFUSED]


def test_a_fetch_session_can_be_lost(
    ottla_broker: TestBroker, client: WireClient, topic: str
) -> None:
    ottla_broker.faults.fail("Fetch", ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    answer = client.ask(fetch_request(topic), FETCH_VERSION)
    assert (answer.error_code, answer.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ())


def test_failed_metadata_still_says_where_the_brokers_are(
    ottla_broker: TestBroker, client: WireClient, ottla_topic: str
) -> None:
    ottla_broker.faults.fail("Metadata", ErrorCode.LEADER_NOT_AVAILABLE)
    request = MetadataRequest(topics=(MetadataRequestTopic(name=ottla_topic),))
    answer = client.ask(request, 9)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.LEADER_NOT_AVAILABLE]
    assert len(answer.brokers) == 1
    assert ottla_broker.end_offsets(ottla_topic) == {}, "nothing was created"


def test_a_request_of_another_structure_than_its_response_can_fail_too(
    ottla_broker: TestBroker, client: WireClient
) -> None:
    ottla_broker.faults.fail("AlterReplicaLogDirs", ErrorCode.LOG_DIR_NOT_FOUND)
    moved = AlterReplicaLogDirTopic(name="orders", partitions=(0, 7))
    folder = AlterReplicaLogDir(path="/elsewhere", topics=(moved,))
    answer = client.ask(AlterReplicaLogDirsRequest(dirs=(folder,)), 2)
    (result,) = answer.results
    assert result.topic_name == "orders"
    assert [(p.partition_index, p.error_code) for p in result.partitions] == [
        (0, ErrorCode.LOG_DIR_NOT_FOUND),
        (7, ErrorCode.LOG_DIR_NOT_FOUND),
    ]


def test_a_delayed_answer_comes_when_its_time_has_come(
    ottla_broker: TestBroker, client: WireClient, topic: str
) -> None:
    ottla_broker.faults.delay("Produce", LATE_S)
    correlation_id = client.send(produce_request(topic, batch_of(b"late")), PRODUCE_VERSION)
    assert [r.value for r in ottla_broker.wait_for(topic, 1, PATIENCE_S)] == [b"late"]
    assert not client.is_closed_within(0.05), "and nothing was said"
    ottla_broker.advance(LATE_S)
    assert client.receive(type(produce_request(topic, None)), PRODUCE_VERSION)[0] == correlation_id


def test_a_dropped_reply_leaves_the_work_done(
    ottla_broker: TestBroker, client: WireClient, topic: str
) -> None:
    fault = ottla_broker.faults.drop_reply("Produce")
    client.send(produce_request(topic, batch_of(b"done")), PRODUCE_VERSION)
    assert client.is_closed_by_peer()
    assert values(ottla_broker, topic) == [b"done"]
    assert fault.hit_count == 1


def test_a_stalled_broker_neither_acts_nor_answers(
    ottla_broker: TestBroker, client: WireClient, topic: str
) -> None:
    with ottla_broker.faults.stall() as fault:
        client.send(produce_request(topic, batch_of(b"lost")), PRODUCE_VERSION)
        until(lambda: fault.hit_count == 1)
        assert not client.is_closed_within(0.05)
        ottla_broker.produce(topic, "the test itself is spared")
    assert client.is_closed_by_peer(), "who still waits may go"
    assert values(ottla_broker, topic) == [b"the test itself is spared"]


def test_refused_connections_leave_others_alone(
    ottla_broker: TestBroker, client: WireClient, topic: str
) -> None:
    with ottla_broker.faults.refuse_connections() as fault:
        assert is_refused(ottla_broker)
        assert fault.hit_count == 1
        assert client.produce(topic, batch_of(b"x")).error_code == ErrorCode.NONE
        assert values(ottla_broker, topic) == [b"x"]
    with WireClient(ottla_broker.bootstrap_servers) as newcomer:
        assert newcomer.values(topic) == [b"x"]


def test_connections_of_one_client_can_be_dropped(
    ottla_broker: TestBroker, client: WireClient, topic: str
) -> None:
    assert client.values(topic) == []
    assert ottla_broker.faults.drop_connections(client_id="somebody else") == 0
    assert client.values(topic) == []
    assert ottla_broker.faults.drop_connections(client_id="bad-input") == 1
    assert client.is_closed_by_peer()


def test_all_connections_can_be_dropped_even_those_that_never_spoke(
    ottla_broker: TestBroker, client: WireClient
) -> None:
    with WireClient(ottla_broker.bootstrap_servers) as silent:
        assert client.create_topic("x y") == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert not silent.is_closed_within(0.05)
        assert ottla_broker.faults.drop_connections() >= 2
        assert silent.is_closed_by_peer()
    assert client.is_closed_by_peer()


@pytest.mark.parametrize("flush", ["commit", "os"])
def test_a_broker_that_crashes_comes_back_with_what_it_had(tmp_path: Path, flush: str) -> None:
    with TestBroker(tmp_path, config={"ottla.flush": flush}) as broker:
        address = broker.bootstrap_servers
        broker.produce("orders", "kept")
        broker.faults.crash_before("Produce")
        with WireClient(address) as client:
            client.send(produce_request("orders", batch_of(b"lost")), PRODUCE_VERSION)
            assert client.is_closed_by_peer()
        with pytest.raises(ClosedError, match="crashed"):
            broker.records("orders")
        with pytest.raises(ConnectionRefusedError):
            WireClient(address)
        broker.restart()
        assert broker.bootstrap_servers == address
        assert values(broker, "orders") == [b"kept"]
        broker.produce("orders", "and more")
        assert values(broker, "orders") == [b"kept", b"and more"]


def test_a_crash_in_the_middle_of_group_commit_is_quiet(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gc.collect()  # what other tests have left may complain about it when it goes
    caplog.clear()
    with TestBroker(tmp_path, config={"ottla.flush": "commit"}) as broker:
        broker.create_topic("orders", config={"retention.ms": "-1"})
        broker.produce("orders", "kept")
        broker.faults.crash_before("Fetch")
        produce = request_bytes(produce_request("orders", batch_of(b"x")), PRODUCE_VERSION)
        fetch = request_bytes(fetch_request("orders"), FETCH_VERSION)
        with WireClient(broker.bootstrap_servers) as client:
            client.send_bytes(framed(produce) + framed(fetch))
            assert client.is_closed_by_peer()
        broker.restart()
        assert values(broker, "orders")[0] == b"kept"
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_restart_keeps_address_and_data() -> None:
    with TestBroker() as broker:
        address = broker.bootstrap_servers
        broker.produce("orders", "kept")
        broker.faults.stall()
        broker.restart()
        assert broker.bootstrap_servers == address
        with WireClient(address) as client:
            assert client.values("orders") == [b"kept"]


def test_a_broker_leaves_nothing_behind_also_if_it_crashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with TestBroker() as broker:
        assert len(os.listdir(tmp_path)) == 1
        broker.crash()
    assert os.listdir(tmp_path) == []
    with pytest.raises(ClosedError, match="not running"):
        broker.records("orders")


def test_time_takes_away_what_retention_does_not_keep(
    ottla_broker: TestBroker, ottla_topic: str
) -> None:
    ottla_broker.create_topic(ottla_topic, config={"retention.ms": "1200000"})
    ottla_broker.produce(ottla_topic, "old")
    ottla_broker.advance(timedelta(minutes=10))
    assert values(ottla_broker, ottla_topic) == [b"old"]
    ottla_broker.advance(timedelta(minutes=10))
    assert values(ottla_broker, ottla_topic) == []
    ottla_broker.produce(ottla_topic, "new")
    ottla_broker.run_housekeeping()
    assert values(ottla_broker, ottla_topic) == [b"new"]
    assert ottla_broker.end_offsets(ottla_topic) == {0: 2}


def test_housekeeping_compacts_at_once(ottla_broker: TestBroker, ottla_topic: str) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "1000",
        "min.cleanable.dirty.ratio": "0",
    }
    ottla_broker.create_topic(ottla_topic, config=config)
    ottla_broker.produce(ottla_topic, "first", "second", key="k")
    ottla_broker.advance(2)
    ottla_broker.produce(ottla_topic, "third", key="other")
    assert len(ottla_broker.records(ottla_topic)) == 3
    ottla_broker.run_housekeeping()
    assert values(ottla_broker, ottla_topic) == [b"second", b"third"]


def test_what_is_of_long_ago_stays_until_housekeeping_is_asked_for(
    ottla_broker: TestBroker, client: WireClient, ottla_topic: str
) -> None:
    ottla_broker.create_topic(ottla_topic)
    assert client.produce(ottla_topic, batch_of(b"years ago")).error_code == ErrorCode.NONE
    assert ottla_broker._loop is not None
    ottla_broker._loop.offset_s += LATE_S  # as it passes while others test
    assert client.create_topic(f"{ottla_topic}-other") == ErrorCode.NONE
    assert values(ottla_broker, ottla_topic) == [b"years ago"]
    ottla_broker.run_housekeeping()
    assert values(ottla_broker, ottla_topic) == []


def test_time_ends_a_long_poll(ottla_broker: TestBroker, client: WireClient, topic: str) -> None:
    fetches = ottla_broker.faults.delay("Fetch", 0)
    client.send(fetch_request(topic, max_wait_ms=200_000), FETCH_VERSION)
    until(lambda: fetches.hit_count == 1)
    assert not client.is_closed_within(0.05)
    ottla_broker.advance(200)
    _, answer = client.receive(type(fetch_request(topic)), FETCH_VERSION)
    assert answer.error_code == ErrorCode.NONE


@pytest.mark.ottla(connections_max_idle_ms=60_000)
def test_time_closes_idle_connections_where_the_settings_say_so(
    ottla_broker: TestBroker, client: WireClient, topic: str
) -> None:
    assert client.values(topic) == []
    ottla_broker.advance(61)
    assert client.is_closed_by_peer()
    assert values(ottla_broker, topic) == [], "the probe connects again"


def test_the_broker_stamps_its_own_time(ottla_broker: TestBroker, ottla_topic: str) -> None:
    ottla_broker.create_topic(ottla_topic)
    ottla_broker.produce(ottla_topic, "a")
    ottla_broker.advance(timedelta(days=1))
    ottla_broker.produce(ottla_topic, "b")
    first, second = ottla_broker.records(ottla_topic)
    assert 86_400 <= (second.timestamp_ms - first.timestamp_ms) / 1000 < 86_700


def test_time_does_not_go_back(ottla_broker: TestBroker) -> None:
    with pytest.raises(ValueError, match="cannot go back"):
        ottla_broker.advance(-1)


def test_records_come_from_all_partitions(ottla_broker: TestBroker, ottla_topic: str) -> None:
    assert ottla_broker.records(ottla_topic) == []
    ottla_broker.create_topic(ottla_topic, partitions=2)
    ottla_broker.produce(ottla_topic, "a", b"b", None, partition=1)
    ottla_broker.produce(ottla_topic, "c", key="k", partition=0)
    assert [(r.partition, r.offset, r.key, r.value) for r in ottla_broker.records(ottla_topic)] == [
        (0, 0, b"k", b"c"),
        (1, 0, None, b"a"),
        (1, 1, None, b"b"),
        (1, 2, None, None),
    ]
    assert ottla_broker.end_offsets(ottla_topic) == {0: 1, 1: 3}


def test_a_value_that_is_neither_bytes_nor_text_is_refused(ottla_broker: TestBroker) -> None:
    with pytest.raises(TypeError, match="not int"):
        ottla_broker.produce("orders", 7)  # type: ignore[arg-type]


def test_waiting_ends_when_enough_has_come(ottla_broker: TestBroker, ottla_topic: str) -> None:
    writer = threading.Thread(target=ottla_broker.produce, args=(ottla_topic, "a", "b"))
    writer.start()
    assert [r.value for r in ottla_broker.wait_for(ottla_topic, 2, PATIENCE_S)] == [b"a", b"b"]
    writer.join()


def test_waiting_in_vain_says_how_far_it_came(ottla_broker: TestBroker, ottla_topic: str) -> None:
    ottla_broker.produce(ottla_topic, "a")
    with pytest.raises(DeadlineError, match=r"has 1 of 2 records after 0.05 s"):
        ottla_broker.wait_for(ottla_topic, 2, timeout=0.05)


@pytest.mark.parametrize("name", ["CreateTopics", "create_topics", ApiKey.CREATE_TOPICS])
def test_an_api_has_its_name_in_any_spelling(name: str | ApiKey) -> None:
    assert key_of(name) is ApiKey.CREATE_TOPICS


def test_an_api_that_is_not_served_cannot_fail(ottla_broker: TestBroker) -> None:
    with pytest.raises(ValueError, match="did you mean 'Produce'"):
        ottla_broker.faults.stall("Prodce")


def test_kafka_python_tries_again_and_writes_twice_after_a_lost_reply(
    ottla_broker: TestBroker, topic: str
) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=ottla_broker.bootstrap_servers,
        enable_idempotence=False,
        retry_backoff_ms=10,
    )
    refused = ottla_broker.faults.fail("Produce", REFUSED, times=2)
    lost = ottla_broker.faults.drop_reply("Produce")
    assert producer.send(topic, b"x").get(timeout=PATIENCE_S).offset == 1
    producer.close()
    assert (refused.hit_count, lost.hit_count) == (2, 1)
    assert values(ottla_broker, topic) == [b"x", b"x"]


def test_aiokafka_reads_on_after_a_crash(tmp_path: Path) -> None:
    async def read_all(broker: TestBroker) -> list[bytes | None]:
        consumer = aiokafka.AIOKafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap_servers,
            auto_offset_reset="earliest",
            retry_backoff_ms=20,
        )
        await consumer.start()
        try:
            read = [(await consumer.getone()).value]
            broker.crash()
            broker.restart()
            broker.produce("orders", "after")  # inside a running loop, as async tests do
            read.append((await asyncio.wait_for(consumer.getone(), 60)).value)
            return read
        finally:
            await consumer.stop()

    async def run() -> list[bytes | None]:
        async with TestBroker(tmp_path) as broker:
            broker.produce("orders", "before")
            return await read_all(broker)

    assert asyncio.run(run()) == [b"before", b"after"]
