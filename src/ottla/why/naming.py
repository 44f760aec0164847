"""How members of groups are named: what they call themselves, and where they are."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.client.admin.groups import GroupInfo, GroupMember
    from ottla.client.admin.stories import Rebalance

COORDINATOR: Final = "the coordinator"

_NAMED_AT_MOST: Final = 5


def culprit(rebalance: "Rebalance") -> str:
    """Who set it off, and where that is."""
    if rebalance.member_id is None:
        return COORDINATOR
    place = _place(rebalance.member_id, rebalance.client_id, rebalance.host)
    return f"{rebalance.member_id} ({place})"


def named(group: "GroupInfo", member_ids: Iterable[str]) -> str:
    """Members with their hosts: a few of them, if they are many."""
    members = {member.member_id: member for member in group.members}
    names = [_name(members.get(member_id), member_id) for member_id in member_ids]
    return listed(names)


def listed(names: Sequence[object]) -> str:
    """`a, b and 7 more`."""
    rest = len(names) - _NAMED_AT_MOST
    shown = ", ".join(map(str, names[:_NAMED_AT_MOST]))
    return f"{shown} and {rest} more" if rest > 0 else shown


def host_of(host: str) -> str:
    """Brokers put a slash before an address that has no name."""
    return host.removeprefix("/")


def _name(member: "GroupMember | None", member_id: str) -> str:
    if member is None:
        return member_id
    name = member.instance_id or member_id
    return f"{name} ({_place(name, member.client_id, member.host)})"


def _place(name: str, client_id: str, host: str) -> str:
    """Where a member is, and what it calls itself unless its name says that already."""
    return host_of(host) if name.startswith(client_id) else f"{client_id}, {host_of(host)}"
