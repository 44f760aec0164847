"""What is made of Spark's reports and messages, and what is written down of a pipeline."""

import json
from pathlib import Path
from typing import Any

import pytest

from ottla import pipeline
from ottla.cli import main as cli
from ottla.cli.pipeline.plan import lines_of
from ottla.errors import OttlaError
from ottla.pipeline.progress import StepMeter, StepProgress, lag_of, report_of
from ottla.pipeline.state import (
    KILLED,
    RUNNING,
    STATE_VARIABLE,
    STOPPED,
    PipelineRunningError,
    State,
    StateFolder,
    UnknownPipelineError,
    all_folders,
    state_dir,
)
from ottla.pipeline.words import in_one_line


def offsets(**positions: int) -> str:
    """A position in partition 0 of each topic, as Spark passes it on."""
    topics = {topic: {"id": "", "p": {"0": at}} for topic, at in positions.items()}
    return json.dumps({"v": 1, "cluster": "", "group": None, "topics": topics})


def told(batch_id: int, rows: int = 0, bad: int = 0, **more: Any) -> dict[str, Any]:
    """A report of Spark, with what we read of it."""
    return {
        "batchId": batch_id,
        "batchDuration": 200,
        "durationMs": {"addBatch": 100},
        "observedMetrics": {
            "rows_in_0": {"rows": rows},
            "rows_out": {"rows": rows},
            "rows_bad": {"rows": bad},
        },
        "sources": [],
        **more,
    }


def meter_after(*batches: dict[str, Any], at_ms: int = 1_000) -> StepMeter:
    meter = StepMeter("clean")
    meter.note(report for one in batches if (report := report_of(one, at_ms)) is not None)
    return meter


def test_rows_that_do_not_parse_were_read_too() -> None:
    report = report_of(told(3, rows=10, bad=2), ended_ms=5)
    assert report is not None
    assert (report.rows_in, report.rows_out, report.rows_bad) == (12, 10, 2)


def test_rows_are_counted_as_spark_and_spark_connect_tell_of_them() -> None:
    from pyspark.sql import Row

    classic = Row(rows=4)
    connect = Row(values=[3], schema={"type": "struct", "fields": [{"name": "rows"}]})
    observed = {"rows_in_0": classic, "rows_out": connect, "rows_bad": connect}
    report = report_of(told(0, observedMetrics=observed), ended_ms=5)
    assert report is not None
    assert (report.rows_in, report.rows_out, report.rows_bad) == (7, 3, 3)


def test_a_report_of_waiting_is_no_batch() -> None:
    assert report_of(told(3, durationMs={"latestOffset": 500}), ended_ms=5) is None


def test_a_batch_counts_once_however_often_it_is_told() -> None:
    meter = meter_after(told(0, rows=5), told(1, rows=7))
    first = report_of(told(1, rows=7), 2_000)
    assert first is not None
    assert meter.note([first]) == []
    assert (meter.progress(2_000).rows_in, meter.progress(2_000).batch_id) == (12, 1)


def test_rates_are_over_the_last_seconds_and_fall_to_zero() -> None:
    meter = meter_after(told(0, rows=500), at_ms=1_000)
    assert meter.progress(now_ms=1_800).in_per_s == 500.0
    assert meter.progress(now_ms=60_000).in_per_s == 0.0
    assert meter.progress(now_ms=60_000).rows_in == 500


def test_lag_is_what_all_sources_have_left() -> None:
    orders = {"endOffset": offsets(orders=10), "latestOffset": offsets(orders=25)}
    clicks = {"endOffset": offsets(clicks=5), "latestOffset": offsets(clicks=5)}
    assert lag_of([orders, clicks]) == 15


def test_a_partition_that_no_batch_has_read_counts_as_a_whole() -> None:
    source = {"endOffset": offsets(orders=10), "latestOffset": offsets(orders=10, clicks=4)}
    assert lag_of([source]) == 4


def test_lag_is_unknown_where_no_source_is_ours() -> None:
    assert lag_of([{"endOffset": 6, "latestOffset": 7}, {"endOffset": "null"}]) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted\n"
            "Traceback (most recent call last):\n"
            '  File "x.py", line 3, in read\n'
            "ottla.errors.ConnectError: no broker at localhost:9092\n"
            "\tat org.apache.spark.Thing(Thing.scala:1)",
            "no broker at localhost:9092",
        ),
        (
            "org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] the record a-0@3 does "
            "not parse: id is missing SQLSTATE: P0001\n\tat java.lang.Thread",
            "the record a-0@3 does not parse: id is missing",
        ),
        (
            "Traceback (most recent call last):\n  File 'udf.py'\nZeroDivisionError: division by "
            "zero\n",
            "ZeroDivisionError: division by zero",
        ),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [A_B.C] It "
            "broke. SQLSTATE: XXKST\nmore",
            "It broke",
        ),
    ],
    ids=["ours", "raised", "python", "spark"],
)
def test_the_cause_is_found_in_pages_of_java(text: str, line: str) -> None:
    assert in_one_line(text) == line


