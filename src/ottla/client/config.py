"""Settings that every client has, and how all of a client's settings are read.

A setting has two names: Kafka's, with dots, and Python's, with underscores.  `ClientConfig.of`
takes both, as strings or as native values.  A name that nobody declared is a `ConfigError` that
suggests one that somebody did; a name of other clients that means nothing here says what to use.

`setting` declares what Kafka can write as text.  `plug` declares the rest: functions and objects
that users bring, and values with a syntax of their own.
"""

import dataclasses
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from ottla.client.addresses import DEFAULT_BOOTSTRAP, Address, parse_bootstrap
from ottla.client.buffers import ANSWER_BYTES
from ottla.config import (
    INT32_MAX,
    MIB,
    MINUTE_MS,
    SECOND_MS,
    Declared,
    Kind,
    check_ranges,
    setting,
    settings_of,
    unknown_setting,
)
from ottla.errors import ConfigError

if TYPE_CHECKING:
    from ssl import SSLContext

BOOTSTRAP_VARIABLE: Final = "OTTLA_BOOTSTRAP"
"""The environment variable that names the brokers for clients which were not told."""

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_PLUG_KEY: Final = "ottla.plug"
_UPPER_CASE: Final = frozenset({"security.protocol", "sasl.mechanism"})
_LOWER_CASE: Final = frozenset({"group.protocol", "metadata.recovery.strategy"})

TokenSource = Callable[[], str | Awaitable[str]]
"""Gives a fresh OAuth token.  A function is called in a thread of its own, and may block."""

_ELSEWHERE: Final[Mapping[str, str]] = {
    "key.serializer": "pass key_serde= or key_serializer= to the producer",
    "value.serializer": "pass value_serde= or value_serializer= to the producer",
    "key.deserializer": "pass key_serde= or key_deserializer= to the consumer",
    "value.deserializer": "pass value_serde= or value_deserializer= to the consumer",
    "interceptor.classes": "pass interceptors=",
    "partitioner.class": "pass partitioner=, a function or a name",
    "sasl.jaas.config": "use sasl.username and sasl.password",
    "sasl.client.callback.handler.class": "use sasl.username and sasl.password",
    "sasl.login.callback.handler.class": "pass sasl_oauth_token=",
    "sasl.oauthbearer.token.endpoint.url": "pass sasl_oauth_token=, a function that fetches it",
    "ssl.truststore.location": "use ssl.ca.location, a PEM file",
    "ssl.truststore.certificates": "use ssl.ca.location, a PEM file",
    "ssl.truststore.password": "PEM files of certificates have no password",
    "ssl.truststore.type": "certificates are PEM files",
    "ssl.keystore.location": "use ssl.certificate.location and ssl.key.location, PEM files",
    "ssl.keystore.certificate.chain": "use ssl.certificate.location, a PEM file",
    "ssl.keystore.key": "use ssl.key.location, a PEM file",
    "ssl.keystore.password": "use ssl.key.password",
    "ssl.keystore.type": "keys are PEM files",
    "ssl.protocol": "pass ssl_context= for full control; TLS 1.2 and newer are used",
    "ssl.enabled.protocols": "pass ssl_context= for full control; TLS 1.2 and newer are used",
    "client.dns.lookup": "all addresses of a name are tried, always",
    "enable.metrics.push": "nothing is pushed; see metrics()",
    "metric.reporters": "nothing is reported; see metrics()",
    "metrics.num.samples": "see metrics()",
    "metrics.recording.level": "see metrics()",
    "metrics.sample.window.ms": "see metrics()",
}
"""Names that Kafka's Java client knows -> what to do here instead."""


@dataclass(frozen=True, slots=True)
class Plug:
    """How a value that is no plain setting is read: `read` raises `ConfigError`, or returns it."""

    name: str
    read: Callable[[object], Any]


def plug(name: str, default: Any, read: Callable[[object], Any]) -> Any:
    """Declare a value that users bring, under its dotted name."""
    return dataclasses.field(default=default, metadata={_PLUG_KEY: Plug(name, read)})


