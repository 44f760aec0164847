"""Which broker a command talks to: `-b`, else `OTTLA_BOOTSTRAP`, else this machine.

The client is imported when a connection is opened: a command that only prints its help does
without.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ottla.values import dataclass

if TYPE_CHECKING:
    from ottla.client.basic.client import BasicClient

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP: Final = "localhost:9092"


@dataclass(frozen=True, slots=True)
class Connection:
    """Where to connect, and how patient to be."""

    bootstrap: str
    timeout_s: float

    def open(self) -> "BasicClient":
        """A client; nothing is sent before it is asked something.  Use it with `with`."""
        from ottla.client.basic.client import BasicClient

        return BasicClient(self.bootstrap, timeout_s=self.timeout_s)


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
