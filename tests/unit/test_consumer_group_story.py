"""The story of a consumer group: what set off its epochs, and who holds them up."""

import pytest

from ottla.coordinator.effects import Effect, Persist
from ottla.coordinator.group.classic import REASON_CHARS, REBALANCES_KEPT
from ottla.wire.messages.describe_groups import Awaited, ToldRebalance
from ottla.wire.messages.leave_group import MemberIdentity
from tests.consumer_group_samples import SESSION_MS, Consumer, ConsumerDesk, two
from tests.group_samples import GROUP, REBALANCE_MS, START_MS, TOPIC, Desk

BEAT_MS = 5000


def waits(desk: ConsumerDesk) -> list[tuple[str, Awaited]]:
    """Whom the group waits for, and what for."""
    return [(awaited.member_id, Awaited(awaited.what)) for awaited in desk.story().awaited]


def last(desk: ConsumerDesk) -> ToldRebalance:
    return desk.story().rebalances[-1]


def by_whom(told: ToldRebalance) -> tuple[str, str]:
    return told.member_id, told.reason


def test_a_story_is_told_to_those_who_ask() -> None:
    desk, _, _ = two()

    assert desk.told().story is None
    assert desk.story().generation_id == desk.told().group_epoch


def test_a_group_that_does_not_exist_has_no_story() -> None:
    with pytest.raises(AssertionError, match="orders-app has no story"):
        ConsumerDesk().story()


def test_who_joins_sets_off_an_epoch_that_ends_when_all_own_what_they_shall() -> None:
    desk = ConsumerDesk()
    ada = Consumer(desk, "ada").join()
    desk.pass_time(1000)
    bob = Consumer(desk, "bob", options={"client_id": "cook"}).join()
    began_ms = desk.now_ms
    assert (last(desk).ended_ms, last(desk).generation_id) == (-1, -1)
    desk.pass_time(700)
    ada.report()
    desk.pass_time(300)
    ada.report()
    assert last(desk).ended_ms == -1, "bob has not heard that the partitions are free"

    bob.report()

    first, second = desk.story().rebalances
    assert (first.began_ms, first.ended_ms, first.generation_id) == (START_MS, START_MS, 1)
    assert (second.began_ms, second.ended_ms) == (began_ms, began_ms + 1000)
    assert (second.generation_id, *by_whom(second)) == (2, "bob", "it joined")
    assert (second.client_id, second.client_host) == ("cook", "/10.0.0.1")


def test_an_epoch_that_another_one_overtakes_leads_to_none() -> None:
    desk = ConsumerDesk()
    Consumer(desk, "ada").join()
    Consumer(desk, "bob").join()
    desk.pass_time(100)
    Consumer(desk, "eve").join()

    _, overtaken, newest = desk.story().rebalances

    assert (overtaken.ended_ms, overtaken.generation_id) == (newest.began_ms, -1)
    assert newest.ended_ms == -1


def test_who_leaves_is_named_and_the_group_is_at_rest_when_the_others_have_its_share() -> None:
    desk, ada, bob = two()
    desk.pass_time(1000)
    bob.leave()
    left_ms = desk.now_ms
    assert desk.told().group_state == "Assigning"
    assert desk.story().since_ms == left_ms
    desk.pass_time(BEAT_MS)

    desk.settle(ada)

    assert by_whom(last(desk)) == ("bob", "it left")
    assert (last(desk).began_ms, last(desk).ended_ms) == (left_ms, left_ms + BEAT_MS)
    assert desk.story().since_ms == left_ms + BEAT_MS


def test_the_last_one_that_leaves_leaves_an_empty_group() -> None:
    desk = ConsumerDesk()
    Consumer(desk, "ada").join().leave()

    assert by_whom(last(desk)) == ("ada", "it left")
    assert last(desk).ended_ms == desk.now_ms
    assert desk.story().since_ms == desk.now_ms


def test_a_member_whose_session_timed_out_is_named() -> None:
    desk, ada, _ = two()
    desk.pass_time(SESSION_MS - 1)
    ada.report()
    desk.pass_time(1)

    assert by_whom(last(desk)) == ("bob", "its session timed out")


