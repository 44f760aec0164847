"""`ottla why transaction`."""

import click

from ottla.cli.completion_names import transactional_ids
from ottla.cli.connection import Connection, connection_options
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.why.showing import show
from ottla.why.transaction import look_at_transaction
from ottla.why.transaction_waits import waits


@click.command("transaction")
@click.argument("name", metavar="ID", shell_complete=transactional_ids)
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, name: str, connection: Connection) -> None:
    """Say what a transaction waits for, and what to do about it.

    It tells whether somebody has it open, who and for how long, when it would be aborted, whether
    it was decided and its markers are missing, and which readers it holds up meanwhile.  ID is the
    transactional id.

    \b
    Examples:
      ottla why transaction kitchen
      ottla why transaction kitchen -o json
    """
    with connection.admin() as admin:
        sight = look_at_transaction(connection.access(admin), name)
    info = sight.info
    about_it = {
        "transactional_id": name,
        "state": info.state,
        "producer_id": info.producer_id,
        "producer_epoch": info.producer_epoch,
        "partitions": [str(partition) for partition in info.partitions],
    }
    show(output, f"Transaction {name} is {info.state}.", about_it, waits(sight))
