"""Apache Kafka's own message schemas, read from its JSON files, as facts about one version.

Kafka's code generator (`MessageGenerator`, `FieldSpec`) settles what a file means, where the file
does not say: a field without a default has the zero of its type, except that records are null; a
JSON `null` as default counts as no default, and only the string "null" means null.

The files are not part of this project.  `schema_folder` says where they are looked for.
"""

import json
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from ottla.wire.schema import NO_UUID, NO_VERSION, Versions

FOLDER_VARIABLE: Final = "OTTLA_KAFKA_MESSAGES"
BESIDE_THE_REPOSITORY: Final = Path(__file__).parents[3] / "shared" / "kafka-messages"

_ZEROS: Final[dict[str, Any]] = {
    "bool": False,
    "float64": 0.0,
    "uuid": NO_UUID,
    "string": "",
    "bytes": b"",
    "records": None,
}
_COMMENT: Final = re.compile(r"^\s*//.*$", re.MULTILINE)
_WORD_STARTS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One value on the wire of one version."""

    name: str
    type: str
    """Kafka's word, with "struct" for any struct; "[]" in front marks an array."""
    nullable: bool
    tag: int | None
    compact: bool
    default: Any
    struct: "Layout | None"


@dataclass(frozen=True, slots=True)
class Absence:
    """A field that this version lacks, though another of our versions has it."""

    default: Any
    ignorable: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """One struct at one version: what is sent, tagged fields last, and what is not."""

    present: tuple[Fact, ...]
    absent: dict[str, Absence]


def schema_folder() -> Path:
    return Path(os.environ.get(FOLDER_VARIABLE, BESIDE_THE_REPOSITORY))


@cache
def schemas() -> dict[str, "Schema"]:
    """Every schema below the folder, by name; empty where the folder does not exist."""
    found = [Schema(_load(path)) for path in sorted(schema_folder().rglob("*.json"))]
    return {schema.name: schema for schema in found}


def _load(path: Path) -> Any:
    return json.loads(_COMMENT.sub("", path.read_text()))


def snake_case(name: str) -> str:
    """Kafka's "V3AndBelowTopics" as Python spells it."""
    return _WORD_STARTS.sub("_", name).lower()


class Schema:
    """One of Kafka's files."""

    def __init__(self, spec: Any) -> None:
        self.name: str = spec["name"]
        self.key: int | None = spec.get("apiKey")
        self.versions = Versions.parse(spec["validVersions"])
        # An API that was taken out of Kafka keeps its file, with no version and no fields.
        self.flexible = Versions.parse(spec.get("flexibleVersions", "none"))
        self._fields = spec.get("fields", [])
        self._common = {s["name"]: s["fields"] for s in spec.get("commonStructs", ())}

    def layout(self, version: int, declared: Versions) -> Layout:
        """The message at `version`; `declared` are the versions that we speak at all."""
        compact = version in self.flexible
        return self._layout(self._fields, version, declared, compact)

    def _layout(self, specs: list[Any], version: int, declared: Versions, compact: bool) -> Layout:
        known = [s for s in specs if _overlap(_versions(s), declared)]
        present = [s for s in known if version in _versions(s)]
        facts = [self._fact(s, version, declared, compact) for s in present]
        facts.sort(key=lambda fact: -1 if fact.tag is None else fact.tag)
        absent = {
            snake_case(s["name"]): Absence(self._default(s, declared), s.get("ignorable", False))
            for s in known
            if s not in present
        }
        return Layout(tuple(facts), absent)

    def _fact(self, spec: Any, version: int, declared: Versions, compact: bool) -> Fact:
        prefix, element = _split(spec["type"])
        nested = self._struct_fields(spec)
        override = spec.get("flexibleVersions")
        return Fact(
            name=snake_case(spec["name"]),
            type=prefix + ("struct" if nested is not None else element),
            nullable=version in Versions.parse(spec.get("nullableVersions", "none")),
            tag=spec["tag"] if version in _tagged_versions(spec) else None,
            compact=compact and (override is None or version in Versions.parse(override)),
            default=self._default(spec, declared),
            struct=None if nested is None else self._layout(nested, version, declared, compact),
        )

    def _struct_fields(self, spec: Any) -> list[Any] | None:
        """The fields of the struct that `spec` is, or is an array of; None for scalars."""
        _, element = _split(spec["type"])
        fields: list[Any] | None = spec.get("fields", self._common.get(element))
        return fields

    def _default(self, spec: Any, declared: Versions) -> Any:
        prefix, kind = _split(spec["type"])
        said = spec.get("default")
        said = "" if said is None else str(said)
        if said == "null":
            return None
        if prefix:
            return ()
        if (nested := self._struct_fields(spec)) is not None:
            return {
                snake_case(s["name"]): self._default(s, declared)
                for s in nested
                if _overlap(_versions(s), declared)
            }
        return _ZEROS.get(kind, 0) if said == "" else _parsed(kind, said)


def _split(type_name: str) -> tuple[str, str]:
    return ("[]", type_name[2:]) if type_name.startswith("[]") else ("", type_name)


def _parsed(kind: str, text: str) -> Any:
    match kind:
        case "string":
            return text
        case "bool":
            return text.lower() == "true"
        case "float64":
            return float(text)
        case _:
            return int(text, 0)


def _tagged_versions(spec: Any) -> Versions:
    return Versions.parse(spec["taggedVersions"]) if "taggedVersions" in spec else NO_VERSION


def _versions(spec: Any) -> Versions:
    """A tagged field may leave its versions out: it exists where it is tagged."""
    return Versions.parse(spec["versions"]) if "versions" in spec else _tagged_versions(spec)


def _overlap(one: Versions, other: Versions) -> bool:
    return max(one.low, other.low) <= min(one.high, other.high)
