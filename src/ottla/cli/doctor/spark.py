"""`ottla doctor spark`: what Spark needs, whether it is here, and how to get it."""

import os

import click

from ottla.cli.output import Output, PartialError, format_option, verbose_option
from ottla.spark.readiness import Finding, examine, try_out

MARKS = {"good": "✓", "note": "!", "bad": "✗"}
COLORS = {"good": "green", "note": "yellow", "bad": "red"}


@click.command("spark")
@click.option("--start", is_flag=True, help="Also start Spark and compute something.")
@verbose_option
@format_option
@click.pass_obj
def command(output: Output, start: bool) -> None:
    """Say what Spark lacks here, and how to get it."""
    findings = examine(os.environ)
    if start and all(finding.is_good or not finding.is_fatal for finding in findings):
        findings.append(try_out())
    for finding in findings:
        _show(output, finding)
    bad = [finding for finding in findings if _kind(finding) == "bad"]
    if bad:
        names = ", ".join(finding.what for finding in bad)
        error = PartialError(f"Spark cannot run here: {names}")
        error.add_note(bad[0].advice)
        raise error
    if not output.is_json:
        click.echo("Spark can run here." if start else "Spark can run here; --start makes sure.")


def _show(output: Output, finding: Finding) -> None:
    kind = _kind(finding)
    if output.is_json:
        output.json_line(
            {
                "what": finding.what,
                "state": kind,
                "found": finding.found,
                "advice": finding.advice or None,
            }
        )
        return
    click.echo(f"{click.style(MARKS[kind], fg=COLORS[kind])} {finding.what}: {finding.found}")
    if finding.advice:
        click.echo(f"  → {finding.advice}")


def _kind(finding: Finding) -> str:
    if finding.is_good:
        return "good"
    return "bad" if finding.is_fatal else "note"
