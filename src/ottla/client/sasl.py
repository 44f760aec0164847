"""The client's side of SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.

Pure.  A conversation begins with `first`; each answer of the broker goes into `step`, which returns
what to say next, or None when there is nothing more to say and the broker has proven all that the
mechanism wants it to prove.  `CredentialsError` says that it has not.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final, Protocol

from ottla.errors import CredentialsError, ErrorCode

NONCE_BYTES: Final = 24
MIN_ITERATIONS: Final = 4_096
"""RFC 7677: fewer would make the password cheap to guess."""
MAX_ITERATIONS: Final = 1 << 20
"""More would keep the I/O thread busy for seconds."""

_CLIENT_ERROR: Final = b"\x01"


class Conversation(Protocol):
    """One authentication, from the client's side."""

    def first(self) -> bytes: ...

    def step(self, challenge: bytes) -> bytes | None: ...


def refused(detail: str) -> CredentialsError:
    """The error for an authentication that failed."""
    return CredentialsError(ErrorCode.SASL_AUTHENTICATION_FAILED, detail)


class Plain:
    """RFC 4616: name and password as they are, so use it over TLS only."""

    def __init__(self, username: str, password: str) -> None:
        self._message = b"\0".join((b"", username.encode(), password.encode()))

    def first(self) -> bytes:
        return self._message

    def step(self, challenge: bytes) -> bytes | None:
        return None


class OAuthBearer:
    """RFC 7628: a token that somebody else issued.

    Extensions are for brokers that want to know more, e.g. which cluster is meant (KIP-342).
    """

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        fields = {"auth": f"Bearer {token}", **(extensions or {})}
        listed = "".join(f"{key}={value}\x01" for key, value in fields.items())
        self._message = f"n,,\x01{listed}\x01".encode()

    def first(self) -> bytes:
        return self._message

    def step(self, challenge: bytes) -> bytes | None:
        # Silence is success.  Words are an error, which we acknowledge; then the broker refuses us.
        return _CLIENT_ERROR if challenge else None


class Scram:
    """RFC 5802: both sides prove that they know the password, and neither says it.

    Args:
        hash_name: Of hashlib: sha256 or sha512.
        nonce: Random, printable, without commas; new for each conversation.
    """

    def __init__(self, hash_name: str, username: str, password: str, nonce: str) -> None:
        self._hash_name = hash_name
        self._password = password.encode()
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={nonce}"
        self._server_signature: bytes | None = None
        self._is_done = False

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def step(self, challenge: bytes) -> bytes | None:
        assert not self._is_done, "the conversation is over"
        if self._server_signature is None:
            return self._prove(challenge)
        self._check(challenge, self._server_signature)
        self._is_done = True
        return None

    def _prove(self, challenge: bytes) -> bytes:
        fields = _fields(challenge)
        nonce, salt, iterations = _wanted(fields, "r"), _wanted(fields, "s"), _wanted(fields, "i")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise refused("the broker answered another conversation: its nonce does not match")
        salted = hashlib.pbkdf2_hmac(
            self._hash_name, self._password, _decoded(salt), _iterations(iterations)
        )
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash_name, client_key).digest()
        without_proof = f"c=biws,r={nonce}"
        said = f"{self._bare},{challenge.decode()},{without_proof}".encode()
        signature = self._hmac(stored_key, said)
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), said)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _check(self, verdict: bytes, expected: bytes) -> None:
        fields = _fields(verdict)
        if "e" in fields:
            raise refused(f"the broker refused the password: {fields['e']}")
        if not hmac.compare_digest(_decoded(_wanted(fields, "v")), expected):
            raise refused("the broker does not know the password: its signature is wrong")

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash_name)


def conversation(
    mechanism: str, *, username: str, password: str, token: str, random_bytes: bytes
) -> Conversation:
    """Begin a conversation of one of the mechanisms that `sasl.mechanism` allows."""
    match mechanism:
        case "PLAIN":
            return Plain(username, password)
        case "SCRAM-SHA-256" | "SCRAM-SHA-512":
            nonce = base64.b64encode(random_bytes).decode()
            return Scram(f"sha{mechanism[-3:]}", username, password, nonce)
        case "OAUTHBEARER":
            return OAuthBearer(token)
        case _:
            raise AssertionError(mechanism)


def _fields(message: bytes) -> dict[str, str]:
    """`r=...,s=...` as a mapping; whatever it is not, is no field."""
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise refused("the broker's answer is not text") from None
    return {key: value for key, equals, value in (p.partition("=") for p in parts) if equals}


def _wanted(fields: Mapping[str, str], key: str) -> str:
    if key not in fields:
        raise refused(f"the broker's answer has no field {key!r}")
    return fields[key]


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise refused("the broker's answer is not base64") from None


def _iterations(text: str) -> int:
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    if not MIN_ITERATIONS <= count <= MAX_ITERATIONS:
        raise refused(f"{text!r} iterations are not {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    return count
