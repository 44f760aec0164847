"""Every client reads what every client wrote: values, keys, headers, times, codecs, large records.

Topics come into being by being written to, unless a test needs settings.
"""

import time

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.broker.embedded import Broker
from ottla.records.batch import batches
from ottla.records.compression import Compression
from tests.broker.wire_client import WireClient
from tests.compat.clients import CODECS, Client, Confluent, Message, Received

MIB = 1024 * 1024
THEN_MS = 1_600_000_000_123


def assert_same(received: list[Received], messages: list[Message]) -> None:
    """What came back is what was sent, in order, from offset 0 on."""
    assert [record.offset for record in received] == list(range(len(messages)))
    wrong = [
        (record, message)
        for record, message in zip(received, messages, strict=True)
        if not record.matches(message)
    ]
    assert wrong == []


def create(broker: Broker, topic: str, partition_count: int = 1, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    named = {name.replace("_", "."): value for name, value in configs.items()}
    (future,) = admin.create_topics([NewTopic(topic, partition_count, 1, config=named)]).values()
    assert future.result(90) is None


@pytest.mark.parametrize("codec", CODECS)
def test_each_client_reads_what_the_others_compressed(
    client: Client, reader: Client, topic: str, codec: str
) -> None:
    messages = [Message(b"value %d " % number * 20, b"key %d" % number) for number in range(50)]

    offsets = client.write(topic, messages, codec=codec)

    assert offsets == list(range(50))
    assert_same(reader.read(topic, 50), messages)


def test_keys_values_and_headers_come_back_as_they_were(
    client: Client, reader: Client, topic: str
) -> None:
    messages = [
        Message(b"value", b"key"),
        Message(b"no key", None),
        Message(None, b"tombstone"),
        Message(b"", b""),
        Message(bytes(range(256)), b"\0\xff"),
        Message(b"v", None, (("header", b"value"), ("header", b"again"), ("empty", b""))),
        Message(b"v", None, (("caf\u00e9", b"\xff\xfe"),)),
    ]

    client.write(topic, messages)

    assert_same(reader.read(topic, len(messages)), messages)


def test_a_header_without_value_stays_one(reader: Client, broker: Broker, topic: str) -> None:
    messages = [Message(b"v", None, (("null", None), ("empty", b"")))]

    Confluent(broker.bootstrap_servers).write(topic, messages)  # the others cannot send it

    assert_same(reader.read(topic, 1), messages)


def test_timestamps_of_producers_are_kept(client: Client, reader: Client, topic: str) -> None:
    messages = [Message(b"v", timestamp_ms=THEN_MS + delta) for delta in (0, 5_000, -5_000)]

    client.write(topic, messages)
    received = reader.read(topic, 3)

    assert_same(received, messages)
    assert not any(record.is_append_time for record in received)


def test_a_topic_with_log_append_time_has_times_of_the_broker(
    client: Client, reader: Client, broker: Broker, topic: str
) -> None:
    create(broker, topic, message_timestamp_type="LogAppendTime")
    before_ms = time.time_ns() // 1_000_000

    client.write(topic, [Message(b"v", timestamp_ms=THEN_MS)])
    (received,) = reader.read(topic, 1)

    assert received.is_append_time
    assert before_ms <= received.timestamp_ms <= time.time_ns() // 1_000_000


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_message_of_one_megabyte_is_like_any_other(
    client: Client, reader: Client, topic: str, codec: str
) -> None:
    messages = [Message(b"small"), Message(bytes(MIB - 1_000), b"large"), Message(b"small")]

    client.write(topic, messages, codec=codec)

    assert_same(reader.read(topic, 3), messages)


def test_a_message_larger_than_the_default_is_possible_where_a_topic_allows_it(
    client: Client, reader: Client, broker: Broker, topic: str
) -> None:
    create(broker, topic, max_message_bytes=str(5 * MIB))
    messages = [Message(bytes(4 * MIB))]

    client.write(topic, messages)

    assert_same(reader.read(topic, 1), messages)


def test_partitions_have_offsets_of_their_own(
    client: Client, reader: Client, broker: Broker, topic: str
) -> None:
    create(broker, topic, partition_count=12)
    messages = [
        Message(b"%d" % number, partition=partition)
        for number in range(20)
        for partition in range(12)
    ]

    client.write(topic, messages)

    for partition in range(12):
        mine = [message for message in messages if message.partition == partition]
        assert_same(reader.read(topic, 20, partition=partition), mine)


def test_reading_can_start_anywhere_also_inside_a_batch(
    client: Client, reader: Client, topic: str
) -> None:
    client.write(topic, [Message(b"%d" % number) for number in range(100)], codec="gzip")

    received = reader.read(topic, 10, offset=37)

    assert [record.offset for record in received] == list(range(37, 47))
    assert [record.value for record in received] == [b"%d" % number for number in range(37, 47)]


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_each_level_of_acknowledgement_works(
    client: Client, reader: Client, topic: str, acks: int
) -> None:
    client.write(topic, [Message(b"first, so that the topic exists")])

    offsets = client.write(topic, [Message(b"second")], acks=acks)

    assert len(offsets) == 1
    assert [record.value for record in reader.read(topic, 2)][1] == b"second"


@pytest.mark.parametrize("wanted", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_a_topic_may_choose_its_compression(
    client: Client, reader: Client, broker: Broker, topic: str, wanted: str
) -> None:
    create(broker, topic, compression_type=wanted)
    messages = [Message(b"value %d " % number * 20, b"k") for number in range(10)]

    client.write(topic, messages, codec="lz4" if wanted != "lz4" else "gzip")

    assert_same(reader.read(topic, 10), messages)
    with WireClient(broker.bootstrap_servers) as wire:
        stored = list(batches(bytes(wire.fetch(topic).records or b""), partial_tail=False))
    expected = Compression.NONE if wanted == "uncompressed" else Compression.named(wanted)
    assert {batch.compression for batch in stored} == {expected}
