"""Prometheus' text format, as its documentation has it and its own parser reads it."""

import logging

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.exposition import LEFT_OUT, PIECE, Exposition, Metric, Series

BYTES = Metric("bytes_total", "counter", "Bytes", ("topic",))
UP = Metric("up", "gauge", "Up")
TOOK = Metric("took_seconds", "histogram", "Time", ("api",))


def family(exposition: Exposition, metric: Metric, series: Series) -> str:
    return "".join(exposition.family(metric, series))


def test_a_family_says_what_it_is_and_has_a_line_for_each_number() -> None:
    series = [(("orders",), 7), (("refunds",), 0.5)]

    assert family(Exposition(), BYTES, series) == (
        "# HELP bytes_total Bytes\n"
        "# TYPE bytes_total counter\n"
        'bytes_total{topic="orders"} 7\n'
        'bytes_total{topic="refunds"} 0.5\n'
    )


def test_a_number_may_have_no_labels() -> None:
    assert family(Exposition(), UP, [((), 1)]).endswith("\nup 1\n")


def test_every_label_needs_a_value() -> None:
    with pytest.raises(TypeError, match="not enough arguments"):
        family(Exposition(), BYTES, [((), 1)])


def test_label_values_are_escaped_as_the_parser_expects() -> None:
    odd = 'a"b\\c\nd'
    told = family(Exposition(), BYTES, [((odd,), 1)])
    assert told.endswith('{topic="a\\"b\\\\c\\nd"} 1\n')

    (read,) = text_string_to_metric_families(told)

    assert read.samples[0].labels == {"topic": odd}


def test_a_long_family_comes_in_pieces() -> None:
    """Whoever serves others meanwhile has a turn after each."""
    series = [((f"100% of {number}",), number) for number in range(3 * PIECE + 1)]

    head, *pieces = Exposition().family(BYTES, series)

    assert head.startswith("# HELP")
    assert [piece.count("\n") for piece in pieces] == [PIECE, PIECE, PIECE, 1]
    assert pieces[3] == f'bytes_total{{topic="100% of {3 * PIECE}"}} {3 * PIECE}\n'


def test_buckets_of_a_histogram_count_all_that_are_not_above_them() -> None:
    told = "".join(Exposition().histogram(TOOK, (0.1, 1.0), [(("x",), [2, 0, 3], 9.5)]))

    assert told.splitlines()[1:] == [
        "# TYPE took_seconds histogram",
        'took_seconds_bucket{api="x",le="0.1"} 2',
        'took_seconds_bucket{api="x",le="1.0"} 2',
        'took_seconds_bucket{api="x",le="+Inf"} 5',
        'took_seconds_sum{api="x"} 9.5',
        'took_seconds_count{api="x"} 5',
    ]


def test_a_family_that_is_cut_says_so_in_a_metric_and_once_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    exposition = Exposition(max_series=2)
    series = [((f"topic-{number}",), number) for number in range(5)]

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            told = family(exposition, BYTES, series)

    assert told.count("\nbytes_total{") == 2
    assert "".join(exposition.left_out()).endswith(f'\n{LEFT_OUT.name}{{metric="bytes_total"}} 3\n')
    assert [record.getMessage() for record in caplog.records] == [
        "metrics are cut: metric=bytes_total told=2 left_out=3"
    ]


def test_a_family_that_is_whole_again_is_no_longer_told_to_be_cut() -> None:
    exposition = Exposition(max_series=1)
    family(exposition, BYTES, [(("a",), 1), (("b",), 1)])
    assert "bytes_total" in "".join(exposition.left_out())

    family(exposition, BYTES, [(("a",), 1)])

    assert "bytes_total" not in "".join(exposition.left_out())
