"""`ottla why group`: what a group of the new protocol waits for, by its story and its epochs."""

from typing import Any

import pytest

from ottla.model import TopicPartition
from ottla.why.group_waits import waits
from ottla.why.sight import Sight
from ottla.why.told import OFTEN
from tests.group_sights import NOW_MS, ORDERS, member, rebalance, sight, story

OTHER = TopicPartition("orders", 1)

KEEPS = member("ada", ORDERS, OTHER, epoch=4, target=(ORDERS,))
HOPES = member("bob", epoch=5, target=(OTHER,))
DONE = member("eve", epoch=5, target=())


def group(state: str = "Reconciling", **changes: Any) -> Sight:
    given = {"members": [KEEPS, HOPES, DONE], **changes}
    return sight(state=state, is_classic=False, generation=5, **given)


def test_a_group_at_rest_waits_for_nothing() -> None:
    assert list(waits(group("Stable"))) == []
    assert list(waits(group("Stable", told=story(rebalances=[rebalance(ended_ms=NOW_MS)])))) == []


def test_a_member_that_keeps_a_partition_is_named_with_its_time_and_with_who_waits_for_it() -> None:
    told = story(("ada", "revocation"), rebalances=[rebalance("bob")])

    revocation, set_off = waits(group(told=told))

    assert revocation.code == "waits_for_revocation"
    assert revocation.text == (
        "It waits for ada (ada.example) to give up orders-1 for bob (bob.example), for 2.0 s so "
        "far, and for 5.0 s at most."
    )
    assert (revocation.members, revocation.partitions) == (("ada",), (OTHER,))
    assert (revocation.since_ms, revocation.until_ms) == (NOW_MS - 2_000, NOW_MS + 5_000)
    assert "max.poll.interval.ms" in revocation.advice
    assert set_off.text == "bob (bob.example) set off the rebalance 2.0 s ago: it joined."


def test_a_member_whose_target_has_changed_again_still_has_to_speak() -> None:
    back = member("ada", ORDERS, OTHER, epoch=4, target=(ORDERS, OTHER))

    (finding,) = waits(group(members=[back], told=story(("ada", "revocation"))))

    assert "ada (ada.example) to say that it gave up what it was told to, for 2.0 s" in finding.text
    assert finding.partitions == ()


def test_members_that_have_yet_to_follow_are_told_together() -> None:
    told = story(("ada", "epoch"), ("bob", "epoch"))

    (finding,) = waits(group(told=told))

    assert finding.code == "waits_for_epoch"
    assert finding.text == (
        "To follow to epoch 5, with the next heartbeat: ada (ada.example), bob (bob.example); "
        "orders-1 will be theirs."
    )


@pytest.mark.parametrize(
    ("what", "code", "setting"),
    [
        ("heartbeat", "silent", "group.consumer.session.timeout.ms"),
        ("return", "waits_for_return", "group.instance.id"),
        ("join", "waits_for_joins", "polls"),
        ("sync", "waits_for_syncs", "still runs"),
    ],
)
def test_everything_else_that_can_be_awaited_has_words(what: str, code: str, setting: str) -> None:
    (finding,) = waits(group(told=story(("ada", what))))

    assert finding.code == code
    assert "ada (ada.example)" in finding.text
    assert "2.0 s so far" in finding.text
    assert "5.0 s" in finding.text
    assert setting in finding.advice


def test_a_member_that_left_between_two_questions_is_not_waited_for() -> None:
    told = story(("gone", "revocation"), ("gone", "epoch"))

    assert list(waits(group(told=told))) == []


def test_without_a_story_epochs_and_targets_say_who_has_to_act() -> None:
    behind = member("bob", epoch=4, target=(OTHER,))

    revocation, epoch = waits(group(members=[KEEPS, behind, DONE]))

    assert revocation.text == (
        "It waits for ada (ada.example) to give up orders-1 for bob (bob.example)."
    )
    assert (revocation.since_ms, revocation.until_ms) == (None, None)
    assert epoch.text == (
        "To follow to epoch 5, from 4, with the next heartbeat: bob (bob.example); orders-1 will "
        "be theirs."
    )


def test_a_new_target_comes_with_a_heartbeat_or_when_its_time_has_come() -> None:
    soon = story(until_ms=NOW_MS + 800)
    overdue = story(until_ms=NOW_MS - 1)

    found = [next(waits(group("Assigning", told=told))) for told in (None, overdue, soon)]

    assert {finding.code for finding in found} == {"waits_for_assignment"}
    assert [finding.text.partition(", for epoch 5, ")[2] for finding in found] == [
        "with the next heartbeat of a member.",
        "with the next heartbeat of a member.",
        "but not for another 0.8 s.",
    ]
    assert "group.consumer.assignment.interval.ms" in found[2].advice


def test_members_that_join_one_after_the_other_are_no_trouble_and_others_are() -> None:
    def often(reason: str) -> list[str]:
        times_ms = [NOW_MS - 1_000 * n for n in range(OFTEN, 0, -1)]
        turns = [rebalance("bob", at_ms, at_ms, reason=reason) for at_ms in times_ms]
        return [f.code for f in waits(group("Stable", told=story(rebalances=turns)))]

    assert often("it joined") == []
    assert often("its session timed out") == ["rebalances_often"]
