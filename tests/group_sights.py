"""Groups as one sees them from outside: small builders for tests of `watch` and `why`."""

from collections.abc import Sequence
from typing import Any

from ottla.client.admin.groups import GroupInfo, GroupMember
from ottla.client.admin.stories import AwaitedMember, GroupStory, Rebalance
from ottla.model import TopicPartition
from ottla.why.lags import FRESH_MS, Lag
from ottla.why.sight import Sight

NOW_MS = 1_700_000_000_000
ORDERS = TopicPartition("orders", 0)
LONG_AGO_MS = NOW_MS - 10 * FRESH_MS


def member(member_id: str = "ada", *partitions: TopicPartition, **changes: Any) -> GroupMember:
    values: dict[str, Any] = {
        "member_id": member_id,
        "instance_id": None,
        "client_id": member_id,
        "host": f"/{member_id}.example",
        "assignment": partitions,
    }
    return GroupMember(**{**values, **changes})


def story(
    *awaited: tuple[str, str],
    commits: Sequence[tuple[TopicPartition, int]] = (),
    since_ms: int | None = NOW_MS - 2_000,
    until_ms: int | None = None,
    rebalances: Sequence[Rebalance] = (),
) -> GroupStory:
    """What is awaited is awaited for 2 seconds, and for 5 more."""
    return GroupStory(
        now_ms=NOW_MS,
        since_ms=since_ms,
        until_ms=until_ms,
        awaited=tuple(
            AwaitedMember(
                member_id=member_id, what=what, since_ms=NOW_MS - 2_000, until_ms=NOW_MS + 5_000
            )
            for member_id, what in awaited
        ),
        rebalances=tuple(rebalances),
        committed_ms=dict(commits),
    )


def rebalance(
    member_id: str | None = "bob",
    began_ms: int = NOW_MS - 2_000,
    ended_ms: int | None = None,
    **changes: Any,
) -> Rebalance:
    values: dict[str, Any] = {
        "generation": None if ended_ms is None else 4,
        "client_id": member_id or "",
        "host": f"/{member_id}.example",
        "reason": "it joined",
    }
    return Rebalance(
        member_id=member_id, began_ms=began_ms, ended_ms=ended_ms, **{**values, **changes}
    )


def lag(
    committed: int | None = 4,
    end: int | None = 10,
    owner: str | None = "ada",
    key: TopicPartition = ORDERS,
    **changes: Any,
) -> Lag:
    """All of it was written long ago, unless `fresh` says where the new part begins."""
    bounds = {"start_offset": 0, "stable_offset": end, "fresh_offset": end}
    return Lag(
        key=key,
        committed_offset=committed,
        end_offset=end,
        member_id=owner,
        **{**bounds, **changes},
    )


def sight(
    *lags: Lag,
    state: str = "Stable",
    members: Sequence[GroupMember] = (),
    told: GroupStory | None = None,
    is_classic: bool = True,
    generation: int | None = 3,
    seen_ms: int = NOW_MS,
) -> Sight:
    group = GroupInfo(
        group_id="kitchen",
        state=state,
        type="classic" if is_classic else "consumer",
        protocol_type="consumer",
        assignor="range",
        coordinator=1,
        members=tuple(members),
        epoch=generation,
        story=told,
    )
    return Sight(seen_ms=seen_ms, group=group, lags=lags)
