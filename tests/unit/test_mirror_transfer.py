"""How much goes into one transaction of a mirror, and how long it may be open."""

import pytest

from ottla.mirror.journal import Journal
from ottla.mirror.transfer import LONGEST_S, MAX_RECORDS, Ledger, more_lots

TRANSACTION_TIMEOUT_S = 60.0
"""What producers ask for unless they are told otherwise."""


class Trickle:
    """A source to which a record comes every so often, for ever, and the clock of its reader."""

    def __init__(self, every_s: float) -> None:
        self.now_s = 100.0
        self._every_s = every_s

    def clock(self) -> float:
        return self.now_s

    def poll(self, wait_s: float, max_records: int) -> str | None:
        assert max_records > 0
        self.now_s += min(wait_s, self._every_s)
        return "a record" if wait_s >= self._every_s else None


def ledger() -> Ledger:
    return Ledger({}, Journal())


@pytest.mark.parametrize("interval_s", [None, 0.1, 30.0])
@pytest.mark.parametrize("every_s", [0.0001, 0.01, 0.015])
def test_a_source_that_never_rests_keeps_no_transaction_open_for_too_long(
    interval_s: float | None, every_s: float
) -> None:
    source = Trickle(every_s)
    for _ in more_lots(source.poll, ledger(), interval_s, source.clock):
        source.now_s += every_s  # to send it takes its time, too
        assert source.now_s < 100.0 + TRANSACTION_TIMEOUT_S / 2 + 1


def test_what_is_there_is_copied_without_waiting_for_more() -> None:
    source = Trickle(every_s=1.0)
    assert list(more_lots(source.poll, ledger(), None, source.clock)) == []
    assert source.now_s < 100.5


def test_a_transaction_waits_for_company_until_its_interval_is_over() -> None:
    source = Trickle(every_s=0.25)
    assert len(list(more_lots(source.poll, ledger(), 1.0, source.clock))) == 4
    assert source.now_s == 101.0


def test_a_transaction_that_is_full_takes_nothing_more() -> None:
    source, full = Trickle(every_s=0.001), ledger()
    full.count("orders", MAX_RECORDS, 0)
    assert list(more_lots(source.poll, full, LONGEST_S, source.clock)) == []
