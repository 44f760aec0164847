"""Consumer groups: how partitions go from one member to another, and what sets that off."""

import pytest

from ottla.coordinator.group.consumer.draft import AT_ONCE_COUNT
from ottla.coordinator.group.consumer.member import MemberState
from tests.consumer_group_samples import (
    Consumer,
    ConsumerDesk,
    assigned,
    places,
    topic_id,
    two,
)
from tests.group_samples import START_MS, TOPIC


def states(desk: ConsumerDesk) -> dict[str, MemberState]:
    return {m.member_id: m.state for m in desk.consumer_group().members.values()}


def test_a_partition_goes_to_its_next_owner_when_the_last_one_has_given_it_up() -> None:
    desk = ConsumerDesk()
    ada = Consumer(desk, "ada").join()
    bob = Consumer(desk, "bob").join()
    assert bob.owned == set()
    assert states(desk)["bob"] is MemberState.UNRELEASED_PARTITIONS

    to_keep = assigned(desk.beat("ada", 1))
    assert to_keep is not None
    assert len(to_keep) == 2
    assert states(desk)["ada"] is MemberState.UNREVOKED_PARTITIONS
    bob.report()
    assert bob.owned == set(), "ada has not said that she gave anything up"

    still_has = desk.beat("ada", 1, owned=ada.owned)
    assert still_has.member_epoch == 1
    gave_up = desk.beat("ada", 1, owned=to_keep)
    assert gave_up.member_epoch == 2
    bob.report()

    assert bob.owned == ada.owned - to_keep
    assert set(states(desk).values()) == {MemberState.STABLE}


def test_the_states_of_a_group_follow_its_epochs() -> None:
    desk = ConsumerDesk()
    ada = Consumer(desk, "ada").join()
    seen = [desk.told().group_state]
    bob = Consumer(desk, "bob").join()
    seen.append(desk.told().group_state)
    desk.settle(ada, bob)
    seen.append(desk.told().group_state)
    bob.leave()
    seen.append(desk.told().group_state)
    ada.leave()
    seen.append(desk.told().group_state)

    assert seen == ["Stable", "Reconciling", "Stable", "Assigning", "Empty"]


def test_a_description_shows_what_is_and_what_shall_be() -> None:
    desk = ConsumerDesk()
    Consumer(desk, "ada").join()
    Consumer(desk, "bob", instance_id="one", options={"rack_id": "r1"}).join()
    desk.beat("ada", 1)

    told = desk.told()

    assert (told.group_epoch, told.assignment_epoch, told.assignor_name) == (2, 2, "uniform")
    ada, bob = told.members
    assert (ada.member_epoch, bob.member_epoch) == (1, 2)
    assert (bob.instance_id, bob.rack_id, bob.client_host) == ("one", "r1", "/10.0.0.1")
    assert (bob.subscribed_topic_names, bob.subscribed_topic_regex) == ((TOPIC,), "")
    assert (ada.member_type, bob.member_type) == (1, 1)
    (has,) = ada.assignment.topic_partitions
    (shall_have,) = ada.target_assignment.topic_partitions
    assert (has.topic_id, has.topic_name) == (topic_id(TOPIC), TOPIC)
    assert has.partitions == (0, 1, 2, 3), "what she has yet to give up is still hers"
    assert len(shall_have.partitions) == 2
    assert bob.assignment.topic_partitions == ()


def test_new_partitions_are_shared_out() -> None:
    desk, ada, bob = two()

    desk.have({TOPIC: 6})
    desk.settle(ada, bob)

    assert sorted(ada.owned | bob.owned) == sorted(places(0, 1, 2, 3, 4, 5))
    assert (len(ada.owned), len(bob.owned)) == (3, 3)


def test_a_topic_that_is_created_later_is_read_from_then_on() -> None:
    desk = ConsumerDesk({})
    ada = Consumer(desk, "ada").join()
    assert (ada.epoch, ada.owned) == (1, set())

    desk.have({TOPIC: 1})
    desk.settle(ada)

    assert ada.owned == places(0)


def test_a_deleted_topic_is_taken_away() -> None:
    desk = ConsumerDesk({TOPIC: 2, "other": 2})
    ada = Consumer(desk, "ada", names=(TOPIC, "other")).join()

    desk.have({"other": 2})
    desk.settle(ada)

    assert ada.owned == places(0, 1, topic="other")


