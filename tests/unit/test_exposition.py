"""Prometheus' text format, as its documentation has it."""

from ottla.exposition import family, histogram, labels_of


def test_a_family_says_what_it_is_and_has_a_line_for_each_number() -> None:
    series = [({"topic": "orders"}, 7), ({"topic": "refunds"}, 0.5)]

    assert family("bytes_total", "Bytes", series, kind="counter") == (
        "# HELP bytes_total Bytes\n"
        "# TYPE bytes_total counter\n"
        'bytes_total{topic="orders"} 7\n'
        'bytes_total{topic="refunds"} 0.5\n'
    )


def test_a_number_may_have_no_labels() -> None:
    assert family("up", "Up", [({}, 1)]).endswith("\nup 1\n")


def test_label_values_are_escaped() -> None:
    assert labels_of({"group": 'a"b\\c\nd'}) == '{group="a\\"b\\\\c\\nd"}'


def test_buckets_of_a_histogram_count_all_that_are_not_above_them() -> None:
    told = histogram("took_seconds", "Time", (0.1, 1.0), [({"api": "x"}, [2, 0, 3], 9.5)])

    assert told.splitlines()[1:] == [
        "# TYPE took_seconds histogram",
        'took_seconds_bucket{api="x",le="0.1"} 2',
        'took_seconds_bucket{api="x",le="1.0"} 2',
        'took_seconds_bucket{api="x",le="+Inf"} 5',
        'took_seconds_sum{api="x"} 9.5',
        'took_seconds_count{api="x"} 5',
    ]
