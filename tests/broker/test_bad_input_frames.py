"""Bad input before a handler sees it: sizes, foreign protocols, versions, lengths, encodings.

What cannot be a request closes its connection with one line in the log, and nobody else notices:
the fixtures check a bystander before and after each test.
"""

import logging
import struct
import tracemalloc
from collections.abc import Iterator

import pytest

from ottla.broker.embedded import Broker
from ottla.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.wire_client import (
    FETCH_VERSION,
    WireClient,
    fetch_request,
    framed,
    request_bytes,
)

METADATA, API_VERSIONS = 3, 18
LARGEST_REQUEST_BYTES = 100 * 1024 * 1024
MIB = 1024 * 1024


def header(key: int, version: int, *, flexible: bool = False) -> bytes:
    """A request header with the client id "c"."""
    return struct.pack(">hhih1s", key, version, 1, 1, b"c") + (b"\0" if flexible else b"")


@pytest.fixture
def warnings_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, logger="ottla"):
        yield caplog


def closing_line(logged: pytest.LogCaptureFixture) -> str:
    """The one line that says why a connection was closed."""
    (line,) = [text for text in logged.messages if "connection closed" in text]
    assert "peer=127.0.0.1:" in line
    return line


def test_row_01_a_frame_of_negative_size_closes_the_connection(
    client: WireClient, warnings_logged: pytest.LogCaptureFixture
) -> None:
    client.send_bytes(struct.pack(">i", -1))

    assert client.is_closed_by_peer()
    assert "a frame of -1 bytes" in closing_line(warnings_logged)


def test_row_02_a_frame_above_the_limit_closes_the_connection_and_takes_no_memory(
    client: WireClient, warnings_logged: pytest.LogCaptureFixture
) -> None:
    tracemalloc.start()
    try:
        client.send_bytes(struct.pack(">i", LARGEST_REQUEST_BYTES + 1) + bytes(100))
        assert client.is_closed_by_peer()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 4 * MIB
    assert "the limit is 104857600" in closing_line(warnings_logged)


@pytest.mark.parametrize("size", [0, 1, 9], ids=lambda size: f"{size} bytes")
def test_row_03_a_frame_without_room_for_a_header_closes_the_connection(
    client: WireClient, warnings_logged: pytest.LogCaptureFixture, size: int
) -> None:
    client.send_frame(bytes(size))

    assert client.is_closed_by_peer()
    assert "no room for a header" in closing_line(warnings_logged)


def test_row_04_a_tls_client_on_the_plaintext_port_is_closed_and_named(
    client: WireClient, warnings_logged: pytest.LogCaptureFixture
) -> None:
    client.send_bytes(bytes.fromhex("16030100c8010000c40303") + bytes(200))

    assert client.is_closed_by_peer()
    assert "TLS client on a plaintext listener" in closing_line(warnings_logged)


def test_row_05_an_http_client_is_closed_and_named(
    client: WireClient, warnings_logged: pytest.LogCaptureFixture
) -> None:
    client.send_bytes(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n")

    assert client.is_closed_by_peer()
    assert "HTTP client on a Kafka port" in closing_line(warnings_logged)


@pytest.mark.parametrize("key", [-1, 4, 5_000, 32_767])
def test_row_08_an_unknown_api_closes_the_connection(
    client: WireClient, warnings_logged: pytest.LogCaptureFixture, key: int
) -> None:
    client.send_frame(header(key, 0))

    assert client.is_closed_by_peer()
    assert f"key {key} " in closing_line(warnings_logged)


@pytest.mark.parametrize("version", [-1, 2, 14, 99])
def test_row_09_an_unsupported_version_closes_the_connection(
    client: WireClient, warnings_logged: pytest.LogCaptureFixture, version: int
) -> None:
    client.send_frame(header(0, version) + bytes(20))

    assert client.is_closed_by_peer()
    assert f"version {version} " in closing_line(warnings_logged)


def test_row_10_api_versions_in_an_unknown_version_is_answered_in_v0_with_what_we_speak(
    client: WireClient,
) -> None:
    client.send_frame(header(API_VERSIONS, 99, flexible=True) + b"\x05junk\x02x")

    correlation_id, answer = client.receive(ApiVersionsRequest, 0)

    assert correlation_id == 1
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    spoken = {
        spoken.api_key: (spoken.min_version, spoken.max_version) for spoken in answer.api_keys
    }
    assert spoken[API_VERSIONS] == (0, 4)
    assert client.ask(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE


@pytest.mark.parametrize("name", ["", "-librdkafka", "name with blanks", "x\0y", "é"])
def test_row_11_an_illegal_client_software_name_is_an_invalid_request(
    client: WireClient, name: str
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1.0")

    assert client.ask(request, 3).error_code == ErrorCode.INVALID_REQUEST


def test_row_12_an_array_of_two_billion_in_a_short_request_closes_and_takes_no_memory(
    client: WireClient, warnings_logged: pytest.LogCaptureFixture
) -> None:
    tracemalloc.start()
    try:
        client.send_frame(header(METADATA, 1) + struct.pack(">i", 2**31 - 1) + bytes(22))
        assert client.is_closed_by_peer()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 4 * MIB
    closing_line(warnings_logged)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(struct.pack(">i", -2), id="an array of length -2"),
        pytest.param(struct.pack(">ih", 1, -2), id="a string of length -2"),
        pytest.param(struct.pack(">ih", 1, -1), id="null for a string that must be there"),
        pytest.param(struct.pack(">ih", 1, 100) + b"short", id="a string beyond the end"),
        pytest.param(b"", id="no body"),
    ],
)
def test_row_13_an_impossible_length_closes_the_connection(
    client: WireClient, warnings_logged: pytest.LogCaptureFixture, body: bytes
) -> None:
    client.send_frame(header(METADATA, 1) + body)

    assert client.is_closed_by_peer()
    closing_line(warnings_logged)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\xff\xff\xff\xff\xff\x01", id="six bytes"),
        pytest.param(b"\xff\xff\xff\xff\x7f", id="more than 32 bits"),
        pytest.param(b"\xff\xff\xff\xff\x0f", id="a length of 4 billion"),
        pytest.param(b"\x80", id="cut off"),
    ],
)
def test_row_14_a_varint_that_is_too_long_closes_the_connection(
    client: WireClient, warnings_logged: pytest.LogCaptureFixture, body: bytes
) -> None:
    client.send_frame(header(METADATA, 9, flexible=True) + body)

    assert client.is_closed_by_peer()
    closing_line(warnings_logged)


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param(b"\x01\x05\x7fab", id="larger than what is left"),
        pytest.param(b"\x02\x05\x01a\x05\x01b", id="the same tag twice"),
        pytest.param(b"\x02\x05\x01a\x04\x01b", id="tags that go down"),
        pytest.param(b"\xff\xff\xff\xff\x07", id="two billion tags"),
    ],
)
def test_row_15_impossible_tagged_fields_close_the_connection(
    client: WireClient, warnings_logged: pytest.LogCaptureFixture, tags: bytes
) -> None:
    whole = request_bytes(MetadataRequest(topics=()), 9)
    client.send_frame(whole[:-1] + tags)

    assert client.is_closed_by_peer()
    closing_line(warnings_logged)


