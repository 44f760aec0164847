"""Headers: which version goes with which message, and what is refused."""

import pytest

from ottla.errors import ErrorCode, WireError
from ottla.wire.codec import encode
from ottla.wire.header import (
    RequestHeader,
    UnsupportedRequestError,
    client_words,
    decode_request,
    decode_response,
    encode_framed_request,
    encode_request,
    encode_response,
    request_header_version,
    response_header_version,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.registry import ApiKey, api

HEARTBEAT = HeartbeatRequest(group_id="kitchen", generation_id=3, member_id="ada")


def joined(parts: list[bytes | bytearray | memoryview]) -> bytes:
    return b"".join(parts)


@pytest.mark.parametrize("version", list(api(ApiKey.HEARTBEAT).versions))
def test_a_request_survives_the_wire_with_its_header(version: int) -> None:
    frame = joined(encode_request(HEARTBEAT, version, correlation_id=7, client_id="cafe"))

    request = decode_request(frame)

    assert request.api.key is ApiKey.HEARTBEAT
    assert request.body == HEARTBEAT
    assert request.header == RequestHeader(
        request_api_key=12, request_api_version=version, correlation_id=7, client_id="cafe"
    )


@pytest.mark.parametrize("version", list(api(ApiKey.HEARTBEAT).versions))
def test_a_response_survives_the_wire_with_its_header(version: int) -> None:
    response = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    frame = joined(encode_response(response, version, correlation_id=7))
    assert decode_response(api(ApiKey.HEARTBEAT), version, frame) == (7, response)


def test_header_versions_follow_the_flexible_versions_of_the_message() -> None:
    heartbeat = api(ApiKey.HEARTBEAT)
    assert [request_header_version(heartbeat, v) for v in heartbeat.versions] == [1, 1, 1, 1, 2]
    assert [response_header_version(heartbeat, v) for v in heartbeat.versions] == [0, 0, 0, 0, 1]


def test_the_response_header_of_api_versions_is_always_v0() -> None:
    versions = api(ApiKey.API_VERSIONS)
    assert {response_header_version(versions, v) for v in versions.versions} == {0}
    assert [request_header_version(versions, v) for v in (0, 2, 3)] == [1, 1, 2]


def test_the_client_id_keeps_its_old_length_in_a_flexible_header() -> None:
    header = RequestHeader(
        request_api_key=18, request_api_version=3, correlation_id=1, client_id="me"
    )
    assert encode(header, 2) == bytes.fromhex("0012 0003 00000001 0002") + b"me" + b"\x00"


def test_an_unknown_version_of_api_versions_can_still_be_answered() -> None:
    request = ApiVersionsRequest(client_software_name="cafe", client_software_version="1")
    frame = bytearray(joined(encode_request(request, 3, correlation_id=9, client_id=None)))
    frame[2:4] = (99).to_bytes(2, "big")

    with pytest.raises(UnsupportedRequestError) as caught:
        decode_request(frame)

    assert caught.value.is_api_versions
    assert (caught.value.version, caught.value.correlation_id) == (99, 9)


def test_a_v0_answer_to_a_newer_api_versions_is_understood() -> None:
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=())
    frame = joined(encode_response(refusal, 0, correlation_id=9))

    correlation_id, response = decode_response(api(ApiKey.API_VERSIONS), 4, frame)

    assert correlation_id == 9
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("key", "version"), [(999, 0), (-1, 0), (ApiKey.HEARTBEAT, 5), (ApiKey.PRODUCE, 2)]
)
def test_an_api_or_version_we_do_not_have_is_refused(key: int, version: int) -> None:
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + bytes(20)
    with pytest.raises(UnsupportedRequestError, match=f"key {key} and version {version}"):
        decode_request(frame)


@pytest.mark.parametrize("size", range(10))
def test_a_frame_too_short_for_a_header_is_refused(size: int) -> None:
    with pytest.raises(WireError):
        decode_request(bytes(size))


def test_bytes_after_the_body_are_ignored() -> None:
    frame = joined(encode_request(HEARTBEAT, 4, correlation_id=7, client_id=None))
    assert decode_request(frame + b"more").body == HEARTBEAT


@pytest.mark.parametrize("client_id", [None, "", "cafe", "caf\u00e9"])
@pytest.mark.parametrize("version", list(api(ApiKey.HEARTBEAT).versions))
def test_the_header_that_clients_write_is_what_its_message_would_be(
    version: int, client_id: str | None
) -> None:
    header = RequestHeader(
        request_api_key=12, request_api_version=version, correlation_id=7, client_id=client_id
    )
    written = encode(header, request_header_version(api(ApiKey.HEARTBEAT), version))
    parts, size_bytes = encode_framed_request(HEARTBEAT, version, 7, client_words(client_id))
    frame = joined(parts)
    assert size_bytes == len(frame)
    assert frame[4:] == written + encode(HEARTBEAT, version)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4


def test_a_client_id_that_no_header_could_hold_is_refused() -> None:
    assert client_words("x" * 32_767)[:2] == b"\x7f\xff"
    with pytest.raises(WireError, match="32768 bytes is too long"):
        client_words("x" * 32_768)
