"""Classic groups that become consumer groups, and back: nobody loses what it owns on the way."""

import pytest

from ottla.coordinator.effects import Alarm, Effect, Persist
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupResponse
from ottla.wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from ottla.wire.stored.versioned import decode_versioned, encode_versioned
from tests.consumer_group_samples import Consumer, ConsumerDesk, assigned, places
from tests.group_samples import GROUP, REBALANCE_MS, SESSION_MS, TOPIC, protocols

EVERYTHING = (0, 1, 2, 3)


def joining_as(member_id: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=REBALANCE_MS,
        subscribed_topic_names=(TOPIC,),
        topic_partitions=(),
    )


def blob(*partitions: int, topic: str = TOPIC, user_data: bytes | None = None) -> bytes:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=(TopicPartition(topic=topic, partitions=partitions),),
        user_data=user_data,
    )
    return encode_versioned(assignment, 1)


def owning(*partitions: int, name: str = "range") -> tuple[JoinGroupRequestProtocol, ...]:
    """What a cooperative member says of itself when it joins."""
    subscription = ConsumerProtocolSubscription(
        topics=(TOPIC,), owned_partitions=(TopicPartition(topic=TOPIC, partitions=partitions),)
    )
    return (JoinGroupRequestProtocol(name=name, metadata=encode_versioned(subscription, 3)),)


def given(answer: SyncGroupResponse) -> set[int]:
    decoded = decode_versioned(ConsumerProtocolAssignment, answer.assignment)
    return {p for topic in decoded.assigned_partitions for p in topic.partitions}


def classic_group(**settings: object) -> tuple[ConsumerDesk, str]:
    """One classic member in stable generation 1, that owns everything."""
    desk = ConsumerDesk(None, **settings)
    old, _ = desk.enter()
    desk.sync(old, 1, {old: blob(*EVERYTHING)})
    return desk, old


def mixed_group(**settings: object) -> tuple[ConsumerDesk, str, Consumer]:
    """A classic member that has given up half of what it had, and one of the new protocol."""
    desk, old = classic_group(**settings)
    new = Consumer(desk, "new").join()
    assert desk.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = desk.answers[desk.join(old)]
    assert joined.generation_id == 2
    desk.sync(old, 2)
    desk.settle(new)
    assert len(new.owned) == 2
    return desk, old, new


def test_an_empty_classic_group_is_simply_replaced() -> None:
    desk, old = classic_group()
    desk.commit(7, member_id=old, generation=1)
    desk.leave(old)

    new = Consumer(desk, "new").join()

    assert (new.epoch, new.owned) == (1, places(*EVERYTHING))
    assert desk.listed(types=["consumer"]) == [GROUP]
    assert desk.fetch().committed_offset == 7


def test_a_name_that_has_offsets_only_can_become_a_consumer_group() -> None:
    desk = ConsumerDesk()
    desk.commit(7)

    Consumer(desk, "new").join()

    assert desk.listed() == [GROUP]
    assert desk.told().group_state == "Stable"
    desk.restart()
    assert desk.listed(types=["consumer"]) == [GROUP]


def test_those_who_were_about_to_join_an_empty_group_find_the_new_one() -> None:
    desk = ConsumerDesk()
    invited = desk.answers[desk.join()].member_id

    Consumer(desk, "new").join()

    assert ("session", GROUP, invited) not in desk.alarms
    assert desk.answers[desk.join(invited)].error_code == ErrorCode.NONE
    assert set(desk.consumer_group().members) == {"new", invited}


def test_an_empty_consumer_group_becomes_a_classic_one() -> None:
    desk = ConsumerDesk()
    new = Consumer(desk, "new").join()
    desk.commit(7, member_id="new", generation=1)
    new.leave()

    old, ticket = desk.enter()

    assert desk.answers[ticket].generation_id == 1
    assert desk.listed(types=["classic"]) == [GROUP]
    assert desk.told().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.fetch().committed_offset == 7
    assert old