def test_row_15_unknown_tagged_fields_are_no_bad_input(client: WireClient) -> None:
    whole = request_bytes(MetadataRequest(topics=()), 9)
    client.send_frame(whole[:-1] + b"\x02\x05\x01a\x06\x03abc")

    correlation_id, _ = client.receive(MetadataRequest, 9)

    assert correlation_id == 1


def test_row_16_text_that_is_not_utf_8_closes_the_connection(
    client: WireClient, warnings_logged: pytest.LogCaptureFixture
) -> None:
    client.send_frame(header(METADATA, 1) + struct.pack(">ih", 1, 2) + b"\xc3\x28")

    assert client.is_closed_by_peer()
    closing_line(warnings_logged)


def test_row_17_bytes_after_the_body_are_ignored_and_the_next_frame_is_read_right(
    client: WireClient,
) -> None:
    first = request_bytes(ApiVersionsRequest(), 0, 1) + b"trailing bytes"
    second = request_bytes(MetadataRequest(topics=()), 1, 2)
    client.send_bytes(framed(first) + framed(second))

    assert client.receive(ApiVersionsRequest, 0)[0] == 1
    assert client.receive(MetadataRequest, 1)[0] == 2


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(framed(header(5_000, 0)), id="an unknown api"),
        pytest.param(struct.pack(">i", -1), id="an illegal size"),
    ],
)
def test_what_was_asked_before_the_bad_frame_is_still_answered(
    client: WireClient, bad: bytes
) -> None:
    client.send_bytes(framed(request_bytes(ApiVersionsRequest(), 0, 1)) + bad)

    assert client.receive(ApiVersionsRequest, 0)[0] == 1
    assert client.is_closed_by_peer()


def test_requests_that_wait_for_room_are_answered_before_the_bad_frame_ends_it(
    client: WireClient, topic: str, warnings_logged: pytest.LogCaptureFixture
) -> None:
    waiting = framed(request_bytes(fetch_request(topic, max_wait_ms=200), FETCH_VERSION, 1))
    behind = framed(request_bytes(ApiVersionsRequest(), 0, 2))
    client.send_bytes(waiting + behind + struct.pack(">i", -1))

    assert client.receive(FetchRequest, FETCH_VERSION)[0] == 1
    assert client.receive(ApiVersionsRequest, 0)[0] == 2
    assert client.is_closed_by_peer()
    closing_line(warnings_logged)


@pytest.mark.parametrize(
    "name", ["..", ".", "a/b", "../../etc/passwd", "x" * 250, "", "nul\0byte", "ümlaut", "a b"]
)
def test_row_36_an_illegal_topic_name_is_refused_and_never_touches_the_disk(
    client: WireClient, broker: Broker, name: str
) -> None:
    asked = MetadataRequest(topics=(MetadataRequestTopic(name=name),))

    (described,) = client.ask(asked, 8).topics

    assert described.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert client.create_topic(name) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert client.ask(MetadataRequest(topics=None), 8).topics
    names = {topic.name for topic in client.ask(MetadataRequest(topics=None), 8).topics}
    assert name not in names
