"""The command line explains itself: examples, completion, the manual page, the reference."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from ottla.cli import completion, man
from ottla.cli import main as cli
from ottla.cli.command_tree import commands, exit_codes, options
from ottla.testing import TestBroker

SHELL = {"|", ">", ";", "&&", "#"}


def leaves() -> list[click.Context]:
    """Every command that does something."""
    return [ctx for ctx in commands() if not isinstance(ctx.command, click.Group)]


def examples(ctx: click.Context) -> list[str]:
    _, _, shown = (ctx.command.help or "").partition("Examples:\n")
    return [line.strip() for line in shown.splitlines() if line.strip()]


def words_of(line: str) -> list[str]:
    """The arguments of the last `ottla` on a line, as a shell would split them."""
    words = shlex.split(line.replace("<(ottla", "<( ottla").replace(")", " ) "))
    after = words[len(words) - words[::-1].index("ottla") :]
    return list(takewhile(lambda word: word not in {*SHELL, ")"}, after))


@pytest.mark.parametrize("ctx", leaves(), ids=lambda ctx: ctx.command_path)
def test_every_command_has_examples_that_it_understands(ctx: click.Context) -> None:
    lines = examples(ctx)
    assert lines, f"{ctx.command_path}: no paragraph `Examples:` in its docstring"
    for line in lines:
        words = words_of(line)
        path = ctx.command_path.split()[1:]
        assert words[: len(path)] == path, line
        ctx.command.make_parser(ctx).parse_args(words[len(path) :])


@pytest.mark.parametrize("ctx", leaves(), ids=lambda ctx: ctx.command_path)
def test_help_shows_the_examples_line_by_line(ctx: click.Context) -> None:
    shown = ctx.get_help()
    assert [line for line in examples(ctx) if f"    {line}\n" not in shown] == []


def test_exit_codes_are_told_with_a_meaning_each() -> None:
    told = exit_codes()
    assert set(told) == {cli.OK, cli.UNEXPECTED, cli.USAGE, cli.INTERRUPTED} | set(
        cli.EXIT_CODES.values()
    )
    assert all(meaning.endswith(".") for meaning in told.values())


def test_options_are_told_as_help_tells_them() -> None:
    (serve,) = [ctx for ctx in leaves() if ctx.command_path == "ottla serve"]
    told = dict(options(serve))
    assert "-X NAME=VALUE" in told
    assert "-h, --help" in told


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(["produc"], "ottla produce"), (["topic", "describ"], "ottla topic describe")],
    ids=["a command", "a command of a group"],
)
def test_a_misspelled_command_gets_a_hint(
    typed: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(typed) == cli.USAGE
    assert f"hint:  did you mean `{meant}`?" in capsys.readouterr().err


def test_a_word_like_no_command_is_sent_to_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["xyzzy"]) == cli.USAGE
    assert "hint:  `ottla --help`" in capsys.readouterr().err


# Completion.


def complete(*words: str) -> list[str]:
    """What a shell is offered for the last word."""
    *given, incomplete = words
    shell = BashComplete(cli.cli, {}, "ottla", completion.VARIABLE)
    return [item.value for item in shell.get_completions(list(given), incomplete)]


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_a_shell_gets_a_script_that_asks_us(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"{completion.VARIABLE}={shell}_complete" in script
    if shutil.which(shell) is not None:
        file = tmp_path / "script"
        file.write_text(script, "utf-8")
        subprocess.run([shell, "-n", str(file)], check=True, timeout=60)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_what_is_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["completion", "bash"]) == 0
    typed = "COMP_WORDS=(ottla topic de); COMP_CWORD=2; _ottla_completion ottla"
    script = f"{capsys.readouterr().out}\n{typed}\necho ${{COMPREPLY[@]}}"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", script],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert ran.stdout.split() == ["delete", "describe"], ran.stderr


def test_commands_and_options_are_completed() -> None:
    assert complete("to") == ["topic"]
    assert complete("topic", "de") == ["delete", "describe"]
    assert complete("serve", "--flush", "") == ["commit", "os"]
    assert "--partitions" in complete("topic", "create", "--p")


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        broker.produce("orders", "espresso")
        broker.produce("oranges", "juice")
        broker.produce("bills", "9.50")
        yield broker


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("consume", "or"), ["oranges", "orders"]),
        (("consume", "oranges", "or"), ["orders"]),
        (("topic", "describe", "b"), ["bills"]),
        (("produce", "x"), []),
        (("group", "describe", ""), []),
        (("txn", "describe", ""), []),
    ],
    ids=lambda value: " ".join(value),
)
def test_names_are_those_of_the_broker(
    words: tuple[str, ...], offered: list[str], broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap_servers)
    monkeypatch.setattr("ottla.cli.completion_names.PATIENCE_S", 60.0)
    assert complete(*words) == offered


def test_without_a_broker_there_are_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "127.0.0.1:1")
    assert complete("consume", "") == []
    assert complete("consume", "--f") == ["--from", "--format", "--follow"]


# The manual page.


def test_the_manual_page_has_every_command_and_option() -> None:
    page = man.page().replace("\\-", "-")
    for ctx in leaves():
        assert f".SS {ctx.command_path} " in page
        assert all(f"\\fB{written}\\fR" in page for written, _ in options(ctx))


def test_no_line_of_text_is_taken_for_a_request() -> None:
    asked = {line.split()[0] for line in man.page().splitlines() if line.startswith((".", "'"))}
    assert asked == {".TH", ".SH", ".SS", ".PP", ".TP", ".nf", ".fi"}


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_complain_about() -> None:
    ran = subprocess.run(
        ["groff", "-man", "-Wbreak", "-Tutf8"],
        input=man.page(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stderr == ""
    assert "ottla topic create" in re.sub(r"\x1b\[\d+m|.\x08", "", ran.stdout)
