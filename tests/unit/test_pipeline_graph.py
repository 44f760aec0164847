"""How a pipeline is declared, loaded and checked, without Spark and without a broker."""

from pathlib import Path
from typing import Any

import pytest

from ottla import pipeline
from ottla.errors import ConfigError
from ottla.pipeline.graph import check, external_topics, feeds, outputs, stages
from ottla.pipeline.spec import Pipeline, Step
from ottla.pipeline.topics import TopicMissingError, TopicPlan, make_missing, topic_plans


def same(frame: Any) -> Any:
    return frame


def step(name: str, source: Any, sink: Any, dead_letter: str | None = None) -> Step:
    return pipeline.step(source=source, sink=sink, dead_letter=dead_letter, name=name)(same)


def names(found: list[list[Step]]) -> list[list[str]]:
    return [[one.name for one in stage] for stage in found]


def test_a_decorated_function_is_a_step_and_can_still_be_called() -> None:
    @pipeline.step(source="orders", sink="large")
    def large(orders: Any) -> Any:
        return [order for order in orders if order > 10]

    assert (large.name, [topic.name for topic in large.topics]) == ("large", ["orders"])
    orders: Any = [5, 50]
    assert list(large(orders)) == [50]  # type: ignore[call-overload]


def test_a_step_in_sql_has_no_function_to_call() -> None:
    one = pipeline.sql("SELECT * FROM orders", source="orders", sink="copy", name="copy")
    with pytest.raises(TypeError, match="is SQL"):
        one(None)  # type: ignore[arg-type]


def test_a_step_comes_after_those_whose_output_it_reads() -> None:
    last = step("last", ["clean", "prices"], "report")
    clean = step("clean", "orders", "clean")
    bad = step("bad", "bad orders".replace(" ", "."), "alarms")
    prices = step("prices", "ticks", "prices")
    assert names(stages([last, clean, bad, prices])) == [["clean", "bad", "prices"], ["last"]]


def test_a_pattern_waits_for_every_topic_that_it_matches() -> None:
    upper = step("upper", "raw", "orders.eu")
    lower = step("lower", pipeline.topic(r"orders\..+", pattern=True), "all")
    assert feeds(upper, lower)
    assert names(stages([lower, upper])) == [["upper"], ["lower"]]


def test_dead_letters_can_be_read_by_another_step() -> None:
    parse = step("parse", pipeline.topic("raw", "id long"), "clean", dead_letter="bad")
    alarm = step("alarm", "bad", "alarms")
    assert names(stages([alarm, parse])) == [["parse"], ["alarm"]]


def test_steps_that_wait_for_each_other_are_refused() -> None:
    circle = Pipeline("p", (step("one", "a", "b"), step("two", "b", "a")))
    with pytest.raises(ConfigError, match="in a circle: one, two"):
        check(circle)


@pytest.mark.parametrize(
    ("steps", "complaint"),
    [
        ((), "no steps"),
        ((step("one", "a", "b"), step("one", "c", "d")), "2 steps are called 'one'"),
        ((step("one", pipeline.table(same), "b"),), "reads no topic"),
        ((step("one", "a", "b", dead_letter="c"),), "no source has a schema"),
        (
            (step("one", pipeline.topic("a", "x int"), "b", dead_letter="b"),),
            "the sink and the dead-letter topic",
        ),
        (
            (
                step(
                    "one",
                    pipeline.topic("a", "x int"),
                    pipeline.to("b", mode="update"),
                    dead_letter="c",
                ),
            ),
            "goes without a dead-letter topic",
        ),
        ((step("one", pipeline.topic("a", "x int", format="avro"), "b"),), "avro needs"),
        ((step("one", ["a.b", "a-b"], "c"),), "2 sources are called 'a_b'"),
        ((step("one", pipeline.topic("(", pattern=True), "c"),), "no regular expression"),
        ((step("one", "a", pipeline.to("b", "b")),), "named twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_work_is_refused_with_the_reason(
    steps: tuple[Step, ...], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint.replace("(", r"\(")):
        check(Pipeline("p", steps))


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "ä"])
def test_a_name_that_could_be_no_folder_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name"):
        check(Pipeline(name, (step("one", "a", "b"),)))


