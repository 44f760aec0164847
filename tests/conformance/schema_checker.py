"""Compares a declaration with Kafka's schema of the same name, version by version.

Both are brought to the same form, a `Layout`, and every fact in which they differ is reported in
words that name the message, the version and the field.  Fields of our own, whose tags Kafka does
not have, are left out here and listed by `own_fields`.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ottla.wire.schema import (
    Declared,
    Field,
    Kind,
    Shape,
    Versions,
    api_of,
    default_of,
    fields,
)
from tests.conformance.kafka_schemas import Absence, Fact, Layout, Schema

_KAFKA_WORDS: Final = {kind: kind.name.lower() for kind in Kind}


class Difference(NamedTuple):
    """Something that is not as in Kafka."""

    message: str
    version: int
    field: str
    """Dotted, from the message down; empty if the message itself differs."""
    what: str

    def __str__(self) -> str:
        where = f"{self.message} v{self.version} {self.field}".rstrip()
        return f"{where}: {self.what}"


def differences(cls: type[Any], schema: Schema) -> list[Difference]:
    """Everything in which the declaration `cls` is not as `schema` says."""
    return list(_differences(cls, schema))


def own_fields(cls: type[Any], path: str = "") -> Iterator[str]:
    """The fields of a declaration, and of its structs, that Kafka does not know; dotted."""
    for field in fields(cls):
        _, shape = _unwrapped(field.shape)
        if field.is_own:
            yield path + field.name
        elif shape.struct is not None:
            yield from own_fields(shape.struct, f"{path}{field.name}.")


def _differences(cls: type[Any], schema: Schema) -> Iterator[Difference]:
    api = api_of(cls)
    if api.key != schema.key:
        yield Difference(api.name, 0, "", f"has key {api.key} here, {schema.key} in Kafka")
    if api.versions != schema.versions:
        what = f"versions {api.versions} here, {schema.versions} in Kafka"
        yield Difference(api.name, 0, "", what)
    for version in api.versions:
        ours = _layout(cls, version, api.versions, compact=version in api.flexible)
        if version not in schema.versions:
            yield Difference(api.name, version, "", "is not a version in Kafka")
            continue
        if (version in api.flexible) != (version in schema.flexible):
            here, there = version in api.flexible, version in schema.flexible
            what = f"is {_flexible(here)} here, {_flexible(there)} in Kafka"
            yield Difference(api.name, version, "", what)
        for field, what in _compared(ours, schema.layout(version, api.versions), path=""):
            yield Difference(api.name, version, field, what)


def _flexible(is_flexible: bool) -> str:
    return "flexible" if is_flexible else "not flexible"


def _layout(cls: type[Any], version: int, declared: Versions, *, compact: bool) -> Layout:
    kafkas = [f for f in fields(cls) if not f.is_own]
    present = [_fact(f, version, declared, compact) for f in kafkas if version in f.versions]
    present.sort(key=lambda fact: -1 if fact.tag is None else fact.tag)
    absent = {
        f.name: Absence(_plain(default_of(f)), f.ignorable)
        for f in kafkas
        if version not in f.versions
    }
    return Layout(tuple(present), absent)


def _fact(field: Field, version: int, declared: Versions, compact: bool) -> Fact:
    prefix, shape = _unwrapped(field.shape)
    nested = shape.struct
    return Fact(
        name=field.name,
        type=prefix + _KAFKA_WORDS[shape.kind],
        nullable=version in field.nullable,
        tag=field.tag,
        compact=compact and field.flexible,
        default=_plain(default_of(field)),
        struct=None if nested is None else _layout(nested, version, declared, compact=compact),
    )


def _unwrapped(shape: Shape) -> tuple[str, Shape]:
    return ("", shape) if shape.element is None else ("[]", shape.element)


def _plain(value: Any) -> Any:
    """A default without our classes: structs become dictionaries."""
    if isinstance(value, Declared):
        kafkas = [f for f in fields(type(value)) if not f.is_own]
        return {f.name: _plain(getattr(value, f.name)) for f in kafkas}
    return value


def _compared(ours: Layout, kafka: Layout, path: str) -> Iterator[tuple[str, str]]:
    here, there = [f.name for f in ours.present], [f.name for f in kafka.present]
    if here != there:
        yield from _compared_sequences(here, there, path)
        return
    for fact, wanted in zip(ours.present, kafka.present, strict=True):
        yield from _compared_facts(fact, wanted, path)
    yield from _compared_absences(ours.absent, kafka.absent, path)


def _compared_sequences(here: list[str], there: list[str], path: str) -> Iterator[tuple[str, str]]:
    for name in here:
        if name not in there:
            yield path + name, "on the wire here, not in Kafka"
    for name in there:
        if name not in here:
            yield path + name, "on the wire in Kafka, not here"
    if sorted(here) == sorted(there):
        yield path.rstrip("."), f"fields in the order {here} here, {there} in Kafka"


def _compared_facts(ours: Fact, kafka: Fact, path: str) -> Iterator[tuple[str, str]]:
    field = path + ours.name
    if ours.type != kafka.type:
        yield field, f"{ours.type} here, {kafka.type} in Kafka"
    if ours.nullable != kafka.nullable:
        sides = (
            ("nullable here", "not in Kafka")
            if ours.nullable
            else ("not nullable here", "but in Kafka")
        )
        yield field, ", ".join(sides)
    if ours.tag != kafka.tag:
        yield field, f"tag {ours.tag} here, {kafka.tag} in Kafka"
    if ours.compact != kafka.compact:
        yield field, f"compact={ours.compact} here, {kafka.compact} in Kafka"
    if not _same(ours.default, kafka.default):
        yield field, f"default {ours.default!r} here, {kafka.default!r} in Kafka"
    if ours.struct is not None and kafka.struct is not None:
        yield from _compared(ours.struct, kafka.struct, f"{field}.")


def _compared_absences(
    ours: dict[str, Absence], kafka: dict[str, Absence], path: str
) -> Iterator[tuple[str, str]]:
    for name in sorted(ours.keys() ^ kafka.keys()):
        yield (
            path + name,
            f"a field of another version only {'here' if name in ours else 'in Kafka'}",
        )
    for name in sorted(ours.keys() & kafka.keys()):
        if not _same(ours[name].default, kafka[name].default):
            what = f"{ours[name].default!r} here, {kafka[name].default!r} in Kafka"
            yield path + name, f"absent, with default {what}"
        if ours[name].ignorable != kafka[name].ignorable:
            what = f"{ours[name].ignorable} here, {kafka[name].ignorable} in Kafka"
            yield path + name, f"absent, with ignorable={what}"


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
