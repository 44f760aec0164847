"""What `ottla why` found: one judgment each, with its evidence and what to do about it."""

from collections.abc import Iterable, Mapping

import click

from ottla.cli.output import Output
from ottla.model import TopicPartition
from ottla.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to know; what does not apply to it is empty."""

    code: str
    """A word for programs, which stays when the text gets better."""
    text: str
    advice: str = ""
    members: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def facts(self) -> dict[str, object]:
        return {
            "code": self.code,
            "text": self.text,
            "advice": self.advice or None,
            "members": list(self.members),
            "partitions": [str(partition) for partition in self.partitions],
            "since_ms": self.since_ms,
            "until_ms": self.until_ms,
        }


def show(
    output: Output, title: str, about: Mapping[str, object], findings: Iterable[Finding]
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
