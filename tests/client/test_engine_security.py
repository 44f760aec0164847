"""Connections that are encrypted, and clients that say who they are."""

import asyncio
import base64
import hashlib
import hmac
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.client.config import ClientConfig
from ottla.client.engine import Engine
from ottla.client.ports import real_ports
from ottla.errors import ConfigError, ConnectError, CredentialsError, TrustError
from ottla.ports import Ports
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.registry import ApiKey
from tests.client.certificates import AUTHORITY, CERTIFICATE, KEY, STRANGER
from tests.client.scripted import ScriptedBroker, Worlds, engine

SALT = b"a pinch of it"
ITERATIONS = 4096


class Guard:
    """The broker's side of SASL, for one connection."""

    def __init__(self, mechanism: str, check: Callable[[bytes], SaslAuthenticateResponse]) -> None:
        self.mechanism = mechanism
        self.check = check

    def protect(self, broker: ScriptedBroker) -> None:
        broker.handlers[ApiKey.SASL_HANDSHAKE] = self._handshake
        broker.handlers[ApiKey.SASL_AUTHENTICATE] = lambda r, v: self.check(bytes(r.auth_bytes))

    def _handshake(self, request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
        is_known = request.mechanism == self.mechanism
        return SaslHandshakeResponse(error_code=0 if is_known else 33, mechanisms=(self.mechanism,))


def accepted(data: bytes = b"", lifetime_ms: int = 0) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(auth_bytes=data, session_lifetime_ms=lifetime_ms)


def refused(message: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=58, error_message=message, auth_bytes=b"")


def plain(message: bytes) -> SaslAuthenticateResponse:
    return accepted() if message == b"\0ada\0lovelace" else refused("wrong password")


class ScramServer:
    """Knows the password; `is_impostor`: does not, and pretends."""

    def __init__(self, hash_name: str, password: str, *, is_impostor: bool = False) -> None:
        self._hash_name = hash_name
        self._salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), SALT, ITERATIONS)
        self._said: list[str] = []
        self._is_impostor = is_impostor

    def __call__(self, message: bytes) -> SaslAuthenticateResponse:
        text = message.decode()
        if text.startswith("n,,"):
            bare = text[3:]
            nonce = dict(part.split("=", 1) for part in bare.split(","))["r"] + "server"
            first = f"r={nonce},s={base64.b64encode(SALT).decode()},i={ITERATIONS}"
            self._said = [bare, first]
            return accepted(first.encode())
        without_proof, _, proof = text.rpartition(",p=")
        said = ",".join([*self._said, without_proof]).encode()
        client_key = self._hmac(self._salted, b"Client Key")
        stored = hashlib.new(self._hash_name, client_key).digest()
        signature = self._hmac(stored, said)
        shown = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if shown != client_key and not self._is_impostor:
            return refused("wrong password")
        verdict = self._hmac(self._hmac(self._salted, b"Server Key"), said)
        return accepted(b"v=" + base64.b64encode(verdict))

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash_name)


def log_in(guard: Guard, **options: Any) -> tuple[ScriptedBroker, Exception | None]:
    """Connect to a guarded broker: what it heard, and what the client raised."""
    broker = ScriptedBroker()
    guard.protect(broker)
    settings = {"security_protocol": "SASL_PLAINTEXT", **options}

    async def client(ports: Ports) -> Exception | None:
        asker = engine(ports, **settings)
        await asker.start()
        try:
            await asker.connect(3000)
        except (ConnectError, CredentialsError) as error:
            return error
        finally:
            await asker.close()
        return None

    with Worlds() as world:
        world.serve(broker)
        return broker, world.play(client)


ADA = {"sasl_username": "ada", "sasl_password": "lovelace"}


def test_a_name_and_a_password_let_us_in() -> None:
    broker, error = log_in(Guard("PLAIN", plain), sasl_mechanism="PLAIN", **ADA)
    assert error is None
    assert broker.count(SaslAuthenticateRequest) == 1


def test_a_wrong_password_is_told_at_once_and_not_tried_again() -> None:
    wrong = ADA | {"sasl_password": "byron"}
    broker, error = log_in(Guard("PLAIN", plain), sasl_mechanism="PLAIN", **wrong)
    assert isinstance(error, CredentialsError)
    assert error.fatal
    assert "wrong password" in str(error)
    assert "byron" not in str(error)
    assert broker.count(SaslAuthenticateRequest) == 1


