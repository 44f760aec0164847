"""`ottla group describe`: what is shown of a group."""

import pytest

from ottla.cli.group.describe import print_text
from ottla.cli.output import Output
from tests.group_sights import NOW_MS, ORDERS, lag, member, rebalance, sight, story


def test_describe_says_that_a_broker_tells_no_rebalances(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_text(Output(), sight(lag(), members=[member("ada", ORDERS)], generation=None))

    shown = capsys.readouterr()
    assert shown.err == "of its rebalances, the broker does not tell\n"
    assert shown.out.startswith("kitchen · Stable · 1 member · lag 6 · coordinator 1 · range\n")
    assert "REASON" not in shown.out


@pytest.mark.parametrize(("is_classic", "word"), [(True, "GENERATION"), (False, "EPOCH")])
def test_describe_shows_rebalances_with_what_the_group_counts_in(
    is_classic: bool, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = story(rebalances=[rebalance("bob", NOW_MS - 900, NOW_MS - 200)])

    print_text(Output(), sight(lag(), members=[member("ada")], told=told, is_classic=is_classic))

    head, row = capsys.readouterr().out.splitlines()[-2:]
    assert head.split()[:4] == ["REBALANCE", "TOOK", word, "MEMBER"]
    assert row.split()[-4:] == ["bob", "bob.example", "it", "joined"]