def state(**more: Any) -> State:
    facts: dict[str, Any] = {
        "name": "shop",
        "pid": 4711,
        "file": "shop.py",
        "bootstrap": "localhost:9092",
        "master": "local[*]",
        "checkpoint": "/tmp/x",
        "is_once": False,
        "started_ms": 1,
        "updated_ms": 2,
        "steps": (StepProgress(step="clean", rows_in=5, lag=7),),
        "groups": {"clean": "shop.clean"},
    }
    return State(**{**facts, **more})


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path, "shop")
    with folder.claimed():
        folder.write(state())
    assert folder.read() == state()
    assert [one.path for one in all_folders(tmp_path)] == [folder.path]


def test_a_pipeline_that_says_it_runs_and_holds_no_lock_was_killed(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path, "shop")
    with folder.claimed():
        folder.write(state())
        assert folder.seen()[1] == RUNNING
    assert folder.seen()[1] == KILLED
    folder.write(state(outcome=STOPPED))
    assert folder.seen()[1] == STOPPED


def test_a_pipeline_runs_once_on_a_machine(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path, "shop")
    with folder.claimed():
        folder.write(state())
        other = StateFolder(tmp_path, "shop")
        with pytest.raises(PipelineRunningError, match="process 4711"), other.claimed():
            raise AssertionError("two at once")
    with folder.claimed():
        pass


def test_what_never_ran_is_unknown_and_does_not_run(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path, "shop")
    assert not folder.is_claimed
    assert all_folders(tmp_path) == []
    with pytest.raises(UnknownPipelineError, match="'shop' ever ran here"):
        folder.read()


def test_a_state_of_another_version_is_refused(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path, "shop")
    folder.path.mkdir(parents=True)
    (folder.path / "state.json").write_text('{"v": 2}')
    with pytest.raises(OttlaError, match="version 2"):
        folder.read()


def test_the_state_folder_is_where_the_environment_says() -> None:
    assert state_dir({STATE_VARIABLE: "/a"}) == Path("/a")
    assert state_dir({"XDG_STATE_HOME": "/b"}) == Path("/b/ottla")


def test_list_status_and_stop_tell_of_a_pipeline_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    folder = StateFolder(tmp_path, "shop")
    with folder.claimed():
        folder.write(state())
    assert cli.run(["pipeline", "list"]) == cli.OK
    assert "killed" in capsys.readouterr().out
    assert cli.run(["pipeline", "status", "shop"]) == cli.OK
    assert "shop · killed" in capsys.readouterr().out
    assert cli.run(["pipeline", "stop", "shop"]) == cli.OK
    assert "does not run; its last run was killed" in capsys.readouterr().err


def test_a_pipeline_that_never_ran_has_no_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    assert cli.run(["pipeline", "status", "shop"]) == 6
    assert "no pipeline 'shop' ever ran here" in capsys.readouterr().err


def test_the_only_pipeline_needs_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    assert cli.run(["pipeline", "status"]) == 6
    assert "no pipeline ever ran here" in capsys.readouterr().err
    for name in ("shop", "till"):
        folder = StateFolder(tmp_path, name)
        with folder.claimed():
            folder.write(state())
        if name == "shop":
            assert cli.run(["pipeline", "status"]) == cli.OK
            assert "shop · killed" in capsys.readouterr().out
    assert cli.run(["pipeline", "status"]) == cli.USAGE
    assert "name one of shop, till" in capsys.readouterr().err


def test_a_plan_needs_neither_broker_nor_spark_if_one_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "shop.py"
    file.write_text(
        "from ottla import pipeline\n"
        "raw = pipeline.topic('raw', 'id long', watermark=('at', '1 minute'))\n"
        "@pipeline.step(source=raw, sink='clean', dead_letter='bad')\n"
        "def clean(rows): return rows\n"
        "totals = pipeline.sql('SELECT 1', source='clean', sink='totals')\n"
    )
    assert cli.run(["pipeline", "plan", str(file), "--offline", "--quick"]) == cli.OK
    shown = capsys.readouterr().out
    assert "raw ─▶ clean ─▶ clean" in shown
    assert "dead letters bad" in shown
    assert shown.index("─▶ totals") > shown.index("raw ─▶")


def test_a_plan_shows_the_columns_that_are_written() -> None:
    step = pipeline.sql("SELECT * FROM raw", source="raw", sink="copy", name="copied")
    columns = {"copied": {"id": "bigint", "name": "string", "_offset": "bigint"}}
    shown = lines_of(pipeline.Pipeline("shop", (step,)), [], columns, for_people=False)
    assert shown[0] == "shop · 1 step"
    assert shown[-1] == "  columns      id bigint, name string"


def test_a_plan_refuses_options_that_the_source_would_refuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "shop.py"
    file.write_text(
        "from ottla import pipeline\n"
        "raw = pipeline.topic('raw', options={'maxOffsetPerTrigger': '5'})\n"
        "copy = pipeline.sql('SELECT 1', source=raw, sink='b')\n"
    )
    assert cli.run(["pipeline", "plan", str(file), "--offline", "--quick"]) == cli.UNEXPECTED
    assert "step 'copy': unknown option 'maxOffsetPerTrigger'" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [("plan", "--quick"), ("run",)])
def test_it_is_said_at_once_if_no_broker_is_there(
    verb: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "shop.py"
    file.write_text(
        "from ottla import pipeline\n"
        "copy = pipeline.sql('SELECT * FROM raw', source='raw', sink='copy')\n"
    )
    assert cli.run(["pipeline", *verb, str(file), "-b", "localhost:1"]) == 3
    assert "localhost:1: Connection refused" in capsys.readouterr().err
