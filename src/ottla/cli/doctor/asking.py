"""Asks a broker at one address, and no other: what a client does not do.

Clients go where brokers tell them to.  Whoever examines these very addresses needs a connection
that stays where it is.
"""

import socket
from struct import Struct
from types import TracebackType
from typing import Any, Final, Self

from ottla.client.addresses import Address
from ottla.errors import TransportError, WireError
from ottla.wire.header import decode_response, encode_request
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.registry import api_for

CLIENT_ID: Final = "ottla-doctor"
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024

_SIZE: Final = Struct(">i")
_API_VERSIONS: Final = 3


class Line:
    """A connection to one address; `OSError` says that it cannot be had, or broke."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.address = address
        self._socket = socket.create_connection(address, timeout_s)
        self._number = 0
        self._versions: dict[int, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    def api_versions(self) -> ApiVersionsResponse:
        """What the broker speaks; `ask` needs to know it.

        Raises:
            TransportError: It does not speak Kafka's protocol.
        """
        from ottla import __version__

        request = ApiVersionsRequest(
            client_software_name="ottla", client_software_version=__version__
        )
        answer: ApiVersionsResponse = self._ask(request, _API_VERSIONS)
        self._versions = {told.api_key: told.max_version for told in answer.api_keys}
        return answer

    def ask(self, request: Any, *, max_version: int) -> Any:
        """The answer to a request, in the newest version that both sides know."""
        theirs = self._versions.get(api_for(type(request)).key, 0)
        return self._ask(request, min(max_version, theirs))

    def _ask(self, request: Any, version: int) -> Any:
        self._number += 1
        parts = encode_request(request, version, correlation_id=self._number, client_id=CLIENT_ID)
        payload = b"".join(parts)
        self._socket.sendall(_SIZE.pack(len(payload)) + payload)
        (size_bytes,) = _SIZE.unpack(self._exactly(_SIZE.size))
        if not 0 < size_bytes <= MAX_ANSWER_BYTES:
            raise TransportError(f"{self.address} answered something that is not Kafka's protocol")
        try:
            number, answer = decode_response(
                api_for(type(request)), version, self._exactly(size_bytes)
            )
        except WireError as error:
            raise TransportError(f"{self.address} gave an answer without sense: {error}") from error
        if number != self._number:
            raise TransportError(f"{self.address} answered a question that was not asked")
        return answer

    def _exactly(self, size_bytes: int) -> bytes:
        data = bytearray()
        while len(data) < size_bytes:
            chunk = self._socket.recv(size_bytes - len(data))
            if not chunk:
                raise ConnectionResetError("the connection was closed without an answer")
            data += chunk
        return bytes(data)