def test_a_member_that_does_not_give_up_its_partitions_is_waited_for_and_then_named() -> None:
    desk = ConsumerDesk()
    ada = Consumer(desk, "ada").join()
    desk.pass_time(1000)
    bob = Consumer(desk, "bob").join()
    desk.beat("ada", 1, owned=ada.owned)
    told_ms = desk.now_ms

    desk.pass_time(2000)

    assert waits(desk) == [("ada", Awaited.REVOCATION)]
    (awaited,) = desk.story().awaited
    assert (awaited.since_ms, awaited.until_ms) == (told_ms, told_ms + REBALANCE_MS)
    assert desk.story().until_ms == told_ms + REBALANCE_MS
    assert desk.story().since_ms == told_ms

    desk.pass_time(REBALANCE_MS // 2)
    desk.beat("ada", 1)
    bob.report()
    desk.pass_time(REBALANCE_MS // 2 - 2000)
    assert by_whom(last(desk)) == ("ada", "it did not give up its partitions in time")


def test_a_member_that_has_not_heard_of_the_new_target_has_yet_to_follow() -> None:
    desk, ada, bob = two()
    desk.pass_time(1000)
    eve = Consumer(desk, "eve").join()
    joined_ms = desk.now_ms

    assert waits(desk) == [("ada", Awaited.EPOCH), ("bob", Awaited.EPOCH)]
    assert {awaited.since_ms for awaited in desk.story().awaited} == {joined_ms}
    assert {awaited.until_ms for awaited in desk.story().awaited} == {joined_ms - 1000 + SESSION_MS}

    desk.settle(ada, bob, eve)
    assert waits(desk) == []
    assert desk.story().until_ms == -1


def test_who_waits_for_others_is_not_waited_for() -> None:
    desk = ConsumerDesk()
    ada = Consumer(desk, "ada").join()
    bob = Consumer(desk, "bob").join()
    assert ("bob", Awaited.EPOCH) not in waits(desk)
    ada.report()
    ada.report()

    assert waits(desk) == [("bob", Awaited.EPOCH)], "what it waited for is free now"
    bob.report()
    assert waits(desk) == []


def test_a_member_is_silent_when_half_of_its_session_has_passed() -> None:
    desk, ada, _ = two()
    heard_ms = desk.now_ms
    desk.pass_time(SESSION_MS // 2)
    assert waits(desk) == []
    ada.report()

    desk.pass_time(1)

    (awaited,) = desk.story().awaited
    assert (awaited.member_id, awaited.what) == ("bob", Awaited.HEARTBEAT)
    assert (awaited.since_ms, awaited.until_ms) == (heard_ms, heard_ms + SESSION_MS)


def test_a_static_member_that_left_for_a_while_is_expected_back() -> None:
    desk = ConsumerDesk()
    ada = Consumer(desk, "ada").join()
    bob = Consumer(desk, "bob", instance_id="two").join()
    desk.settle(ada, bob)
    desk.pass_time(1000)
    bob.leave(epoch=-2)
    left_ms = desk.now_ms
    desk.pass_time(SESSION_MS - 2000)
    ada.report()

    story = desk.story()

    assert waits(desk) == [("bob", Awaited.RETURN)]
    assert (story.awaited[0].since_ms, story.awaited[0].until_ms) == (
        left_ms,
        left_ms - 1000 + SESSION_MS,
    )
    assert story.since_ms == left_ms, "all had followed until then"
    assert len(story.rebalances) == 2, "nothing is shared out anew for that"


@pytest.mark.parametrize(
    ("names", "pattern", "reason"),
    [
        (("refunds",), "", "it subscribes to refunds now"),
        ((), "ord.*", "it subscribes to what matches ord.* now"),
        ((), "", "it subscribes to nothing now"),
        (("e", "d", "c", "b", "a"), "", "it subscribes to a, b, c and 2 more now"),
    ],
)
def test_a_new_subscription_sets_off_an_epoch(
    names: tuple[str, ...], pattern: str, reason: str
) -> None:
    desk, _, _ = two()

    desk.beat("bob", 2, names=names, subscribed_topic_regex=pattern)

    assert by_whom(last(desk)) == ("bob", reason)


def test_a_vote_that_changes_the_assignor_sets_off_an_epoch() -> None:
    desk = ConsumerDesk()
    ada = Consumer(desk, "ada").join()

    desk.beat("ada", ada.epoch, server_assignor="range")

    assert by_whom(last(desk)) == ("ada", "it made range the assignor that most members ask for")


@pytest.mark.parametrize(
    ("counts", "incarnation", "reason"),
    [
        ({TOPIC: 6}, 0, "orders has 6 partitions now, not 4"),
        ({TOPIC: 4}, 1, "orders was deleted and created anew"),
        ({}, 0, "orders was deleted"),
        ({TOPIC: 4, "refunds": 1}, 0, "refunds was created"),
    ],
)
def test_a_topic_that_changes_is_named_and_no_member_is_to_blame(
    counts: dict[str, int], incarnation: int, reason: str
) -> None:
    desk = ConsumerDesk()
    ada = Consumer(desk, "ada", names=(TOPIC, "refunds")).join()

    desk.have(counts, incarnation)
    ada.report()

    assert by_whom(last(desk)) == ("", reason)


def test_a_topic_that_an_expression_matches_now_is_named() -> None:
    desk = ConsumerDesk()
    ada = Consumer(desk, "ada", options={"subscribed_topic_regex": "ord.*"}).join()

    desk.have({TOPIC: 4, "ordeals": 1, "refunds": 1})
    ada.report()

    assert by_whom(last(desk)) == ("", "ordeals was created")


def test_after_a_restart_nobody_knows_which_topic_has_changed() -> None:
    desk, ada, _ = two()
    desk.restart()
    desk.have({TOPIC: 6})
    ada.report()

    assert by_whom(last(desk)) == ("", "the topics that it reads have changed")


def test_a_restart_forgets_the_story_but_not_the_waits() -> None:
    desk = ConsumerDesk()
    ada = Consumer(desk, "ada").join()
    Consumer(desk, "bob").join()
    desk.beat("ada", 1, owned=ada.owned)
    desk.restart()

    story = desk.story()

    assert story.rebalances == ()
    assert [(a.member_id, a.what, a.since_ms) for a in story.awaited] == [
        ("ada", Awaited.REVOCATION, -1)
    ]
    assert story.since_ms == START_MS, "the time of the target is in the log"


def test_a_target_that_is_put_off_says_until_when() -> None:
    desk = ConsumerDesk(consumer_assignment_interval_ms=3000)
    Consumer(desk, "ada").join()
    desk.pass_time(1000)
    Consumer(desk, "bob").join()

    assert desk.told().group_state == "Assigning"
    assert desk.story().until_ms == START_MS + 3000


def test_so_many_rebalances_are_kept() -> None:
    desk, ada, _ = two()
    for turn in range(REBALANCES_KEPT + 5):
        desk.have({TOPIC: 5 + turn})
        ada.report()

    told = desk.story().rebalances

    assert len(told) == REBALANCES_KEPT
    assert told[-1].reason.startswith(f"orders has {5 + REBALANCES_KEPT + 4} partitions")


def test_a_reason_is_told_in_so_many_characters() -> None:
    desk, _, _ = two()

    desk.beat("bob", 2, names=("a" * 200, "b" * 200))

    assert len(last(desk).reason) == REASON_CHARS


class FullDesk(ConsumerDesk):
    """A desk whose log takes nothing more, when it is told so."""

    is_full = False

    def perform(self, effects: list[Effect]) -> None:
        if not (self.is_full and any(isinstance(effect, Persist) for effect in effects)):
            super().perform(effects)


def test_a_decision_that_cannot_be_written_sets_off_nothing() -> None:
    desk = FullDesk()
    ada = Consumer(desk, "ada").join()
    before = desk.story().rebalances
    desk.have({TOPIC: 5})
    desk.is_full = True
    with pytest.raises(KeyError):
        ada.report()
    assert desk.story().rebalances == before

    desk.is_full = False
    Consumer(desk, "bob").join()

    assert [by_whom(told) for told in desk.story().rebalances] == [
        ("ada", "it joined"),
        ("bob", "it joined"),
    ]


def test_a_group_that_was_a_classic_one_remembers_what_it_went_through() -> None:
    desk = ConsumerDesk()
    old, _ = desk.enter()
    desk.sync(old, 1, {})
    desk.pass_time(1000)
    Consumer(desk, "new").join()

    first, second = desk.story().rebalances

    assert by_whom(first) == (old, "it joined")
    assert first.generation_id == 1
    assert by_whom(second) == ("new", "it joined")
    assert waits(desk) == [(old, Awaited.JOIN)]
    desk.join(old)
    assert (old, Awaited.SYNC) in waits(desk)


@pytest.mark.parametrize("is_at_rest", [True, False])
def test_a_group_that_is_a_classic_one_again_remembers_what_it_went_through(
    is_at_rest: bool,
) -> None:
    desk = ConsumerDesk()
    old, _ = desk.enter()
    desk.sync(old, 1, {})
    desk.pass_time(1000)
    new = Consumer(desk, "new")
    new.join()
    if is_at_rest:
        desk.sync(old, desk.answers[desk.join(old)].generation_id)
        desk.settle(new)
    desk.pass_time(1000)
    before = list(desk.story().rebalances)
    (summary,) = desk.machine.summaries()

    new.leave()

    classic = Desk.story(desk)
    assert [by_whom(told) for told in classic.rebalances] == [
        (old, "it joined"),
        ("new", "it joined"),
    ]
    assert classic.rebalances[0] == before[0]
    assert (classic.rebalances[1].ended_ms == -1) is not is_at_rest
    desk.pass_time(0)
    classic = Desk.story(desk)
    assert len(classic.rebalances) == 3, "in this one all join the classic group again"
    ended_ms = classic.rebalances[1].ended_ms
    assert ended_ms == (before[1].ended_ms if is_at_rest else START_MS + 2000)
    (now,) = desk.machine.summaries()
    assert now.rebalance_count == summary.rebalance_count + 1
    assert now.rebalance_ms >= summary.rebalance_ms


def test_an_administrator_that_removes_a_member_says_why() -> None:
    desk, _, _ = two()

    desk.leave(MemberIdentity(member_id="bob", reason="it is stuck"))

    assert by_whom(last(desk)) == ("bob", "it left: it is stuck")


def test_commits_are_told_with_their_time() -> None:
    desk, ada, _ = two()
    desk.pass_time(1000)
    assert desk.commit(7, member_id="ada", generation=ada.epoch) == 0

    (topic,) = desk.story().commits

    assert (topic.name, topic.partitions[0].committed_ms) == (TOPIC, START_MS + 1000)


def test_a_group_that_is_deleted_leaves_no_story_to_the_next_of_its_name() -> None:
    desk = ConsumerDesk()
    Consumer(desk, "ada").join().leave()
    assert desk.delete_groups(GROUP) == [0]

    Consumer(desk, "bob").join()

    assert [by_whom(told) for told in desk.story().rebalances] == [("bob", "it joined")]
