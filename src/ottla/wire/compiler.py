"""Declaration + version -> plan: what is on the wire, field by field, with nothing left to decide.

A plan is what both interpreters execute (`ottla.wire.interpreter` in Python, `_interpreter` in
Cython).  All rules about versions are settled here, so neither of them knows any.
"""

from typing import Any, Final

from ottla.errors import WireError
from ottla.values import NamedTuple
from ottla.wire.schema import Field, Kind, Shape, api_of, default_of, fields

FIXED_BYTES: Final = {
    Kind.BOOL: 1,
    Kind.INT8: 1,
    Kind.INT16: 2,
    Kind.UINT16: 2,
    Kind.INT32: 4,
    Kind.UINT32: 4,
    Kind.INT64: 8,
    Kind.FLOAT64: 8,
    Kind.UUID: 16,
}


class FieldPlan(NamedTuple):
    """One value on the wire: a field, or the element of an array."""

    name: str
    kind: Kind
    nullable: bool
    compact: bool
    """Lengths are unsigned varints of `length + 1` (flexible versions), not int16 or int32."""
    least_bytes: int
    """No encoding of this value is shorter: what an array's length is checked against."""
    element: "FieldPlan | None" = None
    struct: "Plan | None" = None
    tag: int = -1
    default: Any = None
    """A tagged field with this value is not sent."""


class Absent(NamedTuple):
    """A field that this version does not carry."""

    name: str
    default: Any
    ignorable: bool
    """Whether encoding may drop another value than the default."""


class Plan(NamedTuple):
    """One declared class at one version."""

    cls: type[Any]
    title: str
    """ "JoinGroupRequest v3", for error messages."""
    flexible: bool
    fields: tuple[FieldPlan, ...]
    tagged: tuple[FieldPlan, ...]
    """In the order of their tags, as they must be sent."""
    absent: tuple[Absent, ...]
    least_bytes: int


def plan(cls: type[Any], version: int) -> Plan:
    """Lay out the message `cls` for `version`; `WireError` if it has no such version."""
    api = api_of(cls)
    if version not in api.versions:
        raise WireError(f"{api.name} has versions {api.versions}, not {version}")
    return _struct_plan(cls, version, version in api.flexible, f"{api.name} v{version}")


def _struct_plan(cls: type[Any], version: int, flexible: bool, title: str) -> Plan:
    present, tagged, absent = [], [], []
    for field in fields(cls):
        if version not in field.versions:
            absent.append(Absent(field.name, default_of(field), field.ignorable))
        elif field.tag is None:
            present.append(_field_plan(field, version, flexible, title))
        else:
            tagged.append(_field_plan(field, version, flexible, title))
    tagged.sort(key=lambda planned: planned.tag)
    return Plan(
        cls=cls,
        title=title,
        flexible=flexible,
        fields=tuple(present),
        tagged=tuple(tagged),
        absent=tuple(absent),
        least_bytes=sum(p.least_bytes for p in present) + (1 if flexible else 0),
    )


def _field_plan(field: Field, version: int, flexible: bool, title: str) -> FieldPlan:
    planned = _value_plan(
        field.shape,
        f"{title} {field.name}",
        version,
        version in field.nullable,
        flexible and field.flexible,
    )
    element = planned.element
    return planned._replace(
        name=field.name,
        element=None if element is None else element._replace(name=field.name),
        tag=-1 if field.tag is None else field.tag,
        default=default_of(field),
    )


def _value_plan(shape: Shape, title: str, version: int, nullable: bool, compact: bool) -> FieldPlan:
    """Plan a value of `shape`; elements of arrays come here too, and are never null."""
    element = nested = None
    if shape.element is not None:
        element = _value_plan(shape.element, title, version, False, compact)
        if element.least_bytes == 0:
            # Nothing would bound the length that a peer can claim.
            raise TypeError(f"{title} is an array whose elements may take no bytes")
    if shape.struct is not None:
        nested = _struct_plan(shape.struct, version, compact, title)
    return FieldPlan(
        name="",
        kind=shape.kind,
        nullable=nullable,
        compact=compact,
        least_bytes=_least_bytes(shape.kind, nullable, compact, nested),
        element=element,
        struct=nested,
    )


def _least_bytes(kind: Kind, nullable: bool, compact: bool, nested: Plan | None) -> int:
    if kind in FIXED_BYTES:
        return FIXED_BYTES[kind]
    if nested is not None:
        return 1 if nullable else nested.least_bytes  # null is the single byte -1
    if compact:
        return 1
    return 2 if kind is Kind.STRING else 4
