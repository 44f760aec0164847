"""`ottla console`: what a cluster does, in a browser."""

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Final

import click

from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import InUseError, Output, format_option, verbose_option
from ottla.errors import ConfigError

DEFAULT_PORT: Final = 8080
_NEEDED: Final = ("starlette", "uvicorn", "jinja2", "python_multipart")


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Where to listen; 0 takes a free port.",
)
@click.option(
    "--metrics-url",
    metavar="URL",
    envvar="OTTLA_METRICS_URL",
    show_envvar=True,
    help="The broker's page for Prometheus, which tells what was read and how long requests took.",
)
@click.option("--read-only", is_flag=True, help="Show everything, change nothing.")
@click.option(
    "--password",
    envvar="OTTLA_CONSOLE_PASSWORD",
    show_envvar=True,
    help="Who comes in must know it.  Away from loopback one is made up if none is given.",
)
@click.option("--until-eof", is_flag=True, hidden=True, help="End when standard input does.")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(
    output: Output,
    host: str,
    port: int,
    metrics_url: str | None,
    read_only: bool,
    password: str | None,
    until_eof: bool,
    connection: Connection,
) -> None:
    """Show a cluster in a browser.

    Topics, messages, groups, transactions and brokers; Apache Kafka's as well.

    \b
    Examples:
      ottla console -b localhost:9092
      ottla console --port 0 --read-only
      OTTLA_CONSOLE_PASSWORD=... ottla console --host 0.0.0.0
    """
    check_installed()
    from ottla.console.server import serve
    from ottla.console.settings import (
        MAX_TIMEOUT_S,
        ConsoleSettings,
        is_loopback,
        new_password,
    )

    is_made_up = password is None and not is_loopback(host)
    settings = ConsoleSettings(
        bootstrap_servers=connection.bootstrap,
        metrics_url=metrics_url,
        timeout_s=min(connection.timeout_s, MAX_TIMEOUT_S),
        host=host,
        port=port,
        is_read_only=read_only,
        password=new_password() if is_made_up else password,
    )

    def say(address: str) -> None:
        if output.is_json:
            output.json_line({"event": "ready", "url": address, "password": settings.password})
            return
        click.echo(f"The console of {connection.bootstrap} is at {address}")
        if is_made_up:
            click.echo(f"  password  {settings.password}   any user name will do")
        if not until_eof:
            output.say("Ctrl-C stops it.")

    if until_eof:
        threading.Thread(target=_stop_at_eof, daemon=True).start()
    with connection.admin():
        pass  # who starts it wants to know at once if nobody is there
    with _port_explained(host, port), suppress(KeyboardInterrupt):  # that is how one stops it
        serve(settings, say)


@contextmanager
def _port_explained(host: str, port: int) -> Iterator[None]:
    """Say what to do about a port that is taken."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        failure = InUseError(f"another program listens on {host}:{port}")
        failure.add_note("--port takes another port, and 0 any that is free")
        raise failure from error


def _stop_at_eof() -> None:
    """Whoever started us is gone, or wants us to go."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def check_installed() -> None:
    """Raise a plain error if the packages of the console are missing."""
    if any(find_spec(name) is None for name in _NEEDED):
        error = ConfigError("the console's packages are not installed")
        error.add_note("pip install 'ottla[console]'")
        raise error
