"""How groups, members and rebalances are shown: words and columns that several commands share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.quantities import Id, about, counted, local_time
from ottla.why.lags import COLUMNS as LAG_COLUMNS
from ottla.why.naming import COORDINATOR, host_of
from ottla.why.sight import Sight

if TYPE_CHECKING:
    from ottla.client.admin.groups import GroupInfo, GroupMember
    from ottla.client.admin.stories import Rebalance

MEMBER_COLUMNS: Final = ("member", "instance", "client", "host", "partitions")
REBALANCE_COLUMNS: Final = ("rebalance", "took", "generation", "member", "host", "reason")
NO_STORY: Final = "of its rebalances, the broker does not tell"

Table = tuple[Sequence[str], Sequence[Sequence[object]]]


def headline(sight: Sight) -> str:
    """The group in one line."""
    group = sight.group
    parts = [group.group_id, group.state]
    if group.epoch is not None:
        parts.append(f"{count_word(group)} {group.epoch}")
    parts += [counted(len(group.members), "member"), f"lag {sight.lag_count:,}"]
    parts.append(f"coordinator {group.coordinator}")
    return " · ".join([*parts, group.assignor] if group.assignor else parts)


def tables(sight: Sight, *, rebalance_count: int) -> list[Table]:
    """Members, partitions and the last rebalances; tables without rows are left out."""
    story = sight.group.story
    rebalances = () if story is None else story.rebalances[-rebalance_count:]
    found: list[Table] = [
        (MEMBER_COLUMNS, [member_row(member) for member in sight.group.members]),
        (LAG_COLUMNS, [lag.row for lag in sight.lags]),
        (_rebalance_columns(sight.group), [_rebalance_row(told) for told in rebalances]),
    ]
    return [(columns, rows) for columns, rows in found if rows]


def member_row(member: "GroupMember") -> tuple[object, ...]:
    """A member, in `MEMBER_COLUMNS`."""
    return (
        member.member_id,
        member.instance_id,
        member.client_id,
        host_of(member.host),
        ",".join(map(str, member.assignment)) or None,
    )


def rebalance_facts(rebalance: "Rebalance") -> dict[str, object]:
    """A rebalance for JSON; None is what is not known, or not yet."""
    return {
        "began_ms": rebalance.began_ms,
        "ended_ms": rebalance.ended_ms,
        "generation": rebalance.generation,
        "member": rebalance.member_id,
        "client": rebalance.client_id or None,
        "host": host_of(rebalance.host) or None,
        "reason": rebalance.reason,
    }


def count_word(group: "GroupInfo") -> str:
    """What a group counts its rebalances in."""
    return "generation" if group.type == "classic" else "epoch"


def took(rebalance: "Rebalance") -> str:
    """How long it took, in words."""
    if rebalance.ended_ms is None:
        return "goes on"
    return about(rebalance.ended_ms - rebalance.began_ms)


def _rebalance_columns(group: "GroupInfo") -> list[str]:
    return [count_word(group) if c == "generation" else c for c in REBALANCE_COLUMNS]


def _rebalance_row(rebalance: "Rebalance") -> tuple[object, ...]:
    return (
        local_time(rebalance.began_ms),
        took(rebalance),
        None if rebalance.generation is None else Id(rebalance.generation),
        rebalance.member_id or COORDINATOR,
        host_of(rebalance.host) or None,
        rebalance.reason,
    )
