"""The first words on a connection: what do you speak, and who am I?

ApiVersions comes first, in our newest version; a broker that is older says so in version 0, with
the version that it does know (KIP-511).  Then, where it is asked for, SASL.
"""

import asyncio
import inspect
from typing import Final

from ottla import __version__
from ottla.client.config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.sasl import NONCE_BYTES, conversation
from ottla.client.versions import BrokerVersions, fallback_version
from ottla.errors import ConnectError, CredentialsError, ErrorCode, raise_for_code
from ottla.ports import Entropy
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.registry import ApiKey, api

SOFTWARE: Final = "ottla"
_HANDSHAKE_VERSION: Final = 1
_MAX_ROUNDS: Final = 8
"""No mechanism of ours has more than three; a broker that goes on is none."""


async def negotiate(
    connection: Connection, *, cluster_id: str | None, node_id: int, timeout_ms: int
) -> BrokerVersions:
    """Ask what the broker speaks.  `cluster_id` and `node_id` say whom we mean, if we know."""
    question = ApiVersionsRequest(
        client_software_name=SOFTWARE,
        client_software_version=__version__,
        cluster_id=cluster_id if node_id >= 0 else None,
        node_id=node_id if cluster_id is not None and node_id >= 0 else -1,
    )
    version = api(ApiKey.API_VERSIONS).versions.high
    while True:
        answer: ApiVersionsResponse = await connection.request(
            question, version, timeout_ms=timeout_ms
        )
        if answer.error_code != ErrorCode.UNSUPPORTED_VERSION or version == 0:
            break
        version = min(fallback_version(answer), version - 1)
    raise_for_code(answer.error_code, connection.name)
    return BrokerVersions.of(answer)


async def authenticate(
    connection: Connection, config: ClientConfig, entropy: Entropy, *, timeout_ms: int
) -> int:
    """Say who we are; returns for how many milliseconds that counts, 0 for ever.

    Raises `CredentialsError` if the broker does not let us in, or cannot prove itself.
    """
    mechanism = config.sasl_mechanism
    assert mechanism is not None
    await _choose(connection, mechanism, timeout_ms)
    talk = conversation(
        mechanism,
        username=config.sasl_username or "",
        password=config.sasl_password or "",
        token=await _token(config),
        random_bytes=entropy.random_bytes(NONCE_BYTES),
    )
    version = connection.versions.pick(api(ApiKey.SASL_AUTHENTICATE), broker=connection.name)
    message = talk.first()
    for _ in range(_MAX_ROUNDS):
        answer: SaslAuthenticateResponse = await connection.request(
            SaslAuthenticateRequest(auth_bytes=message), version, timeout_ms=timeout_ms
        )
        raise_for_code(answer.error_code, f"{connection.name}: {answer.error_message or ''}")
        reply = talk.step(bytes(answer.auth_bytes))
        if reply is None:
            return answer.session_lifetime_ms
        message = reply
    raise CredentialsError(
        ErrorCode.SASL_AUTHENTICATION_FAILED, f"{connection.name}: {mechanism} comes to no end"
    )


async def _choose(connection: Connection, mechanism: str, timeout_ms: int) -> None:
    answer: SaslHandshakeResponse = await connection.request(
        SaslHandshakeRequest(mechanism=mechanism), _HANDSHAKE_VERSION, timeout_ms=timeout_ms
    )
    raise_for_code(
        answer.error_code,
        f"{connection.name} accepts {', '.join(answer.mechanisms) or 'no mechanism'}, "
        f"not {mechanism}",
    )


async def _token(config: ClientConfig) -> str:
    """A fresh token; the function that fetches it may block, or be async."""
    source = config.sasl_oauth_token
    if source is None or config.sasl_mechanism != "OAUTHBEARER":
        return ""
    try:
        if inspect.iscoroutinefunction(source):
            token = await source()
        else:
            token = await asyncio.get_running_loop().run_in_executor(None, source)
            if inspect.isawaitable(token):
                token = await token
    except Exception as error:  # whatever it is, it may be better next time, and is told
        raise ConnectError(f"sasl_oauth_token failed: {type(error).__name__}: {error}") from error
    if not isinstance(token, str):
        raise ConnectError(f"sasl_oauth_token returned {type(token).__name__}, not str")
    return token
