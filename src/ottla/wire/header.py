"""Request and response headers, and which version of them goes with which message.

A request header is v2 where its message is flexible, v1 elsewhere; a response header is v1 or v0.
The one exception is ApiVersions, whose response header is always v0: a client that has not yet
learned what the broker speaks must be able to read the answer (KIP-511).
"""

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, Final

from ottla.errors import WireError
from ottla.values import NamedTuple
from ottla.wire.codec import Codec, Part, codec
from ottla.wire.registry import Api, ApiKey, api, api_for
from ottla.wire.schema import Int16, Int32, String, at, message

_KEY_AND_VERSION: Final = Struct(">hh")
_BEGINNING: Final = Struct(">hhi")
_LEAST_HEADER_BYTES: Final = 10
"""API key, version, correlation id, and the length of the client id."""


@message(versions="1-2", flexible="2+")
class RequestHeader:
    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32
    # Keeps its old length prefix, so that any broker can read the header of any ApiVersions.
    client_id: String | None = at("0+", flexible=False)


@message(versions="0-1", flexible="1+")
class ResponseHeader:
    correlation_id: Int32


class UnsupportedRequestError(WireError):
    """A request that we have no messages for; its connection can only be closed.

    The exception is ApiVersions: `is_api_versions` says that `ottla.wire.header.encode_response`
    with version 0 will be understood, whatever version was asked for.
    """

    def __init__(self, key: int, version: int, correlation_id: int) -> None:
        super().__init__(f"no API has key {key} and version {version} here")
        self.key = key
        self.version = version
        self.correlation_id = correlation_id

    @property
    def is_api_versions(self) -> bool:
        return self.key == ApiKey.API_VERSIONS


class Request(NamedTuple):
    """A request as it arrived: header, body, and the API it belongs to."""

    api: Api
    header: RequestHeader
    body: Any


class _RequestCodecs(NamedTuple):
    api: Api
    header: Codec
    body: Codec


class _ResponseCodecs(NamedTuple):
    header: Struct
    """Packs the size of the frame and a `ResponseHeader`.  Two integers are not worth the making of
    a message and a list of parts for every response; a test compares the two."""
    body: Codec


class _AskedCodecs(NamedTuple):
    key: ApiKey
    tags: bytes
    """What ends the header: that there are no tagged fields, where it can have some."""
    body: Codec


class _AnswerCodecs(NamedTuple):
    header: Codec
    body: Codec


_REQUEST_HEADER: Final = Struct(">ihhi")
"""Size, key, version, correlation id: what is in front of a client's name.  As for responses, this
is what a `RequestHeader` would be encoded to, and a test compares the two."""

_TAGGED_REQUEST_HEADER: Final = 2
_NO_TAGS: Final = b"\0"
_INT16: Final = Struct(">h")
_MAX_INT16: Final = 2**15 - 1

_RESPONSE_HEADERS: Final = (Struct(">ii"), Struct(">iix"))
"""By version: size and correlation id, and from v1 on that there are no tagged fields."""

_SIZE_BYTES: Final = 4


# Which codecs go with a message and version is found out once: it is asked for every request.
_request_codecs: Final[dict[tuple[int, int], _RequestCodecs]] = {}
_response_codecs: Final[dict[tuple[type[Any], int], _ResponseCodecs]] = {}
_asked_codecs: Final[dict[tuple[type[Any], int], _AskedCodecs]] = {}
_answer_codecs: Final[dict[tuple[type[Any], int], _AnswerCodecs]] = {}


def request_header_version(of: Api, version: int) -> int:
    """The version of the header in front of a request."""
    return 2 if version in of.flexible else 1


def response_header_version(of: Api, version: int) -> int:
    """The version of the header in front of a response."""
    return 1 if version in of.flexible and of.key is not ApiKey.API_VERSIONS else 0


_request: Final[Callable[[tuple[Api, RequestHeader, Any]], Request]] = partial(
    tuple.__new__, Request
)
"""As `Request(...)`, but in one step: a named tuple is made by a function in Python."""


def decode_request(frame: Part) -> Request:
    """Decode a request; records in it are views of `frame`.

    Bytes after the body are ignored, as Kafka does.  Raises `UnsupportedRequestError` for an API
    or version we do not have, and `WireError` for anything that is not a request.
    """
    if len(frame) < _LEAST_HEADER_BYTES:
        raise WireError(f"a request of {len(frame)} bytes has no room for a header")
    known = _request_codecs.get(_KEY_AND_VERSION.unpack_from(frame))
    if known is None:
        known = _codecs_for(frame)
    of, header_codec, body_codec = known
    header, position = header_codec.decode(frame)
    return _request((of, header, body_codec.decode(frame, position)[0]))


