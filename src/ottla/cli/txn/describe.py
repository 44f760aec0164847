"""`ottla txn describe`."""

import time
from typing import TYPE_CHECKING

import click

from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.quantities import Duration, about, human_duration, local_time

if TYPE_CHECKING:
    from ottla.client.basic.transactions import TransactionInfo


@click.command("describe")
@click.argument("names", nargs=-1, required=True, metavar="ID...")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, names: tuple[str, ...], connection: Connection) -> None:
    """Show where transactional ids stand: state, producer, age, and the partitions they wrote."""
    from ottla.client.basic.transactions import describe_transaction

    with connection.open() as client:
        for number, name in enumerate(names):
            info = describe_transaction(client, name)
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
    return {
        "transactional_id": info.name,
        "state": info.state,
        "producer_id": info.producer_id,
        "producer_epoch": info.producer_epoch,
        "timeout_ms": info.timeout_ms,
        "started_ms": info.started_ms,
        "age_ms": None if info.started_ms is None else now_ms - info.started_ms,
        "coordinator": info.coordinator_id,
        "partitions": [{"topic": p.topic, "partition": p.partition} for p in info.partitions],
    }


def _headline(info: "TransactionInfo", now_ms: int) -> str:
    text = (
        f"{info.name}: {info.state}, producer {info.producer_id} epoch {info.producer_epoch}, "
        f"timeout {human_duration(Duration(info.timeout_ms))}"
    )
    if info.started_ms is not None and info.is_open:
        age = about(now_ms - info.started_ms)
        text += f", open for {age}, since {local_time(info.started_ms)}"
    return text
