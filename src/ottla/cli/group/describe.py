"""`ottla group describe`."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from ottla.cli.connection import Connection, connection_options
from ottla.cli.group.lags import COLUMNS, Lag, lags_of
from ottla.cli.output import Output, format_option, verbose_option
from ottla.cli.quantities import counted

if TYPE_CHECKING:
    from ottla.client.basic.groups import GroupInfo, MemberInfo

MEMBER_COLUMNS = ("member", "instance", "client", "host", "partitions")


@click.command("describe")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@verbose_option
@format_option
@click.pass_obj
@connection_options
def command(output: Output, names: tuple[str, ...], connection: Connection) -> None:
    """Show state, members, their partitions, and lag."""
    from ottla.client.basic.groups import describe_group

    with connection.open() as client:
        for number, name in enumerate(names):
            group = describe_group(client, name)
            lags = lags_of(client, group)
            if output.is_json:
                _print_json(output, group, lags)
            else:
                if number:
                    click.echo()
                _print_text(output, group, lags)


def _print_json(output: Output, group: "GroupInfo", lags: Iterable[Lag]) -> None:
    output.json_line(
        {
            "name": group.name,
            "state": group.state,
            "protocol_type": group.protocol_type,
            "protocol": group.protocol,
            "coordinator": group.coordinator_id,
            "members": [
                dict(zip(MEMBER_COLUMNS, _member_row(member), strict=True))
                for member in group.members
            ],
            "partitions": [dict(zip(COLUMNS, lag.row, strict=True)) for lag in lags],
        }
    )


def _print_text(output: Output, group: "GroupInfo", lags: Sequence[Lag]) -> None:
    parts = [
        group.name,
        group.state,
        counted(len(group.members), "member"),
        f"coordinator {group.coordinator_id}",
    ]
    click.echo(" · ".join([*parts, group.protocol] if group.protocol else parts))
    if group.members:
        output.rows(MEMBER_COLUMNS, [_member_row(member) for member in group.members])
        click.echo()
    output.rows(COLUMNS, [lag.row for lag in lags])


def _member_row(member: "MemberInfo") -> tuple[object, ...]:
    return (
        member.member_id,
        member.instance_id,
        member.client_id,
        member.host.removeprefix("/"),
        ",".join(map(str, member.assignment)) or None,
    )