def _codecs_for(frame: Part) -> _RequestCodecs:
    key, version, correlation_id = _BEGINNING.unpack_from(frame)
    try:
        of = api(ApiKey(key))
    except ValueError:
        of = None
    if of is None or version not in of.versions:
        raise UnsupportedRequestError(key, version, correlation_id)
    known = _RequestCodecs(
        of,
        codec(RequestHeader, request_header_version(of, version)),
        codec(of.request, version),
    )
    _request_codecs[key, version] = known
    return known


def encode_request(
    body: Any, version: int, *, correlation_id: int, client_id: str | None
) -> list[Part]:
    """Encode a request with its header, without the size in front; records are not copied."""
    client = client_words(client_id)
    (head, *parts), _ = encode_framed_request(body, version, correlation_id, client)
    return [head[_SIZE_BYTES:], *parts]


def client_words(client_id: str | None) -> bytes:
    """A client's name as the headers of its requests have it: the same in each of them."""
    if client_id is None:
        return _INT16.pack(-1)
    name = client_id.encode()
    if len(name) > _MAX_INT16:
        raise WireError(f"a client id of {len(name)} bytes is too long for a header")
    return _INT16.pack(len(name)) + name


def encode_framed_request(
    body: Any, version: int, correlation_id: int, client: bytes
) -> tuple[list[Part], int]:
    """Encode a request with its header and with the size of both in front: its parts, and how many
    bytes they are.

    `client` is what `client_words` makes of a client's name.
    """
    known = _asked_codecs.get((type(body), version))
    if known is None:
        of = api_for(type(body))
        is_tagged = request_header_version(of, version) == _TAGGED_REQUEST_HEADER
        known = _AskedCodecs(of.key, _NO_TAGS if is_tagged else b"", codec(of.request, version))
        _asked_codecs[type(body), version] = known
    key, tags, body_codec = known
    parts = body_codec.encode(body)
    size_bytes = _REQUEST_HEADER.size - _SIZE_BYTES + len(client) + len(tags)
    size_bytes += len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
    parts.insert(0, _REQUEST_HEADER.pack(size_bytes, key, version, correlation_id) + client + tags)
    return parts, _SIZE_BYTES + size_bytes


def decode_response(of: Api, version: int, frame: Part) -> tuple[int, Any]:
    """Decode the response to a request of `version`: its correlation id and its body.

    An ApiVersions response that cannot be read as `version` is read as v0, in which a broker
    answers versions that it does not know.
    """
    known = _answer_codecs.get((of.response, version))
    if known is None:
        header_codec = codec(ResponseHeader, response_header_version(of, version))
        known = _AnswerCodecs(header_codec, codec(of.response, version))
        _answer_codecs[of.response, version] = known
    header, position = known.header.decode(frame)
    try:
        body, _ = known.body.decode(frame, position)
    except WireError:
        if of.key is not ApiKey.API_VERSIONS or version == 0:
            raise
        body, _ = codec(of.response, 0).decode(frame, position)
    return header.correlation_id, body


def encode_response(body: Any, version: int, *, correlation_id: int) -> list[Part]:
    """Encode a response with its header, without the size in front; records are not copied."""
    (head, *parts), _ = encode_framed_response(body, version, correlation_id)
    return [head[_SIZE_BYTES:], *parts]


def encode_framed_response(body: Any, version: int, correlation_id: int) -> tuple[list[Part], int]:
    """Encode a response with its header and with the size of both in front: its parts, and how many
    bytes they are.
    """
    known = _response_codecs.get((type(body), version))
    if known is None:
        of = api(ApiKey(body.__api__.key))
        known = _ResponseCodecs(
            _RESPONSE_HEADERS[response_header_version(of, version)],
            codec(of.response, version),
        )
        _response_codecs[type(body), version] = known
    header, body_codec = known
    parts = body_codec.encode(body)
    size_bytes = header.size + (len(parts[0]) if len(parts) == 1 else sum(map(len, parts)))
    parts.insert(0, header.pack(size_bytes - _SIZE_BYTES, correlation_id))
    return parts, size_bytes
