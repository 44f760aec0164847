"""One member on its way from what it owns to what it shall own.

    STABLE ──▶ UNREVOKED_PARTITIONS ──▶ STABLE, or UNRELEASED_PARTITIONS ──▶ STABLE
               it gives up first         then it enters the target's epoch and is given what is free

The rule that keeps every partition with one owner: nothing is given to a member while another one
has it, and another one has it until it has said that it no longer does.
"""

from collections.abc import Callable, Mapping
from typing import assert_never

from ottla.coordinator.group.consumer.member import ConsumerMember, MemberState
from ottla.coordinator.group.consumer.topics import Place
from ottla.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Where a member is to go, and what stands in its way."""

    epoch: int
    places: frozenset[Place]
    topic_ids: frozenset[bytes]  # what it subscribes to now: nothing else is given to it
    is_free: Callable[[Place], bool]  # whether nobody else has a partition


def reconcile(
    member: ConsumerMember,
    goal: Goal,
    owned: frozenset[Place] | None,
    *,
    has_new_subscription: bool = False,
) -> ConsumerMember | None:
    """The member after one step; itself if there is none to take, None if it must begin anew.

    `owned` is what the member says it has, None if it does not say.
    """
    match member.state:
        case MemberState.STABLE:
            if member.epoch != goal.epoch:
                return _next(member, goal, owned, member.epoch)
            return _without_unsubscribed(member, goal, owned) if has_new_subscription else member
        case MemberState.UNREVOKED_PARTITIONS:
            if not _has_any(owned, member.revoking):
                return _next(member, goal, owned, member.epoch)
            return _without_unsubscribed(member, goal, owned) if has_new_subscription else member
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(member, goal, owned, member.epoch)
        case MemberState.UNKNOWN:
            if owned is None or owned:
                return None
            return _next(member, goal, owned, goal.epoch)
        case _:
            assert_never(member.state)


def _next(
    member: ConsumerMember, goal: Goal, owned: frozenset[Place] | None, epoch: int
) -> ConsumerMember:
    target = {place for place in goal.places if place[0] in goal.topic_ids}
    kept = {place: since for place, since in member.assigned.items() if place in target}
    revoked = {place: since for place, since in member.assigned.items() if place not in target}
    if revoked and _has_any(owned, revoked):
        return member.moved(MemberState.UNREVOKED_PARTITIONS, epoch, kept, revoked)
    missing = target - kept.keys()
    given = {place for place in missing if goal.is_free(place)}
    assigned = kept | dict.fromkeys(sorted(given), goal.epoch)
    waits = len(given) < len(missing)
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return member.moved(state, goal.epoch, assigned)


def _without_unsubscribed(
    member: ConsumerMember, goal: Goal, owned: frozenset[Place] | None
) -> ConsumerMember:
    """Take away at once what it no longer subscribes to; the target will follow."""
    gone = {p: since for p, since in member.assigned.items() if p[0] not in goal.topic_ids}
    if not gone:
        return member
    kept = {place: since for place, since in member.assigned.items() if place not in gone}
    revoking = {**member.revoking, **gone}
    if _has_any(owned, revoking):
        return member.moved(MemberState.UNREVOKED_PARTITIONS, member.epoch, kept, revoking)
    return member.moved(member.state, member.epoch, kept, member.revoking)


def _has_any(owned: frozenset[Place] | None, places: Mapping[Place, int]) -> bool:
    """Whether the member may still have one of these: silence does not count as giving up."""
    return owned is None or any(place in places for place in owned)
