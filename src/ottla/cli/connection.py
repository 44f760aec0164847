"""Which broker a command talks to: `-b`, else `OTTLA_BOOTSTRAP`, else this machine.

Clients are imported when they are made: a command that only prints its help does without.  Who
types a command wants to know at once if nobody is there, so each address is tried once.  A broker
that goes away later is waited for, as long as `--timeout` says; what the client has to tell about
it meanwhile goes to stderr.
"""

import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import click

from ottla.values import dataclass

if TYPE_CHECKING:
    from typing import Unpack

    from ottla.client.admin.admin import Admin, AdminOptions
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.consumer.options import ConsumerOptions
    from ottla.client.producer.producer import Producer
    from ottla.client.producer.settings import ProducerSettings
    from ottla.why.access import Access

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP: Final = "localhost:9092"
CLIENT_ID: Final = "ottla-cli"


class _Client(Protocol):
    def connect(self, timeout: float | None = None, *, once: bool = False) -> None: ...

    def close(self) -> None: ...


C = TypeVar("C", bound=_Client)


@dataclass(frozen=True, slots=True)
class Connection:
    """Where to connect, and how patient to be.  Use what its methods return with `with`."""

    bootstrap: str
    timeout_s: float
    is_quiet: bool = False
    """Whether to keep to ourselves what clients warn of."""

    @property
    def timeout_ms(self) -> int:
        return max(2, int(self.timeout_s * 1000))

    def admin(self, **options: "Unpack[AdminOptions]") -> "Admin":
        """An admin client that has reached a broker."""
        from ottla.client.admin.admin import Admin

        return self._connected(Admin(self.bootstrap, **{**self._common(), **options}))

    def producer(self, **options: "Unpack[ProducerSettings]") -> "Producer[Any, Any]":
        """A producer that has reached a broker.  A record has `--timeout` to be acknowledged."""
        from ottla.client.producer.producer import Producer

        linger_ms = min(options.pop("linger_ms", 0), self.timeout_ms / 2)
        timeouts: ProducerSettings = {
            "linger_ms": linger_ms,
            "request_timeout_ms": int(self.timeout_ms - linger_ms),
            "delivery_timeout_ms": self.timeout_ms,
            "max_block_ms": self.timeout_ms,
        }
        return self._connected(
            Producer(self.bootstrap, **{**self._common(), **timeouts, **options})
        )

    def consumer(self, **options: "Unpack[ConsumerOptions]") -> "Consumer[Any, Any]":
        """A consumer without a group that has reached a broker."""
        from ottla.client.consumer.consumer import Consumer

        return self._connected(
            Consumer(bootstrap_servers=self.bootstrap, **{**self._common(), **options})
        )

    def access(self, admin: "Admin") -> "Access":
        """What `ottla.why` looks with."""
        from ottla.why.access import Access

        return Access(
            admin=admin,
            committed_reader=lambda: self.consumer(isolation_level="read_committed"),
            timeout_s=self.timeout_s,
        )

    def _common(self) -> dict[str, Any]:
        return {
            "client_id": CLIENT_ID,
            "request_timeout_ms": self.timeout_ms,
            "default_api_timeout_ms": self.timeout_ms,
        }

    def _connected(self, client: C) -> C:
        warnings = logging.getLogger("ottla.client")
        warnings.removeHandler(_TOLD)
        warnings.addHandler(_UNTOLD)  # why there is no connection is raised, too
        try:
            client.connect(once=True)
        except BaseException:
            client.close()
            raise
        if not self.is_quiet:
            warnings.addHandler(_TOLD)
        return client


class _Warnings(logging.Handler):
    """Shows on stderr what a client warns of while a command goes on."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"warning: {record.getMessage()}", err=True)


_TOLD: Final = _Warnings(logging.WARNING)
_UNTOLD: Final = logging.NullHandler()


def hear_clients(*, is_told: bool) -> None:
    """Show on stderr what clients warn of, or keep it to ourselves."""
    warnings = logging.getLogger("ottla.client")
    warnings.removeHandler(_TOLD)
    warnings.addHandler(_TOLD if is_told else _UNTOLD)


def connection_options(command: Command) -> Command:
    """Give `command` the options `-b` and `--timeout`; it gets them as `connection`."""

    @functools.wraps(command)
    def decorated(*args: Any, bootstrap: str, timeout: float, **kwargs: Any) -> Any:
        return command(*args, connection=Connection(bootstrap, timeout), **kwargs)

    with_timeout = click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=30.0,
        metavar="SECONDS",
        show_default=True,
        help="How long one answer may take.",
    )(decorated)
    with_bootstrap: Any = click.option(
        "-b",
        "--bootstrap",
        default=DEFAULT_BOOTSTRAP,
        envvar="OTTLA_BOOTSTRAP",
        metavar="HOST:PORT,...",
        show_default=True,
        show_envvar=True,
        help="The brokers to ask first.",
    )(with_timeout)
    return with_bootstrap  # type: ignore[no-any-return]
