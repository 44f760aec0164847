"""The story of a consumer group: who holds up its epoch, who is silent, and its last rebalances.

It has facts only, as that of classic groups (`ottla.coordinator.group.story`), and travels in the
same shape: an epoch stands where a classic group has its generation.  Nothing here changes a group.
"""

from collections.abc import Iterator

from ottla.coordinator.group.consumer.chronicle import Chronicle
from ottla.coordinator.group.consumer.coordinator import ConsumerGroups
from ottla.coordinator.group.consumer.draft import put_off_ms
from ottla.coordinator.group.consumer.group import ConsumerGroup, ConsumerState
from ottla.coordinator.group.consumer.member import AWAY_EPOCH, ConsumerMember, MemberState
from ottla.coordinator.group.consumer.watch import JOIN, REBALANCE, SYNC
from ottla.coordinator.group.offsets import Offsets
from ottla.coordinator.group.story import NOT_KNOWN, commits, told_rebalance
from ottla.wire.messages.describe_groups import Awaited, AwaitedMember, GroupStory


def told(groups: ConsumerGroups, group: ConsumerGroup, offsets: Offsets, now_ms: int) -> GroupStory:
    """All that is known of a group beyond what ConsumerGroupDescribe tells everybody."""
    chronicle = groups.chronicles.of(group.group_id)
    awaited = tuple(_awaited(groups, group, chronicle))
    return GroupStory(
        now_ms=now_ms,
        since_ms=_since_ms(group, chronicle, awaited),
        until_ms=_until_ms(groups, group, awaited),
        generation_id=group.epoch,
        awaited=(*awaited, *_silent(groups, group, now_ms)),
        rebalances=tuple(told_rebalance(rebalance) for rebalance in chronicle.rebalances),
        commits=commits(group.group_id, offsets),
    )


def _awaited(
    groups: ConsumerGroups, group: ConsumerGroup, chronicle: Chronicle
) -> Iterator[AwaitedMember]:
    """Everybody without whom the others cannot go on, or who has yet to take a step itself."""
    for member in group.members.values():
        what = _owed_by(group, member)
        if member.is_classic:
            what = _told_to_classic(groups, group, member, what)
        if what is not None:
            yield AwaitedMember(
                member_id=member.member_id,
                what=what,
                since_ms=_waits_since_ms(group, member, chronicle, what),
                until_ms=_waits_until_ms(groups, group, member, what),
            )


def _owed_by(group: ConsumerGroup, member: ConsumerMember) -> Awaited | None:
    if member.epoch == AWAY_EPOCH:
        return Awaited.RETURN
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        return Awaited.REVOCATION
    if member.is_reconciled_to(group.target_epoch):
        return None
    if member.epoch == group.target_epoch and group.waits_for_others(member):
        return None  # it is for the others to act
    return Awaited.EPOCH


def _told_to_classic(
    groups: ConsumerGroups, group: ConsumerGroup, member: ConsumerMember, owed: Awaited | None
) -> Awaited | None:
    """The same for a member that speaks the old protocol: it knows of joins and syncs alone."""
    if groups.watch.until_ms(SYNC, group.group_id, member.member_id) is not None:
        return Awaited.SYNC
    # It may yet have to hear, with its next heartbeat, that it has to join again.
    return None if owed is None else Awaited.JOIN


def _waits_since_ms(
    group: ConsumerGroup, member: ConsumerMember, chronicle: Chronicle, what: Awaited
) -> int:
    if what in (Awaited.EPOCH, Awaited.JOIN) and member.epoch != group.target_epoch:
        return group.assigned_ms or NOT_KNOWN
    return chronicle.moved_ms.get(member.member_id, NOT_KNOWN)


def _waits_until_ms(
    groups: ConsumerGroups, group: ConsumerGroup, member: ConsumerMember, what: Awaited
) -> int:
    """When it is taken out if it does nothing: by its own alarm, or at the end of its session."""
    kinds = {Awaited.REVOCATION: REBALANCE, Awaited.JOIN: JOIN, Awaited.SYNC: SYNC}
    if what in kinds:
        at_ms = groups.watch.until_ms(kinds[what], group.group_id, member.member_id)
        if at_ms is not None:
            return at_ms
    session = groups.watch.session_of(group.group_id, member.member_id)
    return NOT_KNOWN if session is None else session[0]


def _silent(groups: ConsumerGroups, group: ConsumerGroup, now_ms: int) -> Iterator[AwaitedMember]:
    """Members of whom nothing was heard for more than half of their session."""
    for member in group.members.values():
        session = groups.watch.session_of(group.group_id, member.member_id)
        if session is None or member.epoch == AWAY_EPOCH:
            continue
        deadline_ms, timeout_ms = session
        if (deadline_ms - now_ms) * 2 < timeout_ms:
            yield AwaitedMember(
                member_id=member.member_id,
                what=Awaited.HEARTBEAT,
                since_ms=deadline_ms - timeout_ms,
                until_ms=deadline_ms,
            )


def _since_ms(
    group: ConsumerGroup, chronicle: Chronicle, awaited: tuple[AwaitedMember, ...]
) -> int:
    """Since when the group is in its state."""
    last = chronicle.rebalances[-1] if chronicle.rebalances else None
    match group.state:
        case ConsumerState.ASSIGNING:
            return NOT_KNOWN if last is None else last.began_ms
        case ConsumerState.RECONCILING if last is None or last.ended_ms is None:
            return group.assigned_ms or NOT_KNOWN
        case ConsumerState.RECONCILING:  # all had followed, and then somebody went away
            return min((wait.since_ms for wait in awaited), default=NOT_KNOWN)
        case _:
            return NOT_KNOWN if last is None or last.ended_ms is None else last.ended_ms


def _until_ms(
    groups: ConsumerGroups, group: ConsumerGroup, awaited: tuple[AwaitedMember, ...]
) -> int:
    """When the wait of this state ends at the latest; a new target also needs a heartbeat."""
    if group.state is ConsumerState.ASSIGNING:
        interval_ms = put_off_ms(groups.config.consumer_assignment_interval_ms, len(group.members))
        is_put_off = interval_ms > 0 and group.assigned_ms > 0
        return group.assigned_ms + interval_ms if is_put_off else NOT_KNOWN
    return max((wait.until_ms for wait in awaited), default=NOT_KNOWN)
