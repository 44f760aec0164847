"""`ottla version`: which Ottla this is, and with `-v` everything a bug report should name."""

import importlib
import importlib.metadata
import platform
import re
from typing import Final

import click

from ottla import __version__, twins
from ottla.cli.output import Output, format_option, verbose_option

CHOOSERS: Final = ("ottla.wire.codec", "ottla.records.kernel", "ottla.client.producer.kernel")
"""The modules that choose between a compiled twin and a readable one when they are imported."""


@click.command()
@verbose_option
@format_option
@click.pass_obj
def command(output: Output) -> None:
    """Print the version; -v says what else is at work.

    \b
    Examples:
      ottla version
      ottla version -v
      ottla version -v -o json
    """
    facts = environment() if output.verbose else {}
    if output.is_json:
        output.json_line({"version": __version__, **facts})
        return
    click.echo(f"ottla {__version__}")
    for topic, found in facts.items():
        click.echo(f"{topic}:")
        for name, value in found.items():
            click.echo(f"  {name:<12} {value or 'not installed'}")


def environment() -> dict[str, dict[str, str | None]]:
    """What Ottla runs on: the system, the twin of each codec, and the packages it may use."""
    return {
        "system": {
            "python": f"{platform.python_version()} ({platform.python_implementation()})",
            "platform": platform.platform(),
        },
        "codecs": dict(running_twins()),
        "packages": {name: _version_of(name) for name in _packages()},
    }


def running_twins() -> dict[str, str]:
    """Codec -> the twin that runs here, and why if it is the readable one."""
    for module in CHOOSERS:
        importlib.import_module(module)
    return dict(sorted(twins.CHOSEN.items()))


def _packages() -> list[str]:
    """Names of what Ottla requires, extras included, as its own metadata tells."""
    required = importlib.metadata.requires("ottla") or []
    names = [re.match(r"[\w.-]+", requirement) for requirement in required]
    return sorted({name.group() for name in names if name})


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
