"""What `ottla doctor` finds: one thing that was looked at, how it is, and what to do about it.

`ok` needs nothing.  `warn` works, but not as well as it could, or not for everything.  `fail` does
not work; with one of these the command ends with an error, so that a script can rely on it.
"""

from collections.abc import Iterable
from typing import Final, Literal

import click

from ottla.cli.output import Output, PartialError
from ottla.values import dataclass

State = Literal["ok", "warn", "fail"]

MARKS: Final[dict[State, str]] = {"ok": "✓", "warn": "!", "fail": "✗"}
COLORS: Final[dict[State, str]] = {"ok": "green", "warn": "yellow", "fail": "red"}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    what: str
    state: State
    found: str
    advice: str = ""
    """What to do; empty where nothing is to be done."""


def ok(what: str, found: str) -> Check:
    """It is as it should be."""
    return Check(what, "ok", found)


def warn(what: str, found: str, advice: str) -> Check:
    """It works, but."""
    return Check(what, "warn", found, advice)


def fail(what: str, found: str, advice: str) -> Check:
    """It does not work."""
    return Check(what, "fail", found, advice)


def show(output: Output, checks: Iterable[Check], *, subject: str) -> None:
    """Each check as soon as it is known, and in the end an error if one has failed.

    Raises:
        PartialError: Something does not work.
    """
    failed = []
    for check in checks:
        _show_one(output, check)
        if check.state == "fail":
            failed.append(check)
    if failed:
        names = ", ".join(check.what for check in failed)
        error = PartialError(f"{subject}: {names}")
        error.add_note(failed[0].advice)
        raise error


def _show_one(output: Output, check: Check) -> None:
    if output.is_json:
        output.json_line(
            {
                "what": check.what,
                "state": check.state,
                "found": check.found,
                "advice": check.advice or None,
            }
        )
        return
    mark = click.style(MARKS[check.state], fg=COLORS[check.state])
    click.echo(f"{mark} {check.what}: {check.found}")
    if check.advice:
        click.echo(f"  → {check.advice}")
