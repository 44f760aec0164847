"""Renders docs/reference/settings.md from the declarations of settings.

`python -m tools.settings_reference` writes the page; with `--check` it writes nothing, and exits
with 1 if the page is outdated.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ottla.broker.config import BrokerConfig
from ottla.broker.ignored import HARMLESS, PROTECTIVE
from ottla.client.admin.config import AdminConfig
from ottla.client.config import ClientConfig, plugs_of
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.producer.config import ProducerConfig
from ottla.config import (
    DAY_MS,
    GIB,
    HOUR_MS,
    INT32_MAX,
    INT64_MAX,
    KIB,
    MIB,
    MINUTE_MS,
    SECOND_MS,
    Declared,
    Setting,
    attribute_documentation,
    documentation,
    settings_of,
)
from ottla.coordinator.config import GroupConfig, TransactionConfig
from ottla.log.config import CleanerConfig, LogConfig

PAGE: Final = Path(__file__).parents[1] / "docs/reference/settings.md"

_INTRODUCTION: Final = """\
<!-- Written by `make fix` from the classes of settings; do not edit. -->
# Settings

Names, types and rules are Kafka's; so are the defaults, unless a line says otherwise. Settings that
begin with `ottla.` are ours. A value is text (`"true"`, `"compact,delete"`) or native to its file.
A name that is not on this page is an error, and so is a value out of range.
"""

_TOPICS: Final = """\
## Topics

Given when a topic is created, or changed later with AlterConfigs. A topic without a value of its
own takes the broker's, under the name in the last column; where there are several, the first that
was given counts. The first of them can be changed while the broker runs.
"""

_IGNORED: Final = """\
## Accepted and ignored

Kafka's settings that have nothing to do here. They are accepted, so that a `server.properties`
written for Kafka works, and the broker says so when it starts.
"""

_REFUSED: Final = """\
## Refused

Kafka's settings that protect something, which would be unprotected if they were ignored.
"""

_CLIENTS: Final = """\
## Clients

Given to a client by Kafka's name in `config={"linger.ms": 5}`, or as an argument by its Python
name: the same with underscores, or the one that the line names.
"""

_CLIENT_SECTIONS: Final[Mapping[str, type[Declared]]] = {
    "Producers": ProducerConfig,
    "Consumers": ConsumerConfig,
    "Admin clients": AdminConfig,
}

_SECTIONS: Final[Mapping[str, type[Declared]]] = {
    "Compaction": CleanerConfig,
    "Groups": GroupConfig,
    "Transactions": TransactionConfig,
}


def page() -> str:
    """The whole page."""
    broker = [s for s in settings_of(BrokerConfig).values() if not s.section]
    parts = [
        _INTRODUCTION.strip(),
        _TOPICS.strip(),
        _topic_table(),
        "## Brokers",
        _table(broker, documentation(BrokerConfig)),
        *(
            f"## {title}\n\n{_table(settings_of(cls).values(), documentation(cls))}"
            for title, cls in _SECTIONS.items()
        ),
        _CLIENTS.strip(),
        _client_table(ClientConfig),
        *(
            f"## {title}\n\n{_client_table(cls, beyond=ClientConfig)}"
            for title, cls in _CLIENT_SECTIONS.items()
        ),
        _IGNORED.strip(),
        _reasons(HARMLESS),
        _REFUSED.strip(),
        _reasons(PROTECTIVE),
    ]
    return "\n\n".join(parts) + "\n"


def human(declared: Setting) -> str:
    """The default, with a word on what a long number means."""
    text = declared.text(declared.default)
    if text is None:
        return "none"
    if text == "":
        return "empty"
    return f"`{text}`{_gloss(declared.name, declared.default)}"


def _gloss(name: str, value: object) -> str:
    if value in (INT32_MAX, INT64_MAX, sys.float_info.max):
        return " (no limit)"
    if not isinstance(value, int) or isinstance(value, bool):
        return ""
    units = (
        ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
        if name.endswith((".bytes", ".size"))
        else ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s"))
        if name.endswith(".ms")
        else ()
    )
    for size, unit in units:
        if value >= size and value % size == 0:
            return f" ({value // size} {unit})"
    return ""


def _topic_table() -> str:
    docs = documentation(LogConfig)
    lines = [
        "| name | type | default | allowed | broker's name |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, declared in settings_of(LogConfig).items():
        synonyms = "<br>".join(f"`{synonym.name}`" for synonym in declared.synonyms)
        lines.append(f"| {_cells(declared, docs[name])} | {synonyms} |")
    return "\n".join(lines)


def _table(settings: Iterable[Setting], docs: Mapping[str, str]) -> str:
    lines = ["| name | type | default | allowed |", "| --- | --- | --- | --- |"]
    lines += [f"| {_cells(declared, docs[declared.name])} |" for declared in settings]
    return "\n".join(lines)


def _client_table(cls: type[Declared], beyond: type[Declared] | None = None) -> str:
    """Settings and plugs of a client's class, without those that `beyond` has just so."""
    docs = attribute_documentation(cls)
    known = {} if beyond is None else settings_of(beyond)
    lines = ["| name | type | default | allowed |", "| --- | --- | --- | --- |"]
    for declared in settings_of(cls).values():
        if known.get(declared.name) != declared:
            name = _python_name(declared)
            lines.append(f"| {_cells(declared, f'{docs[declared.attribute]}{name}')} |")
    for attribute, point in plugs_of(cls).items():
        if beyond is None or attribute not in plugs_of(beyond):
            default = cls.__dataclass_fields__[attribute].default
            told = "none" if default in (None, ()) else f"`{default}`"
            lines.append(f"| `{point.name}`, or `{attribute}`<br>{docs[attribute]} | | {told} | |")
    return "\n".join(lines)


def _python_name(declared: Setting) -> str:
    is_plain = declared.attribute == declared.name.replace(".", "_")
    return "" if is_plain else f" In Python: `{declared.attribute}`."


def _cells(declared: Setting, doc: str) -> str:
    aliases = "".join(f", or `{alias}`" for alias in declared.aliases)
    allowed = declared.allowed.replace("|", "\\|")
    kind = declared.kind.name.lower()
    return f"`{declared.name}`{aliases}<br>{doc} | {kind} | {human(declared)} | {allowed}"


def _reasons(reasons: Mapping[str, str]) -> str:
    lines = ["| name | because |", "| --- | --- |"]
    lines += [f"| `{name}` | {reason} |" for name, reason in sorted(reasons.items())]
    return "\n".join(lines)


def main(arguments: list[str], path: Path = PAGE) -> int:
    """Write or check the page; the exit code says whether it was outdated when checking."""
    content = page()
    is_current = path.exists() and path.read_text("utf-8") == content
    if "--check" in arguments:
        if not is_current:
            print(f"{path} is outdated: run `python -m tools.settings_reference`")
        return 0 if is_current else 1
    if not is_current:
        path.write_text(content, "utf-8")
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
