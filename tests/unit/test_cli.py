"""What `ottla` prints, and with which code it exits."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import click
import pytest

import ottla
from ottla import errors
from ottla.cli import main as cli
from ottla.cli.output import Output
from ottla.errors import ErrorCode, OttlaError, exception_for
from ottla.pipeline.state import STATE_VARIABLE


def in_a_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )


def test_version_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["version"]) == cli.OK
    assert capsys.readouterr().out == f"ottla {ottla.__version__}\n"


def test_the_option_and_the_command_agree_on_the_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["--version"]) == cli.OK
    assert capsys.readouterr().out == f"ottla {ottla.__version__}\n"


def test_version_as_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["version", "-o", "json"]) == cli.OK
    assert json.loads(capsys.readouterr().out) == {"version": ottla.__version__}


def test_verbose_version_names_all_a_bug_report_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["version", "-v", "-o", "json"]) == cli.OK
    told = json.loads(capsys.readouterr().out)
    assert told["system"]["python"].startswith(platform.python_version())
    assert set(told["codecs"]) == {"producer", "records", "wire"}
    assert {"click", "pyarrow"} <= set(told["packages"])


def test_the_readable_twins_run_when_asked_for() -> None:
    done = in_a_process("version", "-v", "-o", "json", OTTLA_PURE="1")
    assert done.returncode == cli.OK, done.stderr
    assert set(json.loads(done.stdout)["codecs"].values()) == {"python (OTTLA_PURE is set)"}


def test_without_a_command_it_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == cli.OK
    shown = capsys.readouterr().out
    assert all(name in shown for name in cli.COMMANDS)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_line_in_the_list_opens_the_help_of_the_command(name: str) -> None:
    found = cli.cli.get_command(click.Context(cli.cli), name)
    assert found is not None
    assert (found.help or "").splitlines()[0] == cli.COMMANDS[name][1]


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["vresion"]) == cli.USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: No such command 'vresion'")
    assert "hint:  did you mean `ottla version`?" in shown.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigError("linger.ms = -1 is outside [0, None]"), 1),
        (errors.ConnectError("127.0.0.1:9092: connection refused"), 3),
        (exception_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED), 4),
        (exception_for(ErrorCode.TOPIC_ALREADY_EXISTS), 5),
        (exception_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 6),
        (errors.DeadlineError("no answer within 5 s"), 7),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_scripts_can_tell_failures_apart_by_exit_code(error: OttlaError, code: int) -> None:
    assert cli.report(error, Output()) == code


def test_a_broker_error_is_one_line_and_one_hint(capsys: pytest.CaptureFixture[str]) -> None:
    cli.report(exception_for(ErrorCode.TOPIC_ALREADY_EXISTS, "topic 'orders'"), Output())
    assert capsys.readouterr().err.splitlines() == [
        "error: TOPIC_ALREADY_EXISTS: topic 'orders'",
        f"hint:  {ErrorCode.TOPIC_ALREADY_EXISTS.advice}",
    ]


def test_advice_that_is_the_message_already_is_not_said_twice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cli.report(exception_for(ErrorCode.TOPIC_ALREADY_EXISTS), Output())
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_bug_is_reported_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.report(ZeroDivisionError("division by zero"), Output()) == cli.UNEXPECTED
    shown = capsys.readouterr().err
    assert shown.startswith("error: ZeroDivisionError: division by zero\n")
    assert "Traceback" not in shown


def test_a_traceback_is_for_those_who_ask(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 // 0
    cli.report(caught.value, Output(verbose=True))
    assert capsys.readouterr().err.startswith("Traceback")


def test_a_group_without_a_command_shows_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["topic"]) == cli.USAGE
    shown = capsys.readouterr().err
    assert shown.startswith("Usage: ottla topic")
    assert "hint:" not in shown


def test_a_pipeline_that_never_ran_is_not_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    assert cli.run(["pipeline", "status", "nope"]) == cli.EXIT_CODES[errors.NotFoundError]
    assert capsys.readouterr().err == "error: no pipeline 'nope' ever ran here\n"


def test_an_interrupt_exits_like_one() -> None:
    assert cli.report(KeyboardInterrupt(), Output()) == cli.INTERRUPTED


def test_verbose_may_stand_after_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["version", "--verbose"]) == cli.OK
    assert "codecs:" in capsys.readouterr().out
