"""The story of a group: whom it waits for and until when, its rebalances, and its commits."""

import pytest

from ottla.coordinator.group.classic import REASON_CHARS
from ottla.wire.messages.describe_groups import Awaited
from ottla.wire.messages.leave_group import MemberIdentity
from tests.group_samples import (
    REBALANCE_MS,
    SESSION_MS,
    START_MS,
    Desk,
    in_state,
    pair,
    protocols,
)


def waits(desk: Desk) -> list[tuple[str, Awaited]]:
    """Whom the group waits for, and what for."""
    return [(awaited.member_id, Awaited(awaited.what)) for awaited in desk.story().awaited]


def test_a_story_is_told_to_those_who_ask() -> None:
    desk, _ = in_state("Stable")

    assert desk.describe().story is None
    assert desk.story().generation_id == 1


def test_a_group_that_does_not_exist_has_no_story() -> None:
    with pytest.raises(AssertionError, match="orders-app has no story"):
        Desk().story()


def test_a_rebalance_waits_for_members_to_join_until_the_longest_timeout_is_over() -> None:
    desk, ada, bob = pair()
    began_ms = desk.now_ms
    desk.join(ada)
    desk.pass_time(2000)

    story = desk.story()

    assert waits(desk) == [(bob, Awaited.JOIN)]
    assert (story.now_ms, story.since_ms) == (began_ms + 2000, began_ms)
    assert story.until_ms == began_ms + REBALANCE_MS
    assert (story.awaited[0].since_ms, story.awaited[0].until_ms) == (
        began_ms,
        began_ms + REBALANCE_MS,
    )


def test_a_group_waits_for_those_who_were_given_an_id() -> None:
    desk, ada, bob = pair()
    given = desk.answers[desk.join()].member_id
    desk.join(ada)
    desk.join(bob)

    (awaited,) = desk.story().awaited

    assert (awaited.member_id, awaited.what) == (given, Awaited.FIRST_JOIN)
    assert awaited.until_ms == desk.now_ms + SESSION_MS


def test_a_new_generation_waits_for_its_leader_and_for_those_who_do_not_ask() -> None:
    desk, ada, bob = pair()
    desk.join(ada)
    desk.join(bob)
    assert waits(desk) == [(ada, Awaited.ASSIGNMENT), (bob, Awaited.SYNC)]

    desk.sync(bob, 3)
    assert waits(desk) == [(ada, Awaited.ASSIGNMENT)]
    assert desk.story().until_ms == desk.now_ms + REBALANCE_MS

    desk.sync(ada, 3, {ada: b"p0", bob: b"p1"})
    assert waits(desk) == []
    assert desk.story().until_ms == -1


def test_a_stable_group_still_waits_for_a_member_that_has_not_asked() -> None:
    desk, ada, bob = pair()
    desk.join(ada)
    desk.join(bob)
    desk.sync(ada, 3, {ada: b"p0", bob: b"p1"})

    assert waits(desk) == [(bob, Awaited.SYNC)]


def test_a_member_is_awaited_when_half_of_its_session_has_passed_in_silence() -> None:
    desk, ada = in_state("Stable")
    heard_ms = desk.now_ms
    desk.pass_time(SESSION_MS // 2)
    assert waits(desk) == []

    desk.pass_time(1)

    (awaited,) = desk.story().awaited
    assert (awaited.member_id, awaited.what) == (ada, Awaited.HEARTBEAT)
    assert (awaited.since_ms, awaited.until_ms) == (heard_ms, heard_ms + SESSION_MS)


def test_a_new_group_says_until_when_it_gives_others_time() -> None:
    desk = Desk(initial_rebalance_delay_ms=3000)
    desk.join(version=3)

    story = desk.story()

    assert story.awaited == ()
    assert story.until_ms == START_MS + 3000


def test_an_empty_group_knows_since_when_also_after_a_restart() -> None:
    desk, _ = in_state("Empty")
    left_ms = desk.now_ms
    desk.pass_time(5000)
    desk.restart()

    story = desk.story()

    assert story.since_ms == left_ms
    assert story.rebalances == ()


def test_a_rebalance_is_told_with_who_set_it_off_and_how_long_it_took() -> None:
    desk, ada, bob = pair()
    desk.pass_time(1000)
    began_ms = desk.now_ms
    desk.join(ada, reason="new partitions", client_id="ada")
    desk.pass_time(700)
    assert desk.story().rebalances[-1].ended_ms == -1
    desk.join(bob)
    desk.sync(ada, 3, {ada: b"p0", bob: b"p1"})

    told = desk.story().rebalances[-1]

    assert (told.began_ms, told.ended_ms, told.generation_id) == (began_ms, began_ms + 700, 3)
    assert (told.member_id, told.client_id, told.client_host) == (ada, "ada", "/10.0.0.1")
    assert told.reason == "the leader joined again: new partitions"


def test_a_rebalance_that_another_one_overtakes_leads_to_no_generation() -> None:
    desk, ada, bob = pair()
    desk.join(ada)
    desk.join(bob)
    desk.pass_time(300)
    desk.join(bob, spoken=protocols(topics=("refunds",)))

    overtaken, last = desk.story().rebalances[-2:]

    assert (overtaken.ended_ms, overtaken.generation_id) == (last.began_ms, -1)
    assert last.ended_ms == -1


def test_who_leaves_is_told_with_its_reason_and_its_host() -> None:
    desk, _, bob = pair()
    desk.leave(MemberIdentity(member_id=bob, reason="the consumer is being closed"))

    told = desk.story().rebalances[-1]

    assert (told.member_id, told.client_id) == (bob, "c")
    assert told.client_host == "/10.0.0.1"
    assert told.reason == "it left: the consumer is being closed"


def test_of_many_who_leave_at_a_time_one_is_named() -> None:
    desk, ada, bob = pair()
    desk.leave(ada, bob)

    told = desk.story().rebalances[-1]

    assert told.member_id == ada
    assert told.reason == "it left (and so did 1 more)"


def test_a_member_whose_session_timed_out_is_named() -> None:
    desk, ada, bob = pair()
    desk.pass_time(SESSION_MS - 1)
    desk.heartbeat(ada, 2)
    desk.pass_time(1)

    told = desk.story().rebalances[-1]

    assert (told.member_id, told.client_id) == (bob, "c")
    assert told.reason == "its session timed out"


def test_a_reason_is_kept_in_so_many_characters() -> None:
    desk, ada, _ = pair()
    desk.join(ada, reason="é" * 20_000)

    assert desk.story().rebalances[-1].reason == f"the leader joined again: {'é' * REASON_CHARS}"


def test_commits_are_told_with_their_time_by_topic() -> None:
    desk, _ = in_state("Empty")
    desk.commit(7, topic="orders", partition=1)
    desk.pass_time(1000)
    desk.commit(8, topic="orders", partition=0)
    desk.commit(9, topic="refunds")
    desk.pass_time(5000)

    told = {
        (topic.name, partition.partition_index): partition.committed_ms
        for topic in desk.story().commits
        for partition in topic.partitions
    }

    assert [topic.name for topic in desk.story().commits] == ["orders", "refunds"]
    assert told == {
        ("orders", 0): START_MS + 1000,
        ("orders", 1): START_MS,
        ("refunds", 0): START_MS + 1000,
    }
