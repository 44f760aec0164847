"""Consumer groups: who may join, stay and leave, and what each mistake is answered with."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.config import HOUR_MS
from ottla.coordinator.group.consumer.member import MemberState
from ottla.coordinator.group.consumer.watch import SESSION
from ottla.errors import ErrorCode
from tests.consumer_group_samples import (
    SESSION_MS,
    Consumer,
    ConsumerDesk,
    assigned,
    places,
    two,
)
from tests.group_samples import GROUP, REBALANCE_MS, TOPIC


def test_the_first_member_is_given_everything_at_once() -> None:
    desk = ConsumerDesk()

    answer = desk.beat("ada")

    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "ada", 1)
    assert answer.heartbeat_interval_ms == desk.config.consumer_heartbeat_interval_ms
    assert assigned(answer) == places(0, 1, 2, 3)
    assert desk.told().group_state == "Stable"


def test_a_heartbeat_without_news_writes_nothing_and_repeats_nothing() -> None:
    desk = ConsumerDesk()
    desk.beat("ada")
    written = len(desk.log)

    answer = desk.beat("ada", 1)

    assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, 1, None)
    assert len(desk.log) == written


def test_who_sends_everything_is_told_everything() -> None:
    desk = ConsumerDesk()
    desk.beat("ada")

    answer = desk.beat(
        "ada", 1, names=(TOPIC,), owned=places(0, 1), rebalance_timeout_ms=REBALANCE_MS
    )

    assert assigned(answer) == places(0, 1, 2, 3)


def test_before_v1_the_coordinator_gives_out_ids() -> None:
    desk = ConsumerDesk()

    answer = desk.beat("", version=0)

    assert answer.error_code == 0
    assert list(desk.consumer_group().members) == [answer.member_id]
    assert answer.member_id


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"member_id": ""}, id="no member id"),
        pytest.param({"group_id": ""}, id="no group id"),
        pytest.param({"instance_id": ""}, id="empty instance id"),
        pytest.param({"rack_id": ""}, id="empty rack"),
        pytest.param({"rebalance_timeout_ms": -1}, id="join without rebalance timeout"),
        pytest.param({"owned": places(0)}, id="join with partitions"),
        pytest.param({"subscribed_topic_regex": None}, id="join without subscription"),
        pytest.param({"epoch": -3}, id="no such epoch"),
        pytest.param({"epoch": -2}, id="a dynamic member cannot leave for a while"),
        pytest.param({"epoch": 5, "member_id": "", "version": 0}, id="stays without id"),
        pytest.param({"epoch": -1, "member_id": "", "version": 0}, id="leaves without id"),
    ],
)
def test_a_request_that_makes_no_sense_is_invalid(given: dict[str, Any]) -> None:
    desk = ConsumerDesk()

    answer = desk.beat(**given)

    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message
    assert desk.log == []


def test_an_assignor_that_does_not_exist_is_refused() -> None:
    answer = ConsumerDesk().beat(server_assignor="sticky")

    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in (answer.error_message or "")


def test_an_expression_that_is_none_is_refused() -> None:
    answer = ConsumerDesk().beat(subscribed_topic_regex="orders-(")

    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_group_that_does_not_exist_has_no_members_that_stay_or_leave() -> None:
    desk = ConsumerDesk()

    codes = [desk.beat("ada", epoch).error_code for epoch in (1, -1)]

    assert codes == [ErrorCode.GROUP_ID_NOT_FOUND] * 2


def test_a_stranger_cannot_stay_or_leave() -> None:
    desk, _, _ = two()

    codes = [desk.beat("eve", epoch).error_code for epoch in (1, -1)]

    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


def test_a_full_group_takes_nobody_else() -> None:
    desk, ada, _ = two(consumer_max_size=2)

    assert desk.beat("eve").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert desk.beat("ada", ada.epoch).error_code == 0


def test_a_member_from_the_future_is_fenced() -> None:
    desk, ada, _ = two()

    answer = desk.beat("ada", ada.epoch + 1)

    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_that_missed_its_last_answer_may_come_with_its_previous_epoch() -> None:
    desk = ConsumerDesk()
    desk.beat("ada")
    desk.beat("ada", 1, names=(TOPIC, "other"))
    member = desk.consumer_group().members["ada"]
    assert (member.previous_epoch, member.epoch) == (1, 2)

    refused = desk.beat("ada", 1)
    accepted = desk.beat("ada", 1, owned=places(0, 1))

    assert refused.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (accepted.error_code, accepted.member_epoch) == (0, 2)


def test_a_member_with_its_previous_epoch_and_partitions_of_others_is_fenced() -> None:
    desk, _, bob = two()
    bob.leave()
    stale = desk.beat("ada", desk.consumer_group().members["ada"].epoch)
    member = desk.consumer_group().members["ada"]
    assert stale.member_epoch == member.epoch

    answer = desk.beat("ada", member.previous_epoch, owned=places(0, topic="other"))

    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_fenced_member_joins_again_and_has_what_it_had() -> None:
    desk, ada, _ = two()
    had = set(ada.owned)

    answer = desk.beat("ada", 0)

    assert (answer.error_code, answer.member_epoch) == (0, ada.epoch)
    assert assigned(answer) == had


def test_who_leaves_gives_its_share_to_the_others() -> None:
    desk, ada, bob = two()

    bob.leave()
    desk.settle(ada)

    assert ada.owned == places(0, 1, 2, 3)
    assert [member.member_id for member in desk.told().members] == ["ada"]


def test_the_last_one_leaves_an_empty_group() -> None:
    desk = ConsumerDesk()
    ada = Consumer(desk, "ada").join()

    ada.leave()

    told = desk.told()
    assert (told.group_state, told.members) == ("Empty", ())
    assert told.group_epoch == told.assignment_epoch == 2
    assert [name for name in desk.alarms if name[0] != "offsets"] == []


def test_a_clock_that_is_set_back_keeps_a_silent_member_for_one_more_session_only() -> None:
    desk = ConsumerDesk()
    Consumer(desk, "ada").join()
    alarm = (SESSION, GROUP, "ada")
    del desk.alarms[alarm]  # it rings when its time has passed, whatever the clock says
    desk.now_ms -= HOUR_MS

    desk.perform(desk.machine.on_alarm(alarm, desk.now_ms))

    assert desk.alarms[alarm] == desk.now_ms + desk.config.consumer_session_timeout_ms
    desk.pass_time(desk.config.consumer_session_timeout_ms)
    assert desk.consumer_group().members == {}


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])
def test_a_clock_that_is_set_leaves_a_member_the_rest_of_its_session(by_ms: int) -> None:
    desk, ada, _ = two()
    desk.pass_time(SESSION_MS - 1)
    ada.report()
    desk.set_clock(by_ms)

    desk.pass_time(1)
    assert list(desk.consumer_group().members) == ["ada"]
    desk.pass_time(SESSION_MS - 2)
    assert list(desk.consumer_group().members) == ["ada"]
    desk.pass_time(1)
    assert desk.consumer_group().members == {}


def test_a_silent_member_is_removed_when_its_session_ends() -> None:
    desk, ada, _ = two()

    desk.pass_time(SESSION_MS - 1)
    assert len(desk.consumer_group().members) == 2
    ada.report()
    desk.pass_time(1)

    assert list(desk.consumer_group().members) == ["ada"]


def test_a_heartbeat_keeps_a_session_alive_without_moving_its_alarm() -> None:
    desk, ada, bob = two()

    for _ in range(5):
        desk.pass_time(SESSION_MS // 3)
        ada.report()
        bob.report()
        assert desk.effects[:-1] == [], "an alarm for each heartbeat would cost a timer each"

    assert len(desk.consumer_group().members) == 2


def test_whoever_does_not_give_up_its_partitions_in_time_is_removed() -> None:
    desk = ConsumerDesk(consumer_session_timeout_ms=SESSION_MS)
    ada = Consumer(desk, "ada").join()
    bob = Consumer(desk, "bob").join()
    assert bob.owned == set()
    ada.report()
    assert desk.consumer_group().members["ada"].state is MemberState.UNREVOKED_PARTITIONS

    for _ in range(REBALANCE_MS // 10_000 - 1):
        desk.pass_time(10_000)
        assert desk.beat("ada", 1, owned=places(0, 1, 2, 3)).error_code == 0
        bob.report()
    assert len(desk.consumer_group().members) == 2
    desk.pass_time(10_000)

    assert list(desk.consumer_group().members) == ["bob"]
    desk.settle(bob)
    assert bob.owned == places(0, 1, 2, 3)


def test_a_member_found_in_the_log_has_a_session_to_report() -> None:
    desk, ada, bob = two()

    desk.restart()
    desk.pass_time(SESSION_MS - 1)
    ada.report()
    desk.pass_time(1)

    assert list(desk.consumer_group().members) == ["ada"]
    assert bob.owned


def test_a_static_member_cannot_take_a_place_that_is_in_use() -> None:
    desk = ConsumerDesk()
    Consumer(desk, "ada", instance_id="one").join()

    answer = desk.beat("ada-2", instance_id="one")

    assert answer.error_code == ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_static_member_whose_first_answer_was_lost_may_ask_again() -> None:
    """KIP-848 fences "another member", and this is the same one."""
    desk = ConsumerDesk()
    Consumer(desk, "ada", instance_id="one").join()

    answer = desk.beat("ada", instance_id="one")

    assert (answer.error_code, answer.member_epoch) == (0, 1)
    assert assigned(answer) == places(0, 1, 2, 3)


def test_a_static_member_that_left_for_a_while_comes_back_to_what_it_had() -> None:
    desk = ConsumerDesk()
    ada = Consumer(desk, "ada", instance_id="one").join()
    bob = Consumer(desk, "bob").join()
    desk.settle(ada, bob)
    had, epoch = set(ada.owned), bob.epoch

    ada.leave(-2)
    away = desk.told()
    assert bob.report() is False
    back = Consumer(desk, "ada-2", instance_id="one").join()

    assert {m.member_epoch for m in away.members} == {-2, epoch}
    assert back.owned == had
    assert bob.report() is False
    assert desk.told().group_epoch == epoch, "nobody else was disturbed"


def test_the_old_self_of_a_static_member_is_fenced() -> None:
    desk = ConsumerDesk()
    ada = Consumer(desk, "ada", instance_id="one").join()
    ada.leave(-2)
    Consumer(desk, "ada-2", instance_id="one").join()

    codes = [desk.beat("ada", epoch, instance_id="one").error_code for epoch in (1, -1, -2)]

    assert codes == [ErrorCode.FENCED_INSTANCE_ID] * 3


def test_an_instance_that_nobody_is_is_unknown() -> None:
    desk = ConsumerDesk()
    Consumer(desk, "ada").join()

    codes = [desk.beat("ada", epoch, instance_id="two").error_code for epoch in (1, -1, -2)]

    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID] * 3


def test_a_static_member_that_does_not_come_back_loses_its_share() -> None:
    desk = ConsumerDesk()
    ada = Consumer(desk, "ada", instance_id="one").join()
    bob = Consumer(desk, "bob").join()
    desk.settle(ada, bob)

    ada.leave(-2)
    for _ in range(6):
        desk.pass_time(SESSION_MS // 5)
        bob.report()
    desk.settle(bob)

    assert bob.owned == places(0, 1, 2, 3)


def test_a_member_in_a_state_of_the_future_has_to_begin_anew() -> None:
    desk, ada, _ = two()
    group = desk.consumer_group()
    group.members["ada"] = replace(group.members["ada"], state=MemberState(9))

    fenced = desk.beat("ada", ada.epoch)
    rejoined = desk.beat("ada", 0)

    assert fenced.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (rejoined.error_code, assigned(rejoined)) == (0, ada.owned)


def test_groups_do_not_know_of_each_other() -> None:
    desk = ConsumerDesk()
    desk.beat("ada")

    desk.beat("ada", group_id="another")

    assert desk.listed() == [GROUP, "another"]
    assert desk.told("another").members[0].assignment == desk.told().members[0].assignment
