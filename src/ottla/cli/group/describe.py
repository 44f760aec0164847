"""`ottla group describe`."""

from typing import Final

import click

from ottla.cli.completion_names import groups
from ottla.cli.connection import Connection, connection_options
from ottla.cli.group.shown import (
    MEMBER_COLUMNS,
    NO_STORY,
    headline,
    member_row,
    rebalance_facts,
    tables,
)
from ottla.cli.output import Output, format_option, verbose_option
from ottla.why.lags import COLUMNS
from ottla.why.sight import Sight, look

REBALANCES_SHOWN: Final = 5
EVERY_REBALANCE: Final = 1_000


@click.command("describe")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=groups)
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, names: tuple[str, ...], connection: Connection) -> None:
    """Show state, members, their partitions, lag, and the last rebalances.

    -v shows every rebalance that the coordinator remembers, and not just the last five.

    \b
    Examples:
      ottla group describe kitchen
      ottla group describe kitchen -v
      ottla group describe kitchen -o json | jq .state
    """
    with connection.admin() as admin:
        for number, name in enumerate(names):
            sight = look(admin, name)
            if output.is_json:
                output.json_line(facts_of(sight))
            else:
                if number:
                    click.echo()
                print_text(output, sight)


def facts_of(sight: Sight) -> dict[str, object]:
    """A group for JSON; what the broker does not tell is None."""
    group, story = sight.group, sight.group.story
    return {
        "name": group.group_id,
        "state": group.state,
        "type": group.type,
        "since_ms": None if story is None else story.since_ms,
        "generation": group.epoch,
        "protocol_type": group.protocol_type,
        "protocol": group.assignor,
        "coordinator": group.coordinator,
        "lag": sight.lag_count,
        "members": [
            dict(zip(MEMBER_COLUMNS, member_row(member), strict=True)) for member in group.members
        ],
        "partitions": [dict(zip(COLUMNS, lag.row, strict=True)) for lag in sight.lags],
        "rebalances": (
            None if story is None else [rebalance_facts(told) for told in story.rebalances]
        ),
    }


def print_text(output: Output, sight: Sight) -> None:
    """A group for people: a line, and the tables that have rows."""
    click.echo(headline(sight))
    count = EVERY_REBALANCE if output.verbose else REBALANCES_SHOWN
    for number, (columns, rows) in enumerate(tables(sight, rebalance_count=count)):
        if number:
            click.echo()
        output.rows(columns, rows)
    if sight.group.story is None:
        output.say(NO_STORY)
