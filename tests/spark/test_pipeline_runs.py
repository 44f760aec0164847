"""How pipelines run: in order, on from where they were, stopped between batches, or failing."""

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import pipeline
from ottla.cli import main as cli
from ottla.errors import ConfigError
from ottla.pipeline.progress import BatchReport, StepProgress
from ottla.pipeline.queries import Queries, RunSettings
from ottla.pipeline.spec import Pipeline, Step
from ottla.pipeline.state import FAILED, STATE_VARIABLE, STOPPED, StateFolder
from ottla.testing import TestBroker
from tests.spark.pipelines import rows_of, run_once, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NUMBERS = pipeline.topic("numbers", "n long not null")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder for one test."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    return tmp_path


@pytest.fixture
def own_broker(home: Path) -> Iterator[TestBroker]:
    """A broker for one test, with the topic `numbers`."""
    with TestBroker() as broker:
        broker.create_topic("numbers")
        yield broker


def doubled() -> Step:
    return pipeline.sql("SELECT n * 2 AS n FROM numbers", source=NUMBERS, sink="b", name="doubled")


def numbers(*values: int) -> list[dict[str, Any] | str]:
    return [{"n": value} for value in values]


def test_steps_run_in_order_and_go_on_where_they_were(
    own_broker: TestBroker, spark: "SparkSession"
) -> None:
    source = pipeline.topic("b", "n long", view="doubles")
    last = pipeline.sql("SELECT n + 1 AS n FROM doubles", source=source, sink="c", name="last")
    write(own_broker, "numbers", numbers(1, 2, 3))

    first = run_once([last, doubled()], own_broker, spark)
    write(own_broker, "numbers", numbers(10))
    second = run_once([last, doubled()], own_broker, spark)

    assert [row["n"] for row in rows_of(own_broker, "c")] == [3, 5, 7, 21]
    assert (first["last"].rows_in, second["last"].rows_in) == (3, 1)
    with ottla.Admin(own_broker.bootstrap_servers) as admin:
        assert admin.lag("test.last").total == 0


def test_a_record_that_does_not_parse_fails_a_step_without_dead_letters(
    own_broker: TestBroker, spark: "SparkSession", home: Path
) -> None:
    write(own_broker, "numbers", [*numbers(1), "nonsense"])
    with pytest.raises(pipeline.PipelineFailedError, match="record numbers-0@1 does not parse"):
        run_once([doubled()], own_broker, spark)
    state, now = StateFolder(home, "test").seen()
    assert (now, state.trouble.partition(":")[0]) == (FAILED, "step 'doubled' failed")
    assert rows_of(own_broker, "b") == []


def test_a_signal_stops_after_the_batch_and_the_next_run_goes_on(
    own_broker: TestBroker, spark: "SparkSession", home: Path
) -> None:
    write(own_broker, "numbers", numbers(1, 2))

    def stop_at_first(
        progress: Sequence[StepProgress], ended: Sequence[tuple[str, BatchReport]]
    ) -> None:
        if ended:
            os.kill(os.getpid(), signal.SIGTERM)

    how = pipeline.Run(bootstrap=own_broker.bootstrap_servers)
    (step,) = pipeline.run([doubled()], name="test", spark=spark, how=how, watch=stop_at_first)

    assert (step.rows_in, StateFolder(home, "test").seen()[1]) == (2, STOPPED)
    write(own_broker, "numbers", numbers(3))
    run_once([doubled()], own_broker, spark)
    assert [row["n"] for row in rows_of(own_broker, "b")] == [2, 4, 6]


def test_records_without_a_schema_pass_as_they_are(
    own_broker: TestBroker, spark: "SparkSession"
) -> None:
    @pipeline.step(
        source=pipeline.topic("numbers", options={"includeHeaders": "true"}), sink="copy"
    )
    def copy(records: "DataFrame") -> "DataFrame":
        return records.select("key", "value", "headers", "partition")

    with ottla.Producer(own_broker.bootstrap_servers) as producer:
        producer.send("numbers", b"\x00\xff", key=b"k", headers={"h": b"v"})
        producer.send("numbers", None, key=b"gone")
    run_once([copy], own_broker, spark)
    found = [(r.key, r.value, tuple(r.headers)) for r in own_broker.records("copy")]
    assert found == [(b"k", b"\x00\xff", (("h", b"v"),)), (b"gone", None, ())]