def test_an_id_of_before_does_not_turn_an_empty_consumer_group_into_a_classic_one() -> None:
    desk = ConsumerDesk()
    Consumer(desk, "new").join().leave()

    assert desk.answers[desk.join("somebody")].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.listed(types=["consumer"]) == [GROUP]


def test_a_classic_group_becomes_a_consumer_group_with_its_members() -> None:
    desk, old = classic_group()

    new = Consumer(desk, "new").join()

    assert (new.epoch, new.owned) == (2, set()), "everything is still in the hands of the other"
    kinds = {m.member_id: m.member_type for m in desk.told().members}
    assert kinds == {old: 0, "new": 1}
    assert desk.listed(types=["classic"]) == []


def test_a_classic_member_lives_on_and_shares_with_the_new_one() -> None:
    desk, old, new = mixed_group()

    assert given(desk.answers[desk.sync(old, 2)]) | {p for _, p in new.owned} == set(EVERYTHING)
    assert desk.heartbeat(old, 2) == ErrorCode.NONE
    assert desk.told().group_state == "Stable"
    assert desk.commit(member_id=old, generation=2) == ErrorCode.NONE


def test_a_cooperative_member_keeps_what_it_may_until_it_has_given_up_the_rest() -> None:
    desk, old = classic_group()
    new = Consumer(desk, "new").join()

    first = desk.answers[desk.join(old, spoken=owning(*EVERYTHING))]
    keeps = given(desk.answers[desk.sync(old, first.generation_id)])
    assert (first.generation_id, len(keeps)) == (1, 2)
    new.report()
    assert new.owned == set()
    assert desk.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    second = desk.answers[desk.join(old, spoken=owning(*keeps))]
    desk.settle(new)

    assert second.generation_id == 2
    assert {p for _, p in new.owned} == set(EVERYTHING) - keeps


def test_a_classic_member_is_told_when_what_it_waits_for_is_free() -> None:
    desk, old, new = mixed_group()
    desk.have({TOPIC: 4, "more": 1})
    keeps = given(desk.answers[desk.sync(old, 2)])

    new.leave()

    assert desk.describe().group_state == "Stable", "no new member is left, so it is classic again"
    desk.pass_time(0)
    assert desk.describe().group_state == "PreparingRebalance"
    assert keeps


def test_members_that_wait_for_a_generation_are_let_go() -> None:
    desk, old = classic_group()
    waiting, ticket = desk.enter()
    assert ticket not in desk.answers

    Consumer(desk, "new").join()

    assert desk.answers[ticket].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(desk.consumer_group().members) == {old, waiting, "new"}
    assert desk.answers[desk.join(waiting)].error_code == ErrorCode.NONE


def test_members_that_wait_for_an_assignment_are_let_go() -> None:
    desk = ConsumerDesk()
    ada, _ = desk.enter()
    bob, _ = desk.enter()
    desk.sync(ada, 1, {ada: b""})
    desk.join(ada)
    ticket = desk.sync(bob, 2)
    assert ticket not in desk.answers

    Consumer(desk, "new").join()

    assert desk.answers[ticket].error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_offsets_and_ownership_survive_a_restart_in_the_middle() -> None:
    desk, old = classic_group()
    Consumer(desk, "new").join()
    before = desk.machine.hard_state()

    desk.restart()

    assert desk.machine.hard_state() == before
    assert desk.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_classic_group_stays_one_if_the_policy_says_so(policy: str) -> None:
    desk, old = classic_group(consumer_migration_policy=policy)

    assert desk.beat("new").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.heartbeat(old, 1) == ErrorCode.NONE


