"""SaslHandshake (key 17): choose the SASL mechanism of a connection.

v0  raw tokens follow, each with a length and nothing else                 (KIP-43)
v1  tokens follow in SaslAuthenticate requests, which can report an error  (KIP-152)

There will be no v2 (KAFKA-9577): clients before 2.5 take the highest version that they are offered
here, known to them or not.
"""

from ottla.wire.schema import Int16, String, message


@message(key=17, versions="0-1")
class SaslHandshakeRequest:
    mechanism: String


@message(key=17, versions="0-1")
class SaslHandshakeResponse:
    error_code: Int16 = 0
    mechanisms: tuple[String, ...]