def test_the_ledger_lists_the_batches(
    own_broker: TestBroker, spark: "SparkSession", capsys: pytest.CaptureFixture[str]
) -> None:
    write(own_broker, "numbers", numbers(1, 2, 3))
    run_once([doubled()], own_broker, spark)
    assert cli.run(["pipeline", "ledger", "test", "-o", "json"]) == cli.OK
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["step"], line["batch"], line["rows"]) == ("doubled", 0, 3)
    assert line["offsets"] == {"numbers-0": 3}


def queries(spark: "SparkSession", *steps: Step) -> Queries:
    settings = RunSettings(bootstrap="localhost:1", checkpoint="/nowhere")
    return Queries(Pipeline("test", steps), settings, spark)


@pytest.mark.parametrize(
    ("sql", "sink", "complaint"),
    [
        ("SELECT m FROM numbers", "b", "step 'bad': .*`m` cannot be resolved"),
        ("SELECT n FROM numbers", pipeline.to("b", key="k"), "no column 'k', which says the key"),
        ("SELECT n FROM numbers", pipeline.to("b", "c"), "no column 'topic'"),
        ("SELECT 1 AS n", "b", "does not come from a topic"),
        ("SELECT n AS _n FROM numbers", "b", "needs a column to write"),
    ],
)
def test_a_step_that_cannot_work_is_found_without_running_it(
    spark: "SparkSession", sql: str, sink: Any, complaint: str
) -> None:
    step = pipeline.sql(sql, source=NUMBERS, sink=sink, name="bad")
    with pytest.raises(ConfigError, match=complaint):
        queries(spark, step).columns(step)


def test_an_error_in_a_function_is_told_with_its_line(spark: "SparkSession") -> None:
    @pipeline.step(source=NUMBERS, sink="b")
    def broken(numbers: "DataFrame") -> "DataFrame":
        raise KeyError("oops")

    with pytest.raises(ConfigError, match=r"step 'broken': .*test_pipeline_runs.py:\d+: KeyError"):
        queries(spark, broken).columns(broken)


def test_an_aggregate_without_watermark_is_refused_before_it_runs(
    own_broker: TestBroker, spark: "SparkSession"
) -> None:
    step = pipeline.sql(
        "SELECT n, count(*) AS c FROM numbers GROUP BY n", source=NUMBERS, sink="b", name="counts"
    )
    with pytest.raises(ConfigError, match=r"step 'counts': .*watermark"):
        run_once([step], own_broker, spark)


def test_a_schema_that_is_none_is_refused_in_one_line(spark: "SparkSession") -> None:
    source = pipeline.topic("numbers", "n lung")
    step = pipeline.sql("SELECT n FROM numbers", source=source, sink="b", name="bad")
    with pytest.raises(ConfigError, match="'n lung' is no schema of Spark"):
        queries(spark, step).columns(step)


@pytest.mark.usefixtures("spark")
def test_a_plan_shows_topics_and_columns(
    own_broker: TestBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "shop.py"
    file.write_text(
        "from ottla import pipeline\n"
        "numbers = pipeline.topic('numbers', 'n long')\n"
        "twice = pipeline.sql('SELECT n * 2 AS m FROM numbers', source=numbers, sink='b')\n"
    )
    bootstrap = own_broker.bootstrap_servers
    assert cli.run(["pipeline", "plan", str(file), "-b", bootstrap, "-o", "json"]) == cli.OK
    plan = json.loads(capsys.readouterr().out)
    assert plan["steps"][0]["columns"] == {"m": "bigint"}
    partitions = {topic["topic"]: topic["partitions"] for topic in plan["topics"]}
    assert partitions == {"numbers": 1, "b": None}