def test_a_classic_group_that_does_not_consume_stays_one() -> None:
    desk = ConsumerDesk()
    member_id, _ = desk.enter(protocol_type="connect")
    desk.sync(member_id, 1)

    assert desk.beat("new").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_classic_group_that_is_too_large_stays_one() -> None:
    desk, _ = classic_group(consumer_max_size=1)
    desk.enter()

    assert desk.beat("new").error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    "assignment",
    [
        pytest.param(b"\0\0what", id="unreadable"),
        pytest.param(blob(0, user_data=b"mine"), id="data of an assignor of its own"),
    ],
)
def test_a_classic_group_whose_assignments_say_more_stays_one(assignment: bytes) -> None:
    desk = ConsumerDesk()
    member_id, _ = desk.enter()
    desk.sync(member_id, 1, {member_id: assignment})

    answer = desk.beat("new")

    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "cannot become a consumer group" in (answer.error_message or "")
    assert desk.heartbeat(member_id, 1) == ErrorCode.NONE


class Refusing(ConsumerDesk):
    """Finds the batches of some requests too large, as a shell would: see `Persist`."""

    refuses = False

    def perform(self, effects: list[Effect]) -> None:
        at = next((i for i, effect in enumerate(effects) if isinstance(effect, Persist)), None)
        if self.refuses and at is not None:
            behind = [e for e in effects[at:] if isinstance(e, Alarm) and e.at_ms is not None]
            effects = [*effects[:at], *behind]
        super().perform(effects)


def test_a_classic_group_that_cannot_be_written_as_another_one_goes_on_as_it_was() -> None:
    desk = Refusing(None)
    old, _ = desk.enter()
    desk.sync(old, 1, {old: blob(*EVERYTHING)})
    desk.refuses = True
    desk.ask("consumer_heartbeat", joining_as("new"), 1)
    desk.refuses = False

    assert desk.heartbeat(old, 1) == ErrorCode.NONE
    desk.pass_time(SESSION_MS + 1)
    assert desk.describe().group_state == "Empty", "its member is missed, as before"


def test_a_member_that_stays_does_not_convert_a_group() -> None:
    desk, _ = classic_group()

    assert desk.beat("new", 3).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.beat("new", -1).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_when_the_last_new_member_leaves_the_group_is_classic_again() -> None:
    desk, old, new = mixed_group()

    new.leave()
    desk.pass_time(0)

    assert desk.listed(types=["classic"]) == [GROUP]
    assert desk.heartbeat(old, 2) in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS)
    joined = desk.answers[desk.join(old)]
    assert (joined.error_code, joined.leader) == (ErrorCode.NONE, old)
    assert joined.generation_id > 2
    desk.restart()
    assert desk.listed(types=["classic"]) == [GROUP]


def test_when_the_last_new_member_falls_silent_the_group_is_classic_again() -> None:
    desk, old, _ = mixed_group()

    for _ in range(10):
        desk.pass_time(SESSION_MS - 1)
        if desk.listed(types=["classic"]):
            break
        assert desk.heartbeat(old, 2) == ErrorCode.NONE

    assert desk.listed(types=["classic"]) == [GROUP]


def test_a_group_does_not_go_back_if_the_policy_says_so() -> None:
    desk, old, new = mixed_group(consumer_migration_policy="upgrade")

    new.leave()

    assert desk.listed(types=["consumer"]) == [GROUP]
    assert desk.heartbeat(old, 2) == ErrorCode.NONE, "nobody has shared out anew yet"
    rejoined = desk.answers[desk.join(old)]
    assert given(desk.answers[desk.sync(old, rejoined.generation_id)]) == set(EVERYTHING)


