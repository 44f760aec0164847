"""`ottla why group`: whether a group reads on, and where it cannot."""

from typing import Any

import pytest

from ottla.model import TopicPartition
from ottla.why.findings import Finding
from ottla.why.group_progress import progress
from ottla.why.lags import FRESH_MS
from tests.group_sights import (
    LONG_AGO_MS,
    NOW_MS,
    ORDERS,
    lag,
    member,
    rebalance,
    sight,
    story,
)

ADA = member("ada", ORDERS)
STALE = story(commits=[(ORDERS, LONG_AGO_MS)])


def only(*arguments: Any) -> Finding:
    (finding,) = progress(*arguments)
    return finding


def test_a_group_that_has_read_everything_is_fine() -> None:
    assert list(progress(None, sight(lag(10, 10), members=[ADA], told=STALE))) == []


def test_a_member_that_commits_nothing_is_stuck_and_named() -> None:
    found = only(None, sight(lag(4, 10), members=[ADA], told=STALE))

    assert found.code == "stuck"
    assert "`ottla consume orders -p 0 --from 4 -n 1`" in found.advice
    assert found.text == (
        "ada (ada.example) has 6 records to read in orders-0 and has committed nothing there for "
        "5 min."
    )
    assert (found.members, found.partitions, found.since_ms) == (("ada",), (ORDERS,), LONG_AGO_MS)


def test_a_member_that_committed_just_now_is_not_stuck() -> None:
    fresh = story(commits=[(ORDERS, NOW_MS - FRESH_MS + 1)])

    assert list(progress(None, sight(lag(4, 10), members=[ADA], told=fresh))) == []


def test_records_that_came_just_now_prove_nothing() -> None:
    rare = lag(4, 10, fresh_offset=4)

    assert list(progress(sight(rare), sight(rare, members=[ADA], told=STALE))) == []


def test_without_commit_times_two_looks_are_compared() -> None:
    before = sight(lag(4, 9), members=[ADA], seen_ms=NOW_MS - 6_000)
    now = sight(lag(4, 10), members=[ADA])
    moved = sight(lag(5, 10), members=[ADA])

    assert list(progress(None, now)) == []
    assert list(progress(before, moved)) == []
    found = only(before, now)
    assert found.code == "stuck"
    assert "in the 6.0 s that we looked" in found.text
    assert "--look" not in found.text


def test_a_look_shorter_than_the_interval_of_commits_says_so() -> None:
    before = sight(lag(4, 9), members=[ADA], seen_ms=NOW_MS - 1_000)

    assert "too short: --look" in only(before, sight(lag(4, 10), members=[ADA])).text


def test_a_group_that_reads_less_than_is_written_falls_behind() -> None:
    told = story(commits=[(ORDERS, NOW_MS)])
    before = sight(lag(4, 10), members=[ADA], told=told, seen_ms=NOW_MS - 1_000)
    now = sight(lag(6, 112), members=[ADA], told=told)

    found = only(before, now)

    assert found.code == "falls_behind"
    assert "106 records are left, 100 more than 1.0 s ago" in found.text


@pytest.mark.parametrize(("committed", "code"), [(11, "beyond_end"), (1, "below_start")])
def test_offsets_that_the_partition_does_not_have(committed: int, code: str) -> None:
    found, *_ = progress(
        None, sight(lag(committed, 10, start_offset=3), members=[ADA], told=story())
    )

    assert (found.code, found.partitions) == (code, (ORDERS,))
    assert "ottla group reset kitchen -t orders" in found.advice


def test_retention_is_told_how_much_it_took() -> None:
    found, *_ = progress(None, sight(lag(1, 10, start_offset=3), members=[ADA], told=story()))

    assert "begins at 3 now: retention took 2 offsets" in found.text


def test_a_partition_that_is_gone_is_told() -> None:
    found = only(None, sight(lag(4, None), members=[ADA], told=story()))

    assert found.code == "partition_missing"


def test_a_group_without_members_says_since_when_and_who_was_the_last() -> None:
    told = story(
        since_ms=NOW_MS - 9 * 3_600_000,
        rebalances=[rebalance("bob", NOW_MS, NOW_MS, reason="it left")],
    )

    found = only(None, sight(lag(4, 10, None), state="Empty", told=told))

    assert found.code == "no_members"
    assert found.text == (
        "It has no members, for 9 h now (the last was bob (bob.example): it left), and 6 records "
        "to read."
    )
    assert "group.id=kitchen" in found.advice
    assert "may still run and hang" in found.advice  # for it gave no reason to leave
    assert found.partitions == (ORDERS,)


def test_an_empty_group_with_nothing_to_read_needs_no_advice() -> None:
    found = only(None, sight(lag(10, 10, None), state="Empty"))

    assert found.text == "It has no members, and nothing to read."
    assert found.advice == ""


def test_an_open_transaction_holds_readers_back_and_nobody_is_blamed() -> None:
    held = lag(4, 10, stable_offset=4)

    found = only(None, sight(held, members=[ADA], told=STALE))

    assert found.code == "open_transaction"
    assert "orders-0 at offset 4" in found.text
    behind = lag(3, 10, stable_offset=4)
    assert only(None, sight(behind, members=[ADA], told=STALE)).code == "stuck"


def test_a_partition_that_no_member_has_is_told() -> None:
    stray = lag(4, 10, None, TopicPartition("refunds", 0))

    found = only(None, sight(stray, members=[ADA], told=story()))

    assert found.code == "not_assigned"
    assert "refunds-0, with 6 records" in found.text
    rebalancing = sight(stray, state="PreparingRebalance", members=[ADA], told=story())
    assert list(progress(None, rebalancing)) == []


def test_a_partition_of_which_nothing_was_ever_committed_is_told() -> None:
    found = only(None, sight(lag(None, 10), members=[ADA], told=story()))

    assert found.code == "never_committed"
    assert "which ada (ada.example) has" in found.text
    just_now = lag(None, 10, fresh_offset=0)
    assert list(progress(None, sight(just_now, members=[ADA], told=story()))) == []


def test_members_without_partitions_are_told() -> None:
    found = only(None, sight(lag(10, 10), members=[ADA, member("bob")], told=story()))

    assert (found.code, found.members) == ("idle_members", ("bob",))


def test_what_retention_took_is_not_there_to_read() -> None:
    passed, nobody = progress(None, sight(lag(3, 220, None, start_offset=220), state="Empty"))

    assert passed.code == "below_start"
    assert "retention took 217 offsets" in passed.text
    assert nobody.text == "It has no members, and nothing to read."


def test_a_consumer_that_was_closed_is_not_suspected_to_hang() -> None:
    closed = rebalance("bob", reason="it left: the consumer was closed")

    (found,) = progress(None, sight(lag(), state="Empty", told=story(rebalances=[closed])))

    assert "hang" not in found.advice


def test_a_group_that_reads_more_than_is_written_catches_up() -> None:
    told = story(commits=[(ORDERS, NOW_MS)])
    before = sight(lag(4, 304), members=[ADA], told=told, seen_ms=NOW_MS - 2_000)

    found = only(before, sight(lag(210, 310), members=[ADA], told=told))

    assert found.code == "catches_up"
    assert "100 records are left in orders-0, 200 fewer than 2.0 s ago" in found.text
    assert found.text.endswith("takes another 1.0 s.")
