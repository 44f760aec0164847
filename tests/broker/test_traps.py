"""What other brokers got wrong first: details of a conversation on which clients rely."""

from ottla.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceRequest
from tests.broker.wire_client import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    WireClient,
    batch_of,
    fetch_request,
    produce_request,
)

PRODUCE, OFFSET_FOR_LEADER_EPOCH, API_VERSIONS = 0, 23, 18


def test_a_produce_without_acks_gets_no_answer_and_later_requests_get_theirs(
    client: WireClient, topic: str
) -> None:
    for number in range(3):
        client.send(produce_request(topic, batch_of(b"%d" % number), acks=0), PRODUCE_VERSION)
    asked = client.send(MetadataRequest(topics=()), 8)

    answered, _ = client.receive(MetadataRequest, 8)

    assert answered == asked
    assert client.values(topic) == [b"0", b"1", b"2"]


def test_versions_are_advertised_that_old_clients_look_for(client: WireClient) -> None:
    answer = client.ask(
        ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3
    )
    spoken = {api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys}

    assert spoken[PRODUCE].start == 0, "librdkafka stops compressing without it"
    assert 2 in spoken[OFFSET_FOR_LEADER_EPOCH], "aiokafka knows no newer one"
    assert 0 in spoken[API_VERSIONS], "aiokafka knows no other"


def test_a_produce_version_that_is_advertised_for_show_is_refused(client: WireClient) -> None:
    client.send_frame(bytes.fromhex("0000 0000 00000001 ffff") + bytes(20))

    assert client.is_closed_by_peer()


def test_a_fetch_inside_a_batch_returns_the_whole_batch(client: WireClient, topic: str) -> None:
    batch = batch_of(*(b"%d" % number for number in range(10)))
    assert client.produce(topic, batch).error_code == ErrorCode.NONE

    fetched = client.fetch(topic, 7)

    assert len(fetched.records or b"") == len(batch)
    assert client.values(topic, 7) == [b"7", b"8", b"9"]


def test_a_batch_above_the_limits_of_a_fetch_is_returned_all_the_same(
    client: WireClient, topic: str
) -> None:
    assert client.produce(topic, batch_of(bytes(100_000))).error_code == ErrorCode.NONE

    assert client.values(topic, partition_max_bytes=1_000, max_bytes=1_000) == [bytes(100_000)]


def test_answers_leave_in_the_order_of_their_requests(client: WireClient, topic: str) -> None:
    waiting = client.send(fetch_request(topic, max_wait_ms=300), FETCH_VERSION)
    quick = client.send(MetadataRequest(topics=()), 8)

    first, _ = client.receive(type(fetch_request(topic)), FETCH_VERSION)
    second, _ = client.receive(MetadataRequest, 8)

    assert [first, second] == [waiting, quick]


def test_a_waiting_fetch_is_answered_when_another_client_writes(
    client: WireClient, topic: str
) -> None:
    address = client.address
    with WireClient(address) as reader:
        reader.send(fetch_request(topic, max_wait_ms=600_000), FETCH_VERSION)
        assert not reader.is_closed_within(0.05)

        assert client.produce(topic, batch_of(b"news")).error_code == ErrorCode.NONE

        _, answer = reader.receive(type(fetch_request(topic)), FETCH_VERSION)
        assert answer.responses[0].partitions[0].high_watermark == 1


def test_pipelined_produces_get_offsets_in_order(client: WireClient, topic: str) -> None:
    for number in range(50):
        client.send(produce_request(topic, batch_of(b"%d" % number)), PRODUCE_VERSION)

    answers = [client.receive(ProduceRequest, PRODUCE_VERSION)[1] for _ in range(50)]

    offsets = [answer.responses[0].partition_responses[0].base_offset for answer in answers]
    assert offsets == list(range(50))
