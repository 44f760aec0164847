"""The words of `--from` and `--until`."""

from datetime import UTC, datetime

import pytest

from ottla.cli.offsets import END, START, Anchor, Place, parse_place, settle
from ottla.model import TopicPartition

NOW_MS = 1_800_000_000_000
ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("start", START),
        ("end", END),
        ("0", Place(Anchor.ZERO, 0)),
        ("42", Place(Anchor.ZERO, 42)),
        ("-10", Place(Anchor.END, -10)),
        ("+10", Place(Anchor.START, 10)),
        ("@-90s", Place(Anchor.TIME, NOW_MS - 90_000)),
        ("@-5m", Place(Anchor.TIME, NOW_MS - 300_000)),
        ("@-1h", Place(Anchor.TIME, NOW_MS - 3_600_000)),
        ("@-2d", Place(Anchor.TIME, NOW_MS - 172_800_000)),
        ("@1763164800000", Place(Anchor.TIME, 1_763_164_800_000)),
        ("@2026-11-15T16:00:00Z", Place(Anchor.TIME, 1_794_758_400_000)),
        ("@2026-11-15T16:00+01:00", Place(Anchor.TIME, 1_794_754_800_000)),
    ],
)
def test_an_offset_is_said_in_a_few_words(text: str, place: Place) -> None:
    assert parse_place(text, NOW_MS) == place


def test_a_time_without_a_zone_is_local_time() -> None:
    local_ms = int(datetime(2026, 11, 15).timestamp() * 1000)  # noqa: DTZ001 (that is the point)
    assert parse_place("@2026-11-15", NOW_MS) == Place(Anchor.TIME, local_ms)


def test_a_date_in_utc_is_the_same_everywhere() -> None:
    expected_ms = int(datetime(2026, 11, 15, tzinfo=UTC).timestamp() * 1000)
    assert parse_place("@2026-11-15T00:00Z", NOW_MS).amount == expected_ms


@pytest.mark.parametrize("text", ["", "beginning", "1.5", "--1", "@", "@yesterday", "@-1w", "@-h"])
def test_what_is_no_offset_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="like"):
        parse_place(text, NOW_MS)


@pytest.mark.parametrize(
    ("place", "offset"),
    [
        (START, 100),
        (END, 200),
        (Place(Anchor.ZERO, 150), 150),
        (Place(Anchor.ZERO, 7), 100),
        (Place(Anchor.ZERO, 999), 200),
        (Place(Anchor.END, -10), 190),
        (Place(Anchor.END, -1000), 100),
        (Place(Anchor.START, 10), 110),
        (Place(Anchor.START, 1000), 200),
        (Place(Anchor.TIME, NOW_MS), 170),
    ],
)
def test_an_offset_never_leaves_the_partition(place: Place, offset: int) -> None:
    settled = settle(place, starts={ORDERS: 100}, ends={ORDERS: 200}, at_time={ORDERS: 170})
    assert settled == {ORDERS: offset}


def test_a_time_after_all_records_is_the_end() -> None:
    place = Place(Anchor.TIME, NOW_MS)
    assert settle(place, {ORDERS: 1}, {ORDERS: 9}, {ORDERS: -1}) == {ORDERS: 9}
