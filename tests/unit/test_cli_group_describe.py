"""`ottla group describe`: what is shown of a group."""

import pytest

from ottla.cli.group.describe import print_text
from ottla.cli.output import Output
from tests.group_sights import ORDERS, lag, member, sight


def test_describe_says_that_a_broker_tells_no_rebalances(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_text(Output(), sight(lag(), members=[member("ada", ORDERS)], generation=None))

    shown = capsys.readouterr()
    assert shown.err == "of its rebalances, the broker does not tell\n"
    assert shown.out.startswith("kitchen · Stable · 1 member · lag 6 · coordinator 1 · range\n")
    assert "REASON" not in shown.out
