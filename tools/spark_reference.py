"""Renders docs/reference/spark-options.md from the declarations of options."""

from collections.abc import Mapping
from typing import Final

from ottla.config import Declared, Setting, documentation, settings_of
from ottla.spark.options import FORBIDDEN, NO_EFFECT, SinkOptions, SourceOptions

_INTRODUCTION: Final = """\
<!-- Written by `make fix` from the classes of options; do not edit. -->
# Options for Spark

What `.option(name, value)` takes with `format("ottla")`. Names and meanings are those of Spark's
own Kafka source and sink, where those have the option. Upper and lower case do not matter. An
option that is not on this page is an error.

`kafka.*` are [settings of clients](settings.md#clients): those of consumers for a source, of
producers for a sink. `kafka.bootstrap.servers` is needed, unless the environment variable
`OTTLA_BOOTSTRAP` names the brokers. `kafka.isolation.level` is `read_committed` by default, and
`kafka.max.partition.fetch.bytes` 7 MiB.
"""

_NO_EFFECT: Final = """\
## Accepted without effect

Options of Spark's Kafka source for which there is nothing to do here.
"""

_FORBIDDEN: Final = """\
## Refused

Settings that would break what a source or sink promises, with or without `kafka.` before them.
"""


def page() -> str:
    """The whole page."""
    parts = [
        _INTRODUCTION.strip(),
        "## Source",
        _table(SourceOptions),
        "## Sink",
        _table(SinkOptions),
        _NO_EFFECT.strip(),
        _reasons(NO_EFFECT),
        _FORBIDDEN.strip(),
        _reasons(FORBIDDEN),
    ]
    return "\n\n".join(parts) + "\n"


def _table(cls: type[Declared]) -> str:
    docs = documentation(cls)
    lines = ["| name | default | allowed |", "| --- | --- | --- |"]
    lines += [f"| {_cells(declared, docs[name])} |" for name, declared in settings_of(cls).items()]
    return "\n".join(lines)


def _cells(declared: Setting, doc: str) -> str:
    aliases = "".join(f", or `{alias}`" for alias in declared.aliases)
    text = declared.text(declared.default)
    default = "none" if text is None else "empty" if text == "" else f"`{text}`"
    return f"`{declared.name}`{aliases}<br>{doc} | {default} | {declared.allowed}"


def _reasons(reasons: Mapping[str, str]) -> str:
    lines = ["| name | because |", "| --- | --- |"]
    lines += [f"| `{name}` | {reason} |" for name, reason in sorted(reasons.items())]
    return "\n".join(lines)