def plugs_of(cls: type[Declared]) -> dict[str, Plug]:
    """Attribute -> what it is, of everything that is declared with `plug`."""
    found = {field.name: field.metadata.get(_PLUG_KEY) for field in dataclasses.fields(cls)}
    return {name: point for name, point in found.items() if point is not None}


def callable_or_none(name: str) -> Callable[[object], Any]:
    """Reads a function, or nothing."""

    def read(value: object) -> Any:
        if value is None or callable(value):
            return value
        raise ConfigError(f"{name} = {value!r} is not a function")

    return read


def tuple_of(name: str, methods: Iterable[str]) -> Callable[[object], Any]:
    """Reads a sequence of objects, each with all of `methods`."""
    wanted = tuple(methods)

    def read(value: object) -> Any:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise ConfigError(f"{name} = {value!r} is not a sequence")
        items = tuple(value)
        for item in items:
            missing = [method for method in wanted if not callable(getattr(item, method, None))]
            if missing:
                raise ConfigError(f"{name}: {item!r} has no method {missing[0]}")
        return items

    return read


def _read_context(value: object) -> Any:
    if value is None or hasattr(value, "wrap_bio"):
        return value
    raise ConfigError(f"ssl_context = {value!r} is not an ssl.SSLContext")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """What producers, consumers and admin clients have in common."""

    bootstrap_servers: tuple[str, ...] = setting(
        "bootstrap.servers", (DEFAULT_BOOTSTRAP,), aliases=("metadata.broker.list",)
    )
    """The brokers to ask first, as host:port; the others are found through them.  Without it the
    environment variable OTTLA_BOOTSTRAP counts."""

    client_id: str = setting("client.id", "")
    """How the client is called in the logs and quotas of brokers; empty: its kind and a number."""

    request_timeout_ms: int = setting("request.timeout.ms", 30 * SECOND_MS, low=1)
    """How long one answer may take; then the connection is given up, and the request repeated."""

    default_api_timeout_ms: int = setting("default.api.timeout.ms", 60 * SECOND_MS, low=1)
    """How long a call may take, with all its repetitions, unless it has a timeout of its own."""

    retry_backoff_ms: int = setting("retry.backoff.ms", 100, kind=Kind.LONG, low=0)
    """The pause before a failed request is repeated; it doubles with each failure, up to
    retry.backoff.max.ms, and varies by a fifth."""

    retry_backoff_max_ms: int = setting("retry.backoff.max.ms", SECOND_MS, kind=Kind.LONG, low=0)
    """The longest pause before a failed request is repeated."""

    reconnect_backoff_ms: int = setting("reconnect.backoff.ms", 50, kind=Kind.LONG, low=0)
    """The pause before a broker is tried again; it doubles with each failure, up to
    reconnect.backoff.max.ms, and varies by a fifth."""

    reconnect_backoff_max_ms: int = setting(
        "reconnect.backoff.max.ms", SECOND_MS, kind=Kind.LONG, low=0
    )
    """The longest pause before a broker is tried again."""

    socket_connection_setup_timeout_ms: int = setting(
        "socket.connection.setup.timeout.ms", 10 * SECOND_MS, kind=Kind.LONG, low=1
    )
    """How long making a connection may take; it doubles with each failure."""

    socket_connection_setup_timeout_max_ms: int = setting(
        "socket.connection.setup.timeout.max.ms", 30 * SECOND_MS, kind=Kind.LONG, low=1
    )
    """The longest that making a connection may take."""

    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms", 9 * MINUTE_MS, kind=Kind.LONG, low=-1
    )
    """A connection that nobody used for so long is closed; -1 keeps it.  Brokers close it after
    ten minutes."""

    metadata_max_age_ms: int = setting("metadata.max.age.ms", 5 * MINUTE_MS, kind=Kind.LONG, low=0)
    """How long what is known of topics and leaders counts as new, if nothing contradicts it."""

    metadata_recovery_strategy: str = setting(
        "metadata.recovery.strategy", "rebootstrap", choices=("rebootstrap", "none")
    )
    """Whether to begin again with bootstrap.servers when no known broker can be reached."""

    metadata_recovery_rebootstrap_trigger_ms: int = setting(
        "metadata.recovery.rebootstrap.trigger.ms", 5 * MINUTE_MS, kind=Kind.LONG, low=0
    )
    """How long metadata may fail to be refreshed before everything known is forgotten."""

    metadata_cluster_check_enable: bool = setting("metadata.cluster.check.enable", True)
    """Whether to tell brokers which cluster and node is meant, so that others refuse."""

    max_in_flight_requests_per_connection: int = setting(
        "max.in.flight.requests.per.connection", 100, low=1, aliases=("max.in.flight",)
    )
    """How many requests may wait for their answers on one connection."""

    receive_message_max_bytes: int = setting(
        "receive.message.max.bytes", 256 * MIB, low=1000, high=INT32_MAX
    )
    """The largest answer that is taken in; a larger one closes the connection."""

    send_buffer_bytes: int = setting("send.buffer.bytes", -1, low=-1)
    """The socket's buffer for what is sent; -1, our default, leaves it to the system, which adapts
    it (Kafka: 131072)."""

    receive_buffer_bytes: int = setting("receive.buffer.bytes", -1, low=-1)
    """The socket's buffer for what arrives; -1, our default, leaves it to the system, which adapts
    it (Kafka: 65536, and 32768 for producers)."""

    security_protocol: str = setting(
        "security.protocol",
        "PLAINTEXT",
        choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    """Whether connections are encrypted (SSL) and clients authenticate themselves (SASL)."""

    sasl_mechanism: str | None = setting(
        "sasl.mechanism",
        None,
        kind=Kind.STRING,
        choices=MECHANISMS,
        nullable=True,
        aliases=("sasl.mechanisms",),
    )
    """How the client authenticates itself; needed with SASL (Kafka: GSSAPI, which we lack)."""

    sasl_username: str | None = setting("sasl.username", None, kind=Kind.STRING, nullable=True)
    """The user's name, for PLAIN and SCRAM."""

    sasl_password: str | None = setting(
        "sasl.password", None, kind=Kind.STRING, nullable=True, sensitive=True
    )
    """The user's password, for PLAIN and SCRAM."""

    sasl_oauth_token: TokenSource | None = plug(
        "sasl.oauth.token", None, callable_or_none("sasl_oauth_token")
    )
    """A function, plain or async, that returns a token, for OAUTHBEARER."""

    ssl_cafile: str | None = setting(
        "ssl.ca.location", None, kind=Kind.STRING, nullable=True, aliases=("ssl.cafile",)
    )
    """PEM file of the authorities to trust; without it, those that the system trusts."""

    ssl_certfile: str | None = setting(
        "ssl.certificate.location", None, kind=Kind.STRING, nullable=True, aliases=("ssl.certfile",)
    )
    """PEM file with the client's own certificate, where brokers ask for one."""

    ssl_keyfile: str | None = setting(
        "ssl.key.location", None, kind=Kind.STRING, nullable=True, aliases=("ssl.keyfile",)
    )
    """PEM file with the key of that certificate, if it is not in the same file."""

    ssl_key_password: str | None = setting(
        "ssl.key.password", None, kind=Kind.STRING, nullable=True, sensitive=True
    )
    """What the key is encrypted with."""

    ssl_cipher_suites: str | None = setting(
        "ssl.cipher.suites", None, kind=Kind.STRING, nullable=True
    )
    """Ciphers for TLS 1.2, as OpenSSL lists them; None: those that Python finds good."""

    ssl_endpoint_identification_algorithm: str = setting(
        "ssl.endpoint.identification.algorithm", "https", choices=("https", "none", "")
    )
    """https: a broker's certificate must be for the host that was asked for; none: for any."""

    ssl_context: "SSLContext | None" = plug("ssl.context", None, _read_context)
    """A ready-made context, in place of all other ssl settings."""

    def __post_init__(self) -> None:
        check_ranges(self)
        parse_bootstrap(self.bootstrap_servers)
        self._check_security()

    @property
    def addresses(self) -> list[Address]:
        """`bootstrap.servers`, parsed."""
        return parse_bootstrap(self.bootstrap_servers)

    @property
    def usual_answer_bytes(self) -> int:
        """Up to which size an answer is nothing special; see `ottla.client.buffers`."""
        return ANSWER_BYTES

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @classmethod
    def of(
        cls,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        config: Mapping[str, object] | None = None,
        **options: object,
    ) -> Self:
        """Read the settings of a client as its constructor gets them.

        Args:
            bootstrap_servers: One string with commas, or several strings.
            config: Settings under Kafka's dotted names.
            options: Settings under their Python names.

        Raises:
            ConfigError: A setting is unknown, given twice, of the wrong type, or out of range.
        """
        if bootstrap_servers is not None:
            given = bootstrap_servers
            options["bootstrap.servers"] = given if isinstance(given, str) else tuple(given)
        values = _read_all(cls, [*options.items(), *(config or {}).items()])
        if "bootstrap_servers" not in values and (found := os.environ.get(BOOTSTRAP_VARIABLE)):
            values["bootstrap_servers"] = tuple(part.strip() for part in found.split(","))
        cls._check_given(values)
        return cls(**values)

    @classmethod
    def _check_given(cls, values: Mapping[str, Any]) -> None:
        """Raise `ConfigError` if what was given, by attribute, contradicts itself."""

    def _check_security(self) -> None:
        if not self.uses_sasl:
            if self.sasl_mechanism is not None:
                raise ConfigError(
                    f"sasl.mechanism = {self.sasl_mechanism} is not used with security.protocol = "
                    f"{self.security_protocol}; use SASL_SSL or SASL_PLAINTEXT"
                )
            return
        if self.sasl_mechanism is None:
            raise ConfigError(
                f"security.protocol = {self.security_protocol} needs a sasl.mechanism: "
                f"{', '.join(MECHANISMS)}"
            )
        if self.sasl_mechanism == "OAUTHBEARER":
            if self.sasl_oauth_token is None:
                raise ConfigError(
                    "sasl.mechanism = OAUTHBEARER needs sasl_oauth_token=, a function"
                )
        elif not self.sasl_username or self.sasl_password is None:
            raise ConfigError(
                f"sasl.mechanism = {self.sasl_mechanism} needs sasl.username and sasl.password"
            )


def _read_all(cls: type[Declared], given: Iterable[tuple[str, object]]) -> dict[str, Any]:
    """Attribute -> typed value, of everything that was given."""
    readers = _readers(cls)
    values: dict[str, Any] = {}
    for name, value in given:
        if name not in readers:
            raise _unknown(name, readers)
        attribute, read = readers[name]
        if attribute in values:
            raise ConfigError(f"{attribute} is given twice, once as {name}")
        values[attribute] = read(value)
    return values


def _readers(cls: type[Declared]) -> dict[str, tuple[str, Callable[[object], Any]]]:
    """Every name under which something can be given -> its attribute, and what reads it."""
    found: dict[str, tuple[str, Callable[[object], Any]]] = {}
    for declared in settings_of(cls).values():
        entry = (declared.attribute, _native(declared.name, declared.parse))
        for dotted in (declared.name, *declared.aliases):
            found[dotted] = found[dotted.replace(".", "_")] = entry
        found[declared.attribute] = entry
    for attribute, point in plugs_of(cls).items():
        found[point.name] = found[attribute] = (attribute, point.read)
    return found


def _native(name: str, parse: Callable[[object], Any]) -> Callable[[object], Any]:
    """Python's ways to say it: paths may be `PathLike`, and some words are of any case."""

    def read(value: object) -> Any:
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if isinstance(value, str) and name in _UPPER_CASE:
            value = value.upper()
        if isinstance(value, str) and name in _LOWER_CASE:
            value = value.lower()
        return parse(value)

    return read


def _unknown(name: str, known: Iterable[str]) -> ConfigError:
    dotted = name if "." in name else name.replace("_", ".")
    if dotted in _ELSEWHERE:
        return ConfigError(f"{name} is a setting of other clients; {_ELSEWHERE[dotted]}")
    # In the dialect in which it was asked for.
    has_dots = "." in name
    return unknown_setting(name, [other for other in known if ("." in other) == has_dots])