def test_a_mechanism_that_the_broker_lacks_is_refused_with_those_it_has() -> None:
    _, error = log_in(Guard("SCRAM-SHA-256", plain), sasl_mechanism="PLAIN", **ADA)
    assert isinstance(error, CredentialsError)
    assert "accepts SCRAM-SHA-256, not PLAIN" in str(error)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_proves_both_sides(mechanism: str) -> None:
    server = ScramServer(f"sha{mechanism[-3:]}", "lovelace")
    broker, error = log_in(Guard(mechanism, server), sasl_mechanism=mechanism, **ADA)
    assert error is None
    assert broker.count(SaslAuthenticateRequest) == 2


def test_scram_lets_nobody_in_without_the_password() -> None:
    server = ScramServer("sha256", "byron")
    _, error = log_in(Guard("SCRAM-SHA-256", server), sasl_mechanism="SCRAM-SHA-256", **ADA)
    assert isinstance(error, CredentialsError)


def test_a_broker_that_does_not_know_the_password_is_an_impostor() -> None:
    server = ScramServer("sha256", "byron", is_impostor=True)
    _, error = log_in(Guard("SCRAM-SHA-256", server), sasl_mechanism="SCRAM-SHA-256", **ADA)
    assert isinstance(error, CredentialsError)
    assert "does not know the password" in str(error)


def bearer(message: bytes) -> SaslAuthenticateResponse:
    if message == b"n,,\x01auth=Bearer fresh\x01\x01":
        return accepted()
    if message == b"\x01":
        return refused("invalid_token")
    return accepted(b'{"status":"invalid_token"}')


def test_a_token_is_fetched_for_each_connection() -> None:
    async def token() -> str:
        return "fresh"

    for source in (token, lambda: "fresh"):
        _, error = log_in(
            Guard("OAUTHBEARER", bearer), sasl_mechanism="OAUTHBEARER", sasl_oauth_token=source
        )
        assert error is None


def no_token() -> str:
    raise RuntimeError("the login server is away")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (no_token, "sasl_oauth_token failed: RuntimeError: the login server is away"),
        (lambda: 7, "sasl_oauth_token returned int, not str"),
    ],
    ids=["raises", "is no text"],
)
def test_a_token_that_cannot_be_had_is_told(source: Callable[[], Any], words: str) -> None:
    _, error = log_in(
        Guard("OAUTHBEARER", bearer), sasl_mechanism="OAUTHBEARER", sasl_oauth_token=source
    )
    assert words in str(error)


def test_a_token_that_is_refused_is_acknowledged_and_told() -> None:
    broker, error = log_in(
        Guard("OAUTHBEARER", bearer),
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token=lambda: "stale",
    )
    assert isinstance(error, CredentialsError)
    assert "invalid_token" in str(error)
    assert broker.count(SaslAuthenticateRequest) == 2


def test_before_a_session_ends_we_say_again_who_we_are() -> None:
    broker = ScriptedBroker()
    Guard("PLAIN", lambda message: accepted(lifetime_ms=1_000)).protect(broker)
    broker.handlers[ApiKey.LIST_GROUPS] = lambda request, version: ListGroupsResponse(groups=())

    async def client(ports: Ports) -> None:
        asker = engine(ports, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", **ADA)
        await asker.start()

        async def work() -> None:
            while asker.now_ms() < 3_000:
                await asker.ask(ListGroupsRequest(), ListGroupsResponse)

        await asyncio.gather(*(work() for _ in range(4)))
        await asker.close()

    with Worlds() as world:
        world.serve(broker)
        world.play(client)
    assert broker.connection_count == 1
    assert broker.count(SaslAuthenticateRequest) == 4
    # Nothing comes between the two requests of an authentication.
    for first, second in zip(broker.heard, broker.heard[1:], strict=False):
        if isinstance(first.body, SaslHandshakeRequest):
            assert isinstance(second.body, SaslAuthenticateRequest)


@pytest.fixture(name="authority")
def authority_fixture(tmp_path: Path) -> Path:
    texts = {
        "ca.pem": AUTHORITY,
        "server.pem": CERTIFICATE + KEY,  # good for clients, too
        "stranger.pem": STRANGER,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path / "ca.pem"


class TlsDoor:
    """Takes TLS connections, and passes what is in them on to a broker."""

    def __init__(self, context: ssl.SSLContext, address: str) -> None:
        self._context = context
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._passing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0, ssl=self._context)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        if self._passing:  # or their sockets would be left open
            await asyncio.wait(self._passing)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        try:
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        except ConnectionError:
            return  # the client closed it, which is how these tests end
        finally:
            for end in (writer, far_writer):
                end.close()
                with suppress(OSError):
                    await end.wait_closed()


class Bouncer:
    """Lets nobody in without a certificate of the authority, and says so to one who tries.

    It blocks, in a thread: asyncio's servers drop the last words of a handshake that failed.
    """

    def __init__(self, authority: Path, newest: ssl.TLSVersion) -> None:
        self._context = _context(authority, newest, wants_yours=True)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._refuse)

    def __enter__(self) -> int:
        self._thread.start()
        port: int = self._socket.getsockname()[1]
        return port

    def __exit__(self, *error: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _refuse(self) -> None:
        while True:
            try:
                visitor, _ = self._socket.accept()
            except OSError:
                return  # it is over
            with visitor.dup() as below:  # the other one is closed by the failure
                with pytest.raises((ssl.SSLError, ConnectionError)):  # or the visitor has gone
                    self._context.wrap_socket(visitor, server_side=True)
                with suppress(OSError):  # where it does not wait for our last words
                    below.shutdown(socket.SHUT_WR)
                    while below.recv(4096):
                        pass  # to close it with something unread would take them back


def _context(authority: Path, newest: ssl.TLSVersion, *, wants_yours: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.with_name("server.pem"))
    context.maximum_version = newest
    if wants_yours:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority)
    return context


