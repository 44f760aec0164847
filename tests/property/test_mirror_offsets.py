"""No translation of an offset leads beyond its record, and recent ones lead right there."""

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from ottla.mirror.offset_map import MAX_RUNS, SLOTS, Checkpoint, OffsetMap, Run, runs_of, slot_of

Pairs = list[tuple[int, int]]

gaps = st.integers(0, 3)
transactions = st.lists(st.lists(st.tuples(gaps, gaps), min_size=1, max_size=8), max_size=40)


def copied(holes: list[list[tuple[int, int]]]) -> list[Pairs]:
    """Transactions, as pairs of offsets that grow; each leaves a marker at the target."""
    source = target = 0
    lots: list[Pairs] = []
    for holes_of_one in holes:
        lot: Pairs = []
        for source_gap, target_gap in holes_of_one:
            source, target = source + source_gap, target + target_gap
            lot.append((source, target))
            source, target = source + 1, target + 1
        lots.append(lot)
        target += 1
    return lots


def map_of(lots: list[Pairs]) -> OffsetMap:
    offsets = OffsetMap()
    offsets.add(Checkpoint(number=0, next_offset=0, runs=(Run(0, 0, 0),)))
    for number, lot in enumerate(lots, start=1):
        next_offset = lot[-1][0] + 1
        offsets.add(Checkpoint(number=number, next_offset=next_offset, runs=runs_of(lot)))
    return offsets


def first_visible(pairs: Pairs, target_offset: int) -> int:
    """Which record somebody gets who begins to read at `target_offset` of the target."""
    return bisect_left([target for _, target in pairs], target_offset)


@given(transactions)
def test_while_nothing_is_forgotten_each_offset_leads_to_its_record(
    holes: list[list[tuple[int, int]]],
) -> None:
    lots = copied(holes)
    offsets, pairs = map_of(lots), [pair for lot in lots for pair in lot]

    for source_offset in range(pairs[-1][0] + 2 if pairs else 0):
        there = offsets.translate(source_offset)
        assert there is not None
        expected = bisect_left([source for source, _ in pairs], source_offset)
        assert first_visible(pairs, there) == expected


@given(st.integers(1, 2500), st.integers(1, 2))
def test_what_is_forgotten_leads_before_the_record_and_never_beyond(
    transaction_count: int, length: int
) -> None:
    lots = copied([[(0, 0)] * length for _ in range(transaction_count)])
    offsets, pairs = map_of(lots), [pair for lot in lots for pair in lot]

    found = [offsets.translate(source_offset) for source_offset in range(len(pairs))]

    assert all(there is not None and there <= pairs[n][1] for n, there in enumerate(found))
    recent = SLOTS * length  # at least so many of the last records are never forgotten
    assert found[-recent:] == [target for _, target in pairs[-recent:]]


@given(st.integers(1, 1 << 40))
def test_the_number_of_checkpoints_has_an_end(number: int) -> None:
    level, place = map(int, slot_of(number).split("."))
    assert number % (1 << level) == 0
    assert (number >> level) % 2 == 1
    assert 0 <= place < SLOTS


@given(st.integers(1, 3 * MAX_RUNS))
def test_a_checkpoint_of_many_runs_keeps_the_first_and_the_last(count: int) -> None:
    pairs = [(2 * n, n) for n in range(count)]
    runs = runs_of(pairs)
    assert len(runs) <= MAX_RUNS
    assert (runs[0].source_offset, runs[-1].source_offset) == (0, 2 * (count - 1))


def test_before_the_first_checkpoint_nothing_is_known() -> None:
    assert OffsetMap().translate(0) is None
    assert OffsetMap().last is None
    assert OffsetMap().end is None