def test_a_static_member_moves_to_the_new_protocol_and_keeps_its_share() -> None:
    desk = ConsumerDesk()
    old = desk.answers[desk.join(instance_id="one")].member_id
    desk.sync(old, 1, {old: blob(*EVERYTHING)}, instance_id="one")

    new = Consumer(desk, "new", instance_id="one").join()

    assert new.owned == places(*EVERYTHING)
    assert desk.heartbeat(old, 1, instance_id="one") == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_moves_back_to_the_old_protocol_and_the_group_follows() -> None:
    desk = ConsumerDesk()
    Consumer(desk, "new", instance_id="one").join()

    joined = desk.answers[desk.join(instance_id="one")]
    assert joined.error_code == ErrorCode.NONE
    assert given(desk.answers[desk.sync(joined.member_id, joined.generation_id)]) == set(EVERYTHING)
    desk.pass_time(0)

    assert desk.listed(types=["classic"]) == [GROUP]
    assert desk.beat("new", 1, instance_id="one").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_classic_member_needs_an_id_and_a_protocol_of_the_others() -> None:
    desk, old, _ = mixed_group()

    invited = desk.answers[desk.join()]
    stranger = desk.answers[desk.join(spoken=protocols("sticky"))]
    connector = desk.answers[desk.join(protocol_type="connect")]
    garbled = (JoinGroupRequestProtocol(name="range", metadata=b"\0"),)
    unreadable = desk.answers[desk.join(old, spoken=garbled)]

    assert invited.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert invited.member_id
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    codes = [answer.error_code for answer in (stranger, connector, unreadable)]
    assert codes == [inconsistent] * 3


def test_a_classic_member_cannot_join_if_the_policy_says_so() -> None:
    desk = ConsumerDesk(consumer_migration_policy="disabled")
    Consumer(desk, "new").join()

    assert desk.answers[desk.join()].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_cannot_join_a_full_group() -> None:
    desk = ConsumerDesk(consumer_max_size=1)
    Consumer(desk, "new").join()

    assert desk.answers[desk.join()].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_what_a_classic_member_may_not_do_in_a_consumer_group() -> None:
    desk, old, _ = mixed_group()

    assert desk.heartbeat(old, 1) == ErrorCode.ILLEGAL_GENERATION
    assert desk.heartbeat("eve", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat("new", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat(old, 2, instance_id="one") == ErrorCode.UNKNOWN_MEMBER_ID
    syncs = [
        desk.sync(old, 1),
        desk.sync("eve", 2),
        desk.sync(old, 2, protocol_type="connect"),
        desk.sync(old, 2, protocol_name="sticky"),
    ]
    assert [desk.answers[ticket].error_code for ticket in syncs] == [
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ]
    assert desk.commit(member_id=old, generation=3) == ErrorCode.ILLEGAL_GENERATION


def test_a_classic_member_that_has_to_join_again_gets_no_assignment() -> None:
    desk, old, _ = mixed_group()
    third = Consumer(desk, "third").join()

    assert desk.answers[desk.sync(old, 2)].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert third.epoch == 3


def test_classic_members_leave_a_consumer_group_and_administrators_remove_any() -> None:
    desk, old, new = mixed_group()
    Consumer(desk, "static", instance_id="one").join()

    answer = desk.leave(old, "eve", MemberIdentity(member_id="", group_instance_id="one"), "new")

    codes = [member.error_code for member in answer.members]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE, ErrorCode.NONE]
    assert desk.told().group_state == "Empty"
    assert new.owned


def test_a_classic_member_that_does_not_join_again_in_time_is_removed() -> None:
    desk, old = classic_group()
    new = Consumer(desk, "new").join()

    for _ in range(REBALANCE_MS // (SESSION_MS - 1) + 1):
        desk.heartbeat(old, 1)
        new.report()
        desk.pass_time(SESSION_MS - 1)
    desk.settle(new)

    assert new.owned == places(*EVERYTHING)


def test_a_classic_member_that_never_asks_for_its_assignment_is_removed() -> None:
    desk, old, new = mixed_group()
    joined = desk.answers[desk.join(old)]

    for _ in range(REBALANCE_MS // (SESSION_MS - 1) + 1):
        desk.heartbeat(old, joined.generation_id)
        new.report()
        desk.pass_time(SESSION_MS - 1)
    desk.settle(new)

    assert new.owned == places(*EVERYTHING)


def test_nobody_is_told_of_a_partition_twice_during_the_upgrade() -> None:
    desk, old = classic_group()

    answer = desk.beat("new")

    assert assigned(answer) == set()
    assert desk.consumer_group().owners == dict.fromkeys(places(*EVERYTHING), old)
