"""`ottla doctor spark`: what Spark needs, whether it is here, and how to get it."""

import os

import click

from ottla.cli.doctor.checks import Check, State, show
from ottla.cli.output import Output, format_option, verbose_option
from ottla.spark.readiness import Finding, examine, try_out


@click.command("spark")
@click.option("--start", is_flag=True, help="Also start Spark and compute something.")
@verbose_option
@format_option
@click.pass_obj
def command(output: Output, start: bool) -> None:
    """Say what Spark lacks here, and how to get it.

    \b
    Examples:
      ottla doctor spark
      ottla doctor spark --start
    """
    findings = examine(os.environ)
    if start and all(finding.is_good or not finding.is_fatal for finding in findings):
        findings.append(try_out())
    show(output, map(check_of, findings), subject="Spark cannot run here")
    if not output.is_json:
        click.echo("Spark can run here." if start else "Spark can run here; --start makes sure.")


def check_of(finding: Finding) -> Check:
    """What Spark's own examination found, as every doctor says it."""
    state: State = "ok" if finding.is_good else "fail" if finding.is_fatal else "warn"
    return Check(finding.what, state, finding.found, finding.advice)
