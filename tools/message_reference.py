"""Renders docs/reference/messages.md from the declarations: every API, its versions and fields.

`python -m tools.message_reference` writes the page; with `--check` it writes nothing, and exits
with 1 if the page is outdated.  What the page says of versions is read from the docstring of each
message file, so that docstring has a form: `Name (key N): summary`, an empty line, one line for
each version (`v4  what changed  (KIP-394)`), and then whatever else there is to say.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Final

import ottla.wire.stored
from ottla.wire.registry import Api, ApiKey, api
from ottla.wire.schema import (
    MISSING,
    NO_UUID,
    Declared,
    Field,
    Shape,
    Versions,
    api_of,
    blank,
    fields,
)

PAGE: Final = Path(__file__).parents[1] / "docs/reference/messages.md"

_TITLE: Final = re.compile(r"(?P<name>\w+) \(key (?P<key>\d+)\): (?P<summary>\S.*)")
_NOTE: Final = re.compile(
    r"v(?P<versions>\d+(-\d+)?) {2,}(?P<text>\S.*?)( {2,}\((?P<kips>KIP-.*)\))?"
)

_INTRODUCTION: Final = """\
<!-- Written by `make fix` from ottla.wire; do not edit. -->
# Messages

Every API whose messages Ottla can read and write, in the order of their keys, with what each
version changed. The declarations are in `ottla.wire.messages`, one file for each API; conformance
tests compare them, field by field, with Apache Kafka's own schemas.

A field is named by its path: `topics.name` is the field `name` of each struct in `topics`, and `[]`
is an array. An empty cell means: in every version that has the struct around it, never null, not
tagged, no default. A *flexible* version has varint lengths and tagged fields (KIP-482); tags from
10000 on are Ottla's own ([why](../adr/0016-fields-of-our-own-are-tagged.md)). "The client waits out
throttle_time_ms" means that a throttled broker answers at once, and trusts the client to stay quiet
for that long (KIP-219).
"""

_FIELDS_HEAD: Final = """\
| field | type | versions | null | tag | default |
| --- | --- | --- | --- | --- | --- |"""


@dataclass(frozen=True, slots=True)
class Note:
    """What the docstring of a message file says of one version, or of a range of them."""

    versions: Versions
    text: str
    kips: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The docstring of a message file, taken apart."""

    summary: str
    notes: tuple[Note, ...]
    prose: str


def explanation(of: Api) -> Explanation:
    """What the message file of an API says about it; `ValueError` if it has another form."""
    text = import_module(of.request.__module__).__doc__ or ""
    return parse_explanation(text, of.name, of.key)


def parse_explanation(text: str, name: str, key: int) -> Explanation:
    """Take the docstring of API `name` apart; `ValueError` if it has another form."""
    title, _, rest = text.partition("\n\n")
    notes, _, prose = rest.strip().partition("\n\n")
    heading = _TITLE.fullmatch(title)
    if heading is None or (heading["name"], int(heading["key"])) != (name, key):
        raise ValueError(f"the docstring of {name} does not begin with `{name} (key {key}): ...`")
    return Explanation(
        summary=heading["summary"],
        notes=tuple(_note(line, name) for line in notes.splitlines()),
        prose=prose,
    )


