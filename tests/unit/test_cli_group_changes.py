"""`ottla group watch`: what is new in a group since the last look."""

from ottla.cli.group.changes import Blind, Watch
from ottla.model import TopicPartition
from ottla.quantities import about
from ottla.why.sight import Sight
from tests.group_sights import NOW_MS, ORDERS, lag, member, rebalance, sight, story

OTHER = TopicPartition("orders", 1)


def news(*sights: Sight | Blind) -> list[tuple[str, str]]:
    """Kind and text of what is new at the last of several looks."""
    watch = Watch()
    found = [watch.note(seen) for seen in sights]
    return [(change.kind, change.text) for change in found[-1]]


def test_the_first_look_is_news_as_a_whole() -> None:
    (change,) = Watch().note(sight(lag(4, 10), members=[member("ada", ORDERS)]))

    assert (
        change.text == "kitchen · Stable · generation 3 · 1 member · lag 6 · coordinator 1 · range"
    )
    assert change.facts == {"state": "Stable", "generation": 3, "members": ["ada"], "lag": 6}


def test_a_group_that_stays_as_it_is_is_no_news() -> None:
    seen = sight(lag(4, 10), members=[member("ada", ORDERS)], told=story())

    assert news(seen, seen) == []


def test_states_and_members_change() -> None:
    before = sight(state="PreparingRebalance", members=[member("ada", ORDERS), member("bob")])
    after = sight(members=[member("ada", ORDERS, OTHER), member("eve")])

    assert news(before, after) == [
        ("state", "PreparingRebalance -> Stable"),
        ("left", "bob (bob.example) is gone"),
        ("assigned", "ada (ada.example) has orders-0, orders-1"),
        ("joined", "eve (eve.example) is new, and has no partition"),
    ]


def test_rebalances_between_two_looks_are_all_told() -> None:
    old = rebalance("ada", NOW_MS - 90_000, NOW_MS - 89_000)
    first = rebalance("bob", NOW_MS - 900, NOW_MS - 200, reason="it left: closed")
    second = rebalance("eve", NOW_MS - 100)
    before = sight(told=story(rebalances=[old]))

    assert news(before, sight(told=story(rebalances=[old, first, second]))) == [
        (
            "rebalance",
            "rebalance led to generation 4 in 0.7 s, set off by bob (bob.example): it left: closed",
        ),
        ("rebalance", "rebalance goes on, set off by eve (eve.example): it joined"),
    ]


def test_a_consumer_group_counts_in_epochs() -> None:
    led_to = rebalance("bob", NOW_MS - 900, NOW_MS - 200)
    before = sight(told=story(), is_classic=False)

    ((_, text),) = news(before, sight(told=story(rebalances=[led_to]), is_classic=False))

    assert text == "rebalance led to epoch 4 in 0.7 s, set off by bob (bob.example): it joined"


def test_the_end_of_a_rebalance_is_news_and_one_that_was_overtaken_says_so() -> None:
    began = rebalance("eve", NOW_MS - 100)
    ended = rebalance("eve", NOW_MS - 100, NOW_MS)
    overtaken = rebalance("eve", NOW_MS - 100, NOW_MS, generation=None)
    before = sight(told=story(rebalances=[began]))

    ((_, text),) = news(before, sight(told=story(rebalances=[ended])))
    assert text.startswith("rebalance led to generation 4 in 0.1 s")
    ((_, text),) = news(before, sight(told=story(rebalances=[overtaken])))
    assert text.startswith("rebalance led to the next in 0.1 s")


def test_progress_is_told_in_lag_and_commits() -> None:
    before, after = sight(lag(4, 10)), sight(lag(8, 1_010))

    assert news(before, after) == [("progress", "lag 6 -> 1,002, +4 committed")]


def test_a_look_that_fails_is_told_once_and_then_the_group_as_a_whole() -> None:
    seen, gone = sight(), Blind(NOW_MS, "connection refused")

    assert news(seen, gone) == [("unseen", "cannot look: connection refused")]
    assert news(seen, gone, gone) == []
    assert [kind for kind, _ in news(seen, gone, sight(state="Empty"))] == ["seen", "state"]


def test_the_lag_in_a_topic_that_does_not_exist_is_not_known() -> None:
    assert lag(4, None).record_count is None
    assert sight(lag(4, None), lag(4, 10)).lag_count == 6


def test_durations_have_two_digits() -> None:
    minute = 60_000
    assert [
        about(ms) for ms in (-5, 70, 700, 48_400, 14 * minute, 300 * minute, 9_000 * minute)
    ] == [
        "0 ms",
        "70 ms",
        "0.7 s",
        "48 s",
        "14 min",
        "5 h",
        "6 days",
    ]
