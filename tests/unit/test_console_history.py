"""Samples in, rates and lines out; and what charts make of them."""

from xml.etree import ElementTree

import pytest

from ottla.console.charts import Stretch, line_chart, sparkline, timeline
from ottla.console.history import History, Sample, TopicSample, end_offset_of


def topic(end_offset: int, size_bytes: int | None = None) -> TopicSample:
    return TopicSample(
        partition_count=1,
        record_count=end_offset,
        end_offset=end_offset,
        size_bytes=size_bytes,
        is_internal=False,
        offline_count=0,
        under_replicated_count=0,
    )


def history_of(*ends: int, every_s: float = 2.0) -> History:
    history = History()
    for number, end in enumerate(ends):
        history.add(Sample(at_s=number * every_s, topics={"orders": topic(end)}))
    return history


def test_a_rate_is_growth_by_time() -> None:
    assert history_of(0, 20, 60).rate(end_offset_of("orders")) == pytest.approx(15.0)
    assert history_of(0, 20, 60).rates(end_offset_of("orders")) == [(2.0, 10.0), (4.0, 20.0)]


def test_one_sample_has_no_rate_and_an_unknown_topic_has_none_either() -> None:
    assert history_of(7).rate(end_offset_of("orders")) is None
    assert history_of(7, 9).rate(end_offset_of("nothing")) is None


def test_what_shrinks_has_a_rate_of_zero() -> None:
    history = History()
    for at_s, size in ((0.0, 100), (1.0, 40)):
        history.add(Sample(at_s=at_s, topics={"orders": topic(1, size)}))
    assert history.rate(lambda sample: sample.size_bytes) == 0.0


def test_the_oldest_sample_goes_first() -> None:
    history = History(max_samples=2)
    for at_s in range(3):
        history.add(Sample(at_s=float(at_s)))
    assert [sample.at_s for sample in history] == [1.0, 2.0]


def test_charts_are_well_formed_and_escape_what_users_named() -> None:
    name = '<script>alert("x")</script>&'
    line = [(0.0, 1.0), (1.0, 3.0)]
    rows = {name: [Stretch(0.0, 1.0, "good", name)]}
    for svg in (line_chart({name: line}, name), sparkline(line, name), timeline(rows, name)):
        root = ElementTree.fromstring(svg.replace("&#160;", " "))
        assert root.tag == "svg"
        assert "<script" not in svg


def test_nothing_to_draw_is_said_in_words() -> None:
    assert "Nothing" in line_chart({"a": []}, "a")
    assert "Nothing" in timeline({}, "a")
    assert "polyline" not in sparkline([(0.0, 1.0)], "a")


def test_the_highest_point_is_below_the_upper_edge() -> None:
    svg = line_chart({"a": [(0.0, 0.0), (1.0, 37.0)]}, "a")
    root = ElementTree.fromstring(svg.replace("&#160;", " "))
    line = root.find("polyline")
    assert line is not None
    (_, low), (_, high) = (point.split(",") for point in line.attrib["points"].split())
    assert 10 <= float(high) < float(low) == 150