def _note(line: str, name: str) -> Note:
    found = _NOTE.fullmatch(line)
    if found is None:
        raise ValueError(f"in the docstring of {name}, this is not a note on a version: {line!r}")
    return Note(Versions.parse(found["versions"]), found["text"], found["kips"] or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a table of fields."""

    path: str
    type: str
    versions: str
    null: str
    tag: str
    default: str

    def __str__(self) -> str:
        cells = (f"`{self.path}`", self.type, self.versions, self.null, self.tag, self.default)
        return f"| {' | '.join(cells)} |"


def rows(cls: type[Any], spoken: Versions, prefix: str = "") -> Iterator[Row]:
    """The fields of a declared class that exist in `spoken` versions, and those of its structs."""
    for field in fields(cls):
        present = _both(field.versions, spoken)
        if present.low > present.high:
            continue
        yield Row(
            path=prefix + field.name,
            type=_type_name(field.shape),
            versions="" if present == spoken else _written(present, spoken),
            null=_null(field, present),
            tag="" if field.tag is None else str(field.tag),
            default=_default(field),
        )
        struct = _struct_of(field.shape)
        if struct is not None:
            yield from rows(struct, present, f"{prefix}{field.name}.")


def _both(one: Versions, other: Versions) -> Versions:
    return Versions(max(one.low, other.low), min(one.high, other.high))


def _written(versions: Versions, spoken: Versions) -> str:
    """A range within `spoken`; "5+" where it ends with that."""
    is_open = versions.high == spoken.high and versions.low < versions.high
    return f"{versions.low}+" if is_open else str(versions)


def _type_name(shape: Shape) -> str:
    if shape.element is not None:
        return f"[]{_type_name(shape.element)}"
    return shape.kind.name.lower() if shape.struct is None else shape.struct.__name__


def _struct_of(shape: Shape) -> type[Any] | None:
    return shape.struct if shape.element is None else _struct_of(shape.element)


def _null(field: Field, present: Versions) -> str:
    allowed = _both(field.nullable, present)
    if allowed == present:
        return "yes"
    return "" if allowed.low > allowed.high else _written(allowed, present)


def _default(field: Field) -> str:
    if field.default is MISSING:
        return ""
    match field.default:
        case None:
            return "null"
        case bool(value):
            return str(value).lower()
        case int(value):
            return str(value)
        case str(value):
            return f'"{value}"'
        case ():
            return "[]"
        case bytes(value) if value == NO_UUID:
            return "zero"
        case Declared() as value if value == blank(type(value)):
            return "of its fields"
        case value:
            raise ValueError(f"{field.name}: no short way to write the default {value!r}")


def _fields_table(cls: type[Any]) -> str:
    lines = [str(row) for row in rows(cls, api_of(cls).versions)]
    return "\n".join([f"`{cls.__name__}`", "", _FIELDS_HEAD, *lines])


def _first_flexible(of: Api) -> str:
    flexible = _both(of.flexible, of.versions)
    return "none" if flexible.low > flexible.high else str(flexible.low)


def _api_table(apis: list[Api]) -> str:
    # Plain HTML links: they mean the same to every renderer of Markdown.
    lines = [
        f'| {of.key} | <a href="#{of.name.lower()}">{of.name}</a> | {of.versions} '
        f"| {_first_flexible(of)} | {explanation(of).summary} |"
        for of in apis
    ]
    head = [
        "| key | name | versions | flexible from | what for |",
        "| ---: | --- | --- | --- | --- |",
    ]
    return "\n".join([*head, *lines])


def _api_section(of: Api) -> str:
    said = explanation(of)
    notes = [
        f"- **v{note.versions}** {note.text}" + (f" ({note.kips})" if note.kips else "")
        for note in said.notes
    ]
    parts = [
        f"## {of.name}",
        f"Key {of.key}, versions {of.versions}, flexible from: {_first_flexible(of)}. "
        f"{said.summary[0].upper()}{said.summary[1:]}",
        "\n".join(notes),
        said.prose,
        _fields_table(of.request),
        _fields_table(of.response),
    ]
    return "\n\n".join(part for part in parts if part)


def _stored_section(name: str) -> str:
    module = import_module(f"ottla.wire.stored.{name}")
    declared = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Declared) and hasattr(value, "__api__")
    ]
    if not declared:
        return ""
    summary = (module.__doc__ or "").partition("\n")[0]
    return "\n\n".join([f"### {name}", summary, *(_stored_table(cls) for cls in declared)])


def _stored_table(cls: type[Any]) -> str:
    declared = api_of(cls)
    title, _, table = _fields_table(cls).partition("\n")
    record_type = "" if declared.key is None else f", type {declared.key}"
    return f"{title}{record_type}, versions {declared.versions}\n{table}"


def page() -> str:
    """The whole page."""
    apis = [api(key) for key in sorted(ApiKey)]
    stored = [_stored_section(found.name) for found in iter_modules(ottla.wire.stored.__path__)]
    parts = [
        _INTRODUCTION.strip(),
        _api_table(apis),
        *(_api_section(of) for of in apis),
        "## Stored records",
        "What is written into internal topics and next to segments. The declarations are in "
        "`ottla.wire.stored`, whose docstrings say how each is framed.",
        *(section for section in stored if section),
    ]
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str], path: Path = PAGE) -> int:
    """Write or check the page; the exit code says whether it was outdated when checking."""
    content = page()
    is_current = path.exists() and path.read_text("utf-8") == content
    if "--check" in arguments:
        if not is_current:
            print(f"{path} is outdated: run `python -m tools.message_reference`")
        return 0 if is_current else 1
    if not is_current:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