def test_a_topic_that_is_created_anew_is_another_one() -> None:
    desk, ada, bob = two()

    desk.have({TOPIC: 4}, incarnation=1)
    desk.settle(ada, bob)

    assert ada.owned | bob.owned == {(topic_id(TOPIC, 1), p) for p in range(4)}


def test_topics_that_nobody_reads_begin_no_epoch() -> None:
    desk, ada, _ = two()
    epoch = desk.told().group_epoch

    desk.have({TOPIC: 4, "other": 9})

    assert ada.report() is False
    assert desk.told().group_epoch == epoch


def test_a_restart_begins_no_epoch() -> None:
    desk, ada, bob = two()
    written = len(desk.log)

    desk.restart()

    assert [ada.report(), bob.report()] == [False, False]
    assert len(desk.log) == written


def test_who_unsubscribes_gives_up_at_once_and_gets_the_rest_later() -> None:
    desk = ConsumerDesk({TOPIC: 2, "other": 2}, consumer_assignment_interval_ms=60_000)
    ada = Consumer(desk, "ada", names=(TOPIC, "other")).join()
    desk.pass_time(1)

    answer = desk.beat("ada", ada.epoch, names=("other",), owned=ada.owned)

    assert assigned(answer) == places(0, 1, topic="other")
    assert states(desk)["ada"] is MemberState.UNREVOKED_PARTITIONS
    assert desk.told().group_state == "Assigning", "it is too early for another target"
    answer = desk.beat("ada", ada.epoch, owned=places(0, 1, topic="other"))
    assert (answer.member_epoch, states(desk)["ada"]) == (ada.epoch, MemberState.STABLE)


def test_partitions_are_not_shared_out_again_before_the_interval_is_over() -> None:
    desk = ConsumerDesk(consumer_assignment_interval_ms=1_000)
    ada = Consumer(desk, "ada").join()
    desk.pass_time(999)
    bob = Consumer(desk, "bob").join()
    assert (desk.told().group_state, bob.epoch) == ("Assigning", 1)

    desk.pass_time(1)
    desk.settle(ada, bob)

    assert (len(ada.owned), len(bob.owned)) == (2, 2)


def test_a_clock_that_is_set_back_does_not_put_off_an_assignment_for_as_long_as_that() -> None:
    desk = ConsumerDesk(consumer_assignment_interval_ms=1_000)
    ada = Consumer(desk, "ada").join()
    desk.pass_time(1)
    desk.set_clock(-3_600_000)

    bob = Consumer(desk, "bob").join()
    desk.settle(ada, bob)

    assert (len(ada.owned), len(bob.owned)) == (2, 2)


def test_who_waits_for_the_interval_is_told_to_report_when_it_is_over() -> None:
    desk = ConsumerDesk(consumer_assignment_interval_ms=1_000)
    ada = Consumer(desk, "ada").join()
    desk.pass_time(300)
    interval_ms = desk.config.consumer_heartbeat_interval_ms

    bob = desk.beat("bob")
    assert bob.heartbeat_interval_ms == 700
    desk.pass_time(700)
    assert desk.beat("bob", bob.member_epoch).heartbeat_interval_ms == interval_ms
    assert desk.beat("ada", ada.epoch).heartbeat_interval_ms == interval_ms


def crowd(desk: ConsumerDesk, count: int) -> list[Consumer]:
    return [Consumer(desk, f"member-{number:04}").join() for number in range(count)]


def test_a_crowd_is_not_shared_out_to_anew_for_everybody_who_comes() -> None:
    count = AT_ONCE_COUNT + 50
    desk = ConsumerDesk({TOPIC: count})
    everybody = crowd(desk, AT_ONCE_COUNT)
    assert desk.told().group_state != "Assigning"
    at_once_epoch = desk.consumer_group().target_epoch

    latecomers = [Consumer(desk, f"late-{number:04}").join() for number in range(50)]
    assert desk.told().group_state == "Assigning"
    assert desk.consumer_group().target_epoch == at_once_epoch
    assert desk.story().until_ms == START_MS + count

    desk.pass_time(count)
    desk.settle(*everybody, *latecomers)
    assert desk.consumer_group().target_epoch == at_once_epoch + 50
    assert {len(consumer.owned) for consumer in (*everybody, *latecomers)} == {1}


def test_who_comes_to_a_large_group_that_rests_reads_at_once() -> None:
    count = AT_ONCE_COUNT + 1
    desk = ConsumerDesk({TOPIC: count + 1})
    everybody = crowd(desk, count)
    desk.pass_time(count)
    desk.settle(*everybody)
    desk.pass_time(count + 1)

    newcomer = Consumer(desk, "newcomer").join()

    assert desk.told().group_state != "Assigning"
    desk.settle(*everybody, newcomer)
    assert len(newcomer.owned) == 1