async def knock(config: ClientConfig) -> None:
    """Connect, and be gone."""
    asker = Engine(config, real_ports())
    await asker.start()
    try:
        await asker.connect(60_000)
    finally:
        await asker.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()


def reach(
    authority: Path,
    host: str = "localhost",
    *,
    newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    wants_yours: bool = False,
    **options: Any,
) -> None:
    """Connect to a broker through TLS; the metadata is the broker's own, in plain text."""

    async def scenario(address: str) -> None:
        async with TlsDoor(_context(authority, newest, wants_yours=wants_yours), address) as port:
            await knock(ClientConfig.of(f"{host}:{port}", security_protocol="SSL", **options))

    with ottla.Broker() as broker:
        asyncio.run(scenario(broker.bootstrap_servers))


def test_a_certificate_of_a_trusted_authority_opens_the_door(authority: Path) -> None:
    reach(authority, ssl_cafile=authority)


def test_a_ready_made_context_is_used_as_it_is(authority: Path) -> None:
    reach(authority, ssl_context=ssl.create_default_context(cafile=str(authority)))


def test_an_unknown_authority_is_not_trusted(authority: Path) -> None:
    with pytest.raises(TrustError, match="certificate") as caught:
        reach(authority)
    assert caught.value.fatal


def test_a_certificate_for_another_name_is_not_trusted_unless_names_do_not_matter(
    authority: Path,
) -> None:
    another = "127.1"  # the same address, and not in the certificate
    with pytest.raises(TrustError, match=r"127\.1"):
        reach(authority, another, ssl_cafile=authority)
    reach(
        authority,
        another,
        ssl_cafile=authority,
        config={"ssl.endpoint.identification.algorithm": "none"},
    )


VERSIONS = pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])


@VERSIONS
def test_our_certificate_opens_a_door_that_wants_one(
    authority: Path, newest: ssl.TLSVersion
) -> None:
    ours = authority.with_name("server.pem")
    reach(authority, newest=newest, wants_yours=True, ssl_cafile=authority, ssl_certfile=ours)


@VERSIONS
@pytest.mark.parametrize("shown", [None, "stranger.pem"])
def test_a_door_that_does_not_take_our_certificate_is_not_knocked_at_again(
    authority: Path, newest: ssl.TLSVersion, shown: str | None
) -> None:
    options: dict[str, Any] = {"ssl_cafile": authority}
    if shown is not None:
        options["ssl_certfile"] = authority.with_name(shown)
    with Bouncer(authority, newest) as port:
        config = ClientConfig.of(f"localhost:{port}", security_protocol="SSL", **options)
        with pytest.raises(TrustError, match="another certificate") as caught:
            asyncio.run(knock(config))
    assert caught.value.fatal


def test_tls_at_a_port_without_it_says_so(authority: Path) -> None:
    async def scenario(address: str) -> None:
        config = ClientConfig.of(address, security_protocol="SSL", ssl_cafile=authority)
        asker = Engine(config, real_ports())
        await asker.start()
        try:
            await asker.ask(ListGroupsRequest(), ListGroupsResponse)
        finally:
            await asker.close()

    with ottla.Broker() as broker, pytest.raises(ConnectError, match=r"127\.0\.0\.1.*TLS"):
        asyncio.run(scenario(broker.bootstrap_servers))


def test_a_file_that_is_no_certificate_is_an_error_of_the_settings(tmp_path: Path) -> None:
    nonsense = tmp_path / "ca.pem"
    nonsense.write_text("not a certificate", "utf-8")
    for path in (nonsense, tmp_path / "missing.pem"):
        config = ClientConfig.of("localhost", security_protocol="SSL", ssl_cafile=path)
        with pytest.raises(ConfigError, match=path.name):
            Engine(config, real_ports())