def test_words_that_do_not_exist_are_refused_where_they_stand() -> None:
    with pytest.raises(ConfigError, match="'jsn' is not one of json"):
        pipeline.topic("a", "x int", format="jsn")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="'overwrite' is not one of append"):
        pipeline.to("a", mode="overwrite")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="a watermark needs a schema"):
        pipeline.topic("a", watermark=("at", "1 minute"))
    with pytest.raises(ConfigError, match="characters other than"):
        pipeline.topic("a b")


def test_a_file_is_a_pipeline_of_the_steps_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(
        "from ottla import pipeline\n"
        "@pipeline.step(source='orders', sink='clean')\n"
        "def clean(orders): return orders\n"
        "totals = pipeline.sql('SELECT 1', source='clean', sink='totals')\n"
    )
    loaded = pipeline.load(file)
    assert (loaded.name, [one.name for one in loaded.steps]) == ("shop", ["clean", "totals"])
    assert loaded.group_of(loaded.steps[1]) == "shop.totals"


def test_a_file_may_say_what_its_pipeline_is_called(tmp_path: Path) -> None:
    file = tmp_path / "pipeline_v2.py"
    file.write_text(
        "from ottla import pipeline\n"
        "PIPELINE = 'shop'\n"
        "copy = pipeline.sql('SELECT 1', source='a', sink='b')\n"
    )
    assert pipeline.load(file).name == "shop"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = 1\n", "declares no steps"),
        ("x = 1\ny = x / 0\n", r"shop.py:2: ZeroDivisionError"),
        ("def broken(:\n", r"shop.py:1: SyntaxError"),
        ("PIPELINE = 3\nfrom ottla import pipeline\n", "is 3, not the name"),
    ],
)
def test_a_file_that_is_no_pipeline_is_told_where(
    tmp_path: Path, text: str, complaint: str
) -> None:
    file = tmp_path / "shop.py"
    file.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        pipeline.load(file)


def shop() -> Pipeline:
    parse = step(
        "parse",
        pipeline.topic("raw", "id long"),
        pipeline.to("clean", partitions=6),
        dead_letter="bad",
    )
    return Pipeline("shop", (parse, step("total", "clean", "totals")))


def test_only_topics_that_no_step_writes_must_exist() -> None:
    assert [topic.name for topic in external_topics(shop())] == ["raw"]
    assert outputs(shop()) == {"clean": 6, "bad": -1, "totals": -1}


def test_a_plan_says_of_each_topic_whether_it_is_there() -> None:
    plans = {plan.name: plan for plan in topic_plans(shop(), {"raw": 3, "totals": 1})}
    assert list(plans) == ["raw", "clean", "bad", "totals"]
    assert (plans["raw"].partition_count, plans["raw"].readers) == (3, ("parse",))
    assert (plans["clean"].is_made, plans["clean"].wanted_partitions) == (True, 6)
    assert not plans["totals"].is_made


def test_a_pattern_stands_for_the_topics_that_are_there() -> None:
    both = Pipeline("p", (step("all", pipeline.topic("in-.*", pattern=True), "out"),))
    assert [plan.name for plan in topic_plans(both, {"in-a": 1, "in-b": 2})] == [
        "in-a",
        "in-b",
        "out",
    ]


def test_a_topic_that_nobody_writes_fails_before_anything_is_made() -> None:
    plans = [
        TopicPlan(name="out", partition_count=None, writers=("one",)),
        TopicPlan(name="raw", partition_count=None, readers=("one",)),
    ]
    with pytest.raises(TopicMissingError, match="topic 'raw' does not exist, and one reads it"):
        make_missing(None, plans)  # type: ignore[arg-type]
