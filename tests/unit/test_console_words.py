"""How the console writes numbers, sizes and times."""

from datetime import UTC, datetime, timedelta

import pytest

from ottla.console import words


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, words.NOTHING), (0, "0"), (1_234_567, "1,234,567"), (0.25, "0.2"), (41.7, "42")],
)
def test_numbers_have_commas_and_small_ones_a_point(value: float | None, text: str) -> None:
    assert words.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, words.NOTHING), (0, "0 B"), (1023.2, "1023 B"), (1024, "1.0 KiB"), (1.5e8, "143 MiB")],
)
def test_sizes_have_the_largest_unit_that_fits(value: float | None, text: str) -> None:
    assert words.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, words.NOTHING),
        (0.34, "0.3 s"),
        (timedelta(seconds=90), "90 s"),
        (600, "10 min"),
        (timedelta(hours=9), "9 h"),
        (7 * 86_400, "7 days"),
    ],
)
def test_spans_are_as_precise_as_they_are_short(value: float | None, text: str) -> None:
    assert words.span(value) == text


def test_moments_are_in_utc_and_missing_ones_are_dashes() -> None:
    moment = datetime(2026, 11, 15, 16, 0, 0, 123_000, UTC)
    assert words.moment(moment) == "2026-11-15 16:00:00.123"
    assert words.moment(int(moment.timestamp() * 1000)) == "2026-11-15 16:00:00.123"
    assert words.moment(-1) == words.moment(None) == words.NOTHING


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"retention.ms": "604800000"}, "7 days"),
        ({"cleanup.policy": "compact", "retention.ms": "604800000"}, "compact"),
        ({"cleanup.policy": "compact,delete", "retention.ms": "7200000"}, "compact, 2 h"),
        ({"cleanup.policy": "delete", "retention.ms": "-1"}, "for ever"),
    ],
)
def test_what_is_kept_is_said_in_words(config: dict[str, str], text: str) -> None:
    assert words.kept(config) == text
