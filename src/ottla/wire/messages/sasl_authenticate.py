"""SaslAuthenticate (key 36): one step of a SASL conversation.

v0  the first version                                       (KIP-152)
v1  adds session_lifetime_ms: authenticate again within it  (KIP-368)
v2  first flexible version

Sent after SaslHandshake v1, as often as the mechanism has rounds.
"""

from ottla.wire.schema import Bytes, Int16, Int64, String, at, message


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    auth_bytes: Bytes


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    error_code: Int16 = 0
    error_message: String | None = None
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = at("1+", default=0, ignorable=True)  # 0: no end
