"""`ottla why group`: what a classic group as a whole waits for, by its story or its state."""

import pytest

from ottla.why.group_waits import waits
from ottla.why.told import OFTEN
from tests.group_sights import NOW_MS, ORDERS, member, rebalance, sight, story

ADA, BOB = member("ada", ORDERS), member("bob")


def test_a_stable_group_waits_for_nothing() -> None:
    assert list(waits(sight(members=[ADA], told=story()))) == []
    assert list(waits(sight(members=[ADA]))) == []


def test_members_that_have_to_join_again_are_named_with_their_time() -> None:
    told = story(("ada", "join"), rebalances=[rebalance("bob", reason="it joined: hello")])

    joins, set_off = waits(sight(state="PreparingRebalance", members=[ADA, BOB], told=told))

    assert joins.code == "waits_for_joins"
    assert joins.text == (
        "It waits for ada (ada.example) to join again, for 2.0 s so far, and for 5.0 s at most."
    )
    assert (joins.members, joins.since_ms, joins.until_ms) == (
        ("ada",),
        NOW_MS - 2_000,
        NOW_MS + 5_000,
    )
    assert "max.poll.interval.ms" in joins.advice
    assert set_off.text == "bob (bob.example) set off the rebalance 2.0 s ago: it joined: hello."


@pytest.mark.parametrize(
    ("what", "state", "code"),
    [
        ("join", "PreparingRebalance", "waits_for_joins"),
        ("assignment", "CompletingRebalance", "waits_for_assignment"),
        ("sync", "Stable", "waits_for_syncs"),
        ("heartbeat", "Stable", "silent"),
        ("first join", "Stable", "waits_for_first_joins"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_everything_that_can_be_awaited_has_words(what: str, state: str, code: str) -> None:
    (finding,) = waits(sight(state=state, members=[ADA], told=story(("ada", what))))

    assert finding.code == code
    assert "ada (ada.example)" in finding.text
    assert "5.0 s" in finding.text
    assert finding.advice


def test_what_only_a_newer_broker_waits_for_is_left_out() -> None:
    told = story(("ada", "join"))
    newer = story(("ada", 99))  # type: ignore[arg-type]

    assert len(list(waits(sight(state="PreparingRebalance", members=[ADA], told=told)))) == 1
    assert list(waits(sight(members=[ADA], told=newer))) == []


def test_a_new_group_gives_others_time() -> None:
    told = story(until_ms=NOW_MS + 3_000)

    (finding,) = waits(sight(state="PreparingRebalance", members=[ADA], told=told))

    assert (finding.code, finding.until_ms) == ("waits_for_others", NOW_MS + 3_000)
    assert "3.0 s at most" in finding.text


def test_a_member_whose_id_says_nothing_is_shown_with_its_client() -> None:
    static = member("jhvSz", instance_id="cook-1", client_id="cook")
    opaque = member("Q2h1", client_id="dish")
    told = story(("jhvSz", "join"), ("Q2h1", "join"))

    (finding,) = waits(sight(state="PreparingRebalance", members=[static, opaque], told=told))

    assert "cook-1 (jhvSz.example), Q2h1 (dish, Q2h1.example)" in finding.text


def test_of_many_members_a_few_are_named() -> None:
    crowd = [member(f"m{number}") for number in range(9)]
    told = story(*((m.member_id, "join") for m in crowd))

    (finding,) = waits(sight(state="PreparingRebalance", members=crowd, told=told))

    assert "m4 (m4.example) and 4 more to join again" in finding.text
    assert len(finding.members) == 9


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("PreparingRebalance", "waits_for_joins"),
        ("CompletingRebalance", "waits_for_assignment"),
    ],
)
def test_without_a_story_the_state_says_what_is_awaited_but_not_of_whom(
    state: str, code: str
) -> None:
    (finding,) = waits(sight(state=state, members=[ADA]))

    assert (finding.code, finding.members) == (code, ())
    assert "this broker does not tell" in finding.text


def test_a_group_that_rebalances_all_the_time_is_told_who_does_it() -> None:
    ended = [
        rebalance("bob", NOW_MS - 1_000 * n, NOW_MS - 1_000 * n, reason="its session timed out")
        for n in range(OFTEN, 0, -1)
    ]

    assert list(waits(sight(members=[ADA], told=story(rebalances=ended[1:])))) == []
    (finding,) = waits(sight(members=[ADA], told=story(rebalances=ended)))

    assert finding.code == "rebalances_often"
    assert f"{OFTEN} times by bob (bob.example): its session timed out" in finding.text