def test_who_comes_to_an_empty_group_need_not_wait_for_the_interval() -> None:
    desk = ConsumerDesk(consumer_assignment_interval_ms=60_000)
    Consumer(desk, "ada").join().leave()

    bob = Consumer(desk, "bob").join()

    assert bob.owned == places(0, 1, 2, 3)


def test_the_assignor_that_most_members_ask_for_is_used() -> None:
    desk = ConsumerDesk({TOPIC: 3, "other": 3})
    names = (TOPIC, "other")
    ada = Consumer(desk, "ada", names=names).join()
    assert desk.told().assignor_name == "uniform"

    bob = Consumer(desk, "bob", names=names, options={"server_assignor": "range"}).join()
    desk.settle(ada, bob)

    assert desk.told().assignor_name == "range"
    assert ada.owned == places(0, 1) | places(0, 1, topic="other")
    assert bob.owned == places(2) | places(2, topic="other")


def test_a_change_of_assignor_shares_out_anew() -> None:
    desk = ConsumerDesk({TOPIC: 3, "other": 3})
    names = (TOPIC, "other")
    ada = Consumer(desk, "ada", names=names).join()
    bob = Consumer(desk, "bob", names=names).join()
    desk.settle(ada, bob)
    assert (len(ada.owned), len(bob.owned)) == (3, 3)

    desk.beat("ada", ada.epoch, server_assignor="range")
    desk.settle(ada, bob)

    assert {len(ada.owned), len(bob.owned)} == {4, 2}


@pytest.mark.parametrize("other", ["orders-eu", "orders-us"])
def test_an_expression_subscribes_to_what_matches_as_topics_come_and_go(other: str) -> None:
    desk = ConsumerDesk({"orders-x": 1, "payments": 1})
    ada = Consumer(desk, "ada", options={"subscribed_topic_regex": "orders-.*"}).join()
    assert ada.owned == places(0, topic="orders-x")

    desk.have({"orders-x": 1, "payments": 1, other: 2})
    desk.settle(ada)
    assert ada.owned == places(0, topic="orders-x") | places(0, 1, topic=other)

    desk.have({"payments": 1, other: 2})
    desk.settle(ada)
    assert ada.owned == places(0, 1, topic=other)
    assert desk.told().members[0].subscribed_topic_regex == "orders-.*"


def test_names_and_an_expression_together_subscribe_to_both() -> None:
    desk = ConsumerDesk({TOPIC: 1, "payments": 1})

    answer = desk.beat("ada", names=(TOPIC,), subscribed_topic_regex="pay.*")

    assert assigned(answer) == places(0) | places(0, topic="payments")


def test_an_expression_is_forgotten_with_its_last_member() -> None:
    desk = ConsumerDesk()
    ada = Consumer(desk, "ada", options={"subscribed_topic_regex": "or.*"}).join()
    bob = Consumer(desk, "bob", options={"subscribed_topic_regex": "or.*"}).join()
    assert list(desk.consumer_group().patterns) == ["or.*"]

    ada.leave()
    assert list(desk.consumer_group().patterns) == ["or.*"]
    bob.leave()

    assert desk.consumer_group().patterns == {}


def test_who_drops_its_expression_reads_its_names_alone() -> None:
    desk = ConsumerDesk({TOPIC: 1, "payments": 1})
    desk.beat("ada", names=(TOPIC,), subscribed_topic_regex=".*")

    first = desk.beat("ada", 1, subscribed_topic_regex="", owned=places(0))

    assert assigned(first) == places(0)
    assert desk.consumer_group().patterns == {}


def test_members_with_different_subscriptions_each_read_their_own() -> None:
    desk = ConsumerDesk({TOPIC: 2, "payments": 4})
    ada = Consumer(desk, "ada", names=(TOPIC, "payments")).join()
    bob = Consumer(desk, "bob", names=("payments",)).join()
    desk.settle(ada, bob)

    assert ada.owned >= places(0, 1)
    assert (len(ada.owned), len(bob.owned)) == (3, 3)


def test_a_member_that_reads_nothing_is_a_member_nevertheless() -> None:
    desk = ConsumerDesk()

    answer = desk.beat("ada", names=())

    assert (answer.error_code, answer.member_epoch, assigned(answer)) == (0, 1, set())
    assert desk.told().group_state == "Stable"
