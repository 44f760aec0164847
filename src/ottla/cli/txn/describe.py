"""`ottla txn describe`."""

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.completion_names import transactional_ids
from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.quantities import FOREVER, Duration, about, as_ms, human_duration, local_time

if TYPE_CHECKING:
    from ottla.client.admin.transactions import TransactionInfo

_MS: Final = timedelta(milliseconds=1)


@click.command("describe")
@click.argument("names", nargs=-1, required=True, metavar="ID...", shell_complete=transactional_ids)
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, names: tuple[str, ...], connection: Connection) -> None:
    """Show where transactional ids stand: state, producer, age, and the partitions they wrote.

    \b
    Examples:
      ottla txn describe kitchen
      ottla txn describe kitchen -o json
    """
    with connection.admin() as admin:
        for number, name in enumerate(names):
            info = admin.describe_transaction(name)
            now_ms = int(time.time() * 1000)
            if output.is_json:
                output.json_line(_facts(info, now_ms))
                continue
            if number:
                click.echo()
            click.echo(_headline(info, now_ms))
            if info.partitions:
                output.rows(("topic", "partition"), info.partitions)


def _facts(info: "TransactionInfo", now_ms: int) -> dict[str, object]:
    started_ms = None if info.started is None else as_ms(info.started)
    return {
        "transactional_id": info.transactional_id,
        "state": info.state,
        "producer_id": info.producer_id,
        "producer_epoch": info.producer_epoch,
        "timeout_ms": None if info.timeout is None else info.timeout // _MS,
        "started_ms": started_ms,
        "age_ms": None if started_ms is None else now_ms - started_ms,
        "coordinator": info.coordinator,
        "partitions": [{"topic": p.topic, "partition": p.partition} for p in info.partitions],
    }


def _headline(info: "TransactionInfo", now_ms: int) -> str:
    timeout_ms = FOREVER if info.timeout is None else info.timeout // _MS
    text = (
        f"{info.transactional_id}: {info.state}, "
        f"producer {info.producer_id} epoch {info.producer_epoch}, "
        f"timeout {human_duration(Duration(timeout_ms))}"
    )
    if info.started is not None and info.is_open:
        started_ms = as_ms(info.started)
        text += f", open for {about(now_ms - started_ms)}, since {local_time(started_ms)}"
    return text
