"""How `ottla why` shows what was found."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from ottla.cli.output import Output

if TYPE_CHECKING:
    from ottla.why.findings import Finding


def show(
    output: Output, title: str, about: Mapping[str, object], findings: "Iterable[Finding]"
) -> None:
    """The title and every finding with its advice; or one object with `about` and all of them."""
    if output.is_json:
        output.json_line({**about, "findings": [finding.facts for finding in findings]})
        return
    click.echo(click.style(title, bold=True))
    for finding in findings:
        click.echo(f"- {finding.text}")
        if finding.advice:
            click.echo(f"  -> {finding.advice}")
