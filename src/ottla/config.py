"""How settings are declared, read, checked and written back.

A component declares its settings as a frozen dataclass.  Each field is made by `setting`, which
gives it Kafka's dotted name, a default and a range; the string after the field is its
documentation.  Everything else is derived: parsing, the answer to DescribeConfigs, the reference
page.  Values come as strings, as in Kafka's own files and requests, or as the native values of
TOML; both go through `from_mapping`, and what it cannot read is a `ConfigError` that says how to
mend it.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import Any, ClassVar, Final, Protocol, TypeVar

from ottla.errors import ConfigError
from ottla.values import NamedTuple, dataclass

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

_METADATA_KEY: Final = "ottla.setting"
# Compiled when they are used: a start that needs none of them takes no time for it.
_WHOLE_NUMBER: Final = r"[+-]?[0-9]+"
_NUMBER: Final = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_QUANTITY: Final = r"([0-9]+) ?([A-Za-z]*)"
_SIZE_UNITS: Final = {"": 1, "B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
_DURATION_UNITS: Final = {
    "": 1,
    "ms": 1,
    "s": SECOND_MS,
    "min": MINUTE_MS,
    "h": HOUR_MS,
    "d": DAY_MS,
}


class Declared(Protocol):
    """Any dataclass: what the functions here read settings from."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


C = TypeVar("C", bound=Declared)


class ConfigType(IntEnum):
    """The types that DescribeConfigs tells apart, with its numbers."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Kind(IntEnum):
    """How the text of a setting is read.

    `SIZE` and `DURATION` also take units ("64 MiB", "10 s").  Kafka's own settings are plain
    numbers, so only settings of ours are of these two kinds.
    """

    BOOL = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    SIZE = 8
    DURATION = 9

    @property
    def wire_type(self) -> ConfigType:
        """What DescribeConfigs calls it."""
        return ConfigType.LONG if self in (Kind.SIZE, Kind.DURATION) else ConfigType(self.value)


_WIDTHS: Final = {
    Kind.SHORT: 2**15 - 1,
    Kind.INT: INT32_MAX,
    Kind.LONG: INT64_MAX,
    Kind.SIZE: INT64_MAX,
    Kind.DURATION: INT64_MAX,
}


class Synonym(NamedTuple):
    """A broker-level setting that a topic-level one falls back to, e.g. `log.retention.hours`."""

    name: str
    scale: int = 1
    """The topic's setting is this many times the broker's; hours become milliseconds."""
    low: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One declared setting."""

    attribute: str = ""
    name: str
    kind: Kind
    default: Any
    low: float | None = None
    high: float | None = None
    given_low: float | None = None
    """The least that users may ask for, where code may go lower: tests like tiny segments."""
    choices: tuple[str, ...] = ()
    pattern: str | None = None
    is_sensitive: bool = False
    is_nullable: bool = False
    aliases: tuple[str, ...] = ()
    synonyms: tuple[Synonym, ...] = ()
    section: str = ""
    """The attribute of the section that it belongs to, "" for the class itself."""

    @property
    def allowed(self) -> str:
        """The legal values in words; "" if all are legal that can be read."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.pattern is not None:
            return f"like {self.pattern}"
        low = self.low if self.given_low is None else self.given_low
        if low is not None and self.high is not None:
            return f"{_plain(low)} to {_plain(self.high)}"
        if low is not None:
            return f"at least {_plain(low)}"
        return "" if self.high is None else f"at most {_plain(self.high)}"

    def parse(self, value: object) -> Any:
        """The typed value of a string, or of a native value; `ConfigError` if it is neither."""
        if value is None:
            if self.is_nullable:
                return None
            raise ConfigError(f"{self.name} needs a value")
        try:
            parsed = _PARSERS[self.kind](value)
        except ValueError as error:
            raise ConfigError(f"{self.name} = {value!r} is not {error}") from None
        self.check(parsed)
        if self.given_low is not None and parsed < self.given_low:
            raise ConfigError(f"{self.name} = {parsed} is not {self.allowed}")
        return parsed

    def check(self, value: Any) -> None:
        """Raise `ConfigError` if a typed value is outside the declared range."""
        if value is None:
            if not self.is_nullable:
                raise ConfigError(f"{self.name} needs a value")
            return
        width = _WIDTHS.get(self.kind)
        if width is not None and not -width - 1 <= value <= width:
            raise ConfigError(f"{self.name} = {value} does not fit into {self.kind.name.lower()}")
        if not self._is_allowed(value):
            raise ConfigError(f"{self.name} = {self.text(value)} is not {self.allowed}")
        if self.kind is Kind.LIST and len(set(value)) != len(value):
            raise ConfigError(f"{self.name} = {self.text(value)} names a value twice")
        if self.kind is Kind.LIST and "" in value:
            raise ConfigError(f"{self.name} = {self.text(value)} has an empty item")

    def _is_allowed(self, value: Any) -> bool:
        items = value if self.kind is Kind.LIST else (value,)
        if self.choices:
            return all(item in self.choices for item in items)
        if self.pattern is not None:
            return all(re.fullmatch(self.pattern, item) for item in items)
        # Written so that NaN, which is neither smaller nor larger, is refused.
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def text(self, value: Any) -> str | None:
        """A typed value as Kafka writes it; `parse` undoes it."""
        match value:
            case None:
                return None
            case bool():
                return "true" if value else "false"
            case float():
                return repr(value).replace("e+", "E").replace("e", "E")
            case tuple():
                return ",".join(value)
            case _:
                return str(value)


def setting(
    name: str,
    default: Any,
    *,
    kind: Kind | None = None,
    low: float | None = None,
    high: float | None = None,
    given_low: float | None = None,
    choices: Iterable[str] = (),
    pattern: str | None = None,
    sensitive: bool = False,
    nullable: bool = False,
    aliases: tuple[str, ...] = (),
    synonyms: tuple[str | Synonym, ...] = (),
) -> Any:
    """Declare one setting, and its name in Kafka's own dialect.

    Args:
        kind: How its text is read; None derives it from the default.
        given_low: The least that users may ask for, where code may go lower.
        choices: The legal values; for a list, those of its items.
        pattern: What a string, or each item of a list, must match.
        sensitive: Never told to anybody.
        nullable: It may have no value at all.
        aliases: Other names for the same thing, which files may use.
        synonyms: Broker-level settings that it falls back to, the strongest first.
    """
    declared = Setting(
        name=name,
        kind=_kind_of(default) if kind is None else kind,
        default=default,
        low=low,
        high=high,
        given_low=given_low,
        choices=tuple(choices),
        pattern=pattern,
        is_sensitive=sensitive,
        is_nullable=nullable,
        aliases=aliases,
        synonyms=tuple(Synonym(s) if isinstance(s, str) else s for s in synonyms),
    )
    return dataclasses.field(
        default=default, repr=not sensitive, metadata={_METADATA_KEY: declared}
    )


@cache
def settings_of(cls: type[Declared]) -> Mapping[str, Setting]:
    """Every setting of a class by its name, those of its sections included, as declared.

    A section is a field that by default holds another class of settings.
    """
    found: dict[str, Setting] = {}
    for field in dataclasses.fields(cls):
        part: Any = field.default_factory
        if (declared := field.metadata.get(_METADATA_KEY)) is not None:
            # Of this field alone, and nobody has seen it yet: a copy would cost a start more than
            # all that is read from files.
            object.__setattr__(declared, "attribute", field.name)
            found[declared.name] = declared
        elif isinstance(part, type) and dataclasses.is_dataclass(part):
            for name, inner in settings_of(part).items():
                found[name] = dataclasses.replace(inner, section=field.name)
    return found


def from_mapping(cls: type[C], mapping: Mapping[str, object], **more: Any) -> C:
    """Build a config from dotted names; an unknown name is an error that suggests a known one.

    `more` are fields that are no settings.
    """
    known = settings_of(cls)
    names = {alias: name for name, declared in known.items() for alias in declared.aliases}
    values: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    given: set[str] = set()
    for name, value in mapping.items():
        declared = known.get(names.get(name, name))
        if declared is None:
            raise unknown_setting(name, [*known, *names])
        if declared.name in given:
            raise ConfigError(f"{declared.name} is given twice, once as {name}")
        given.add(declared.name)
        target = parts.setdefault(declared.section, {}) if declared.section else values
        target[declared.attribute] = declared.parse(value)
    for field in dataclasses.fields(cls):
        if field.name in parts:
            assert field.default_factory is not dataclasses.MISSING, field.name
            values[field.name] = field.default_factory(**parts[field.name])
    return cls(**values, **more)


def unknown_setting(name: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that nobody declared, with the nearest name that somebody did."""
    import difflib  # not needed by a start that goes well

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.7)
    hint = f"; did you mean {close[0]}?" if close else ""
    return ConfigError(f"unknown setting {name!r}{hint}")


def check_ranges(config: Declared) -> None:
    """Raise `ConfigError` for the first setting outside its declared range."""
    for declared in settings_of(type(config)).values():
        if not declared.section:
            declared.check(getattr(config, declared.attribute))


def check_order(config: Declared, low: str, high: str) -> None:
    """Raise `ConfigError` if the setting of attribute `low` is more than that of `high`."""
    names = {s.attribute: s.name for s in settings_of(type(config)).values() if not s.section}
    if getattr(config, low) > getattr(config, high):
        raise ConfigError(
            f"{names[low]} = {getattr(config, low)} is more than "
            f"{names[high]} = {getattr(config, high)}"
        )


def value_of(config: Declared, declared: Setting) -> Any:
    """The typed value of a setting in `config`."""
    holder = getattr(config, declared.section) if declared.section else config
    return getattr(holder, declared.attribute)


def to_strings(config: Declared) -> dict[str, str | None]:
    """Every setting as Kafka writes it; `from_mapping` undoes it."""
    return {
        name: declared.text(value_of(config, declared))
        for name, declared in settings_of(type(config)).items()
    }


@cache
def documentation(cls: type[Declared]) -> Mapping[str, str]:
    """Setting name -> the string that stands after its field, in one line.

    Read from the source, and only when asked for.  Where a program was packed without its source
    there is no documentation, and nothing else is missing.
    """
    by_attribute = attribute_documentation(cls)
    found = {}
    for name, declared in settings_of(cls).items():
        if declared.section:
            found[name] = documentation(_section_class(cls, declared.section))[name]
        else:
            found[name] = by_attribute.get(declared.attribute, "")
    return found


def attribute_documentation(cls: type[Declared]) -> dict[str, str]:
    """Attribute -> the string that stands after it, in one line; inherited ones included."""
    found: dict[str, str] = {}
    for part in reversed(cls.__mro__[:-1]):  # a class may declare anew what it inherits
        found |= _attribute_docs(part)
    return found


def _section_class(cls: type[Declared], attribute: str) -> type[Declared]:
    part: Any = cls.__dataclass_fields__[attribute].default_factory
    assert isinstance(part, type), part
    return part


def _attribute_docs(cls: type) -> dict[str, str]:
    import ast  # here, as below, because a broker starts without
    import inspect
    import textwrap

    try:
        source = inspect.getsource(cls)
    except OSError:
        return {}
    (definition,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(definition, ast.ClassDef), definition
    docs = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str(s))
            ):
                docs[name] = " ".join(s.split())
            case _:
                continue
    return docs


def _kind_of(default: object) -> Kind:
    match default:
        case bool():
            return Kind.BOOL
        case int():
            return Kind.INT
        case float():
            return Kind.DOUBLE
        case str():
            return Kind.STRING
        case tuple():
            return Kind.LIST
        case _:
            raise TypeError(f"the kind of a setting with default {default!r} must be named")


def _plain(bound: float) -> str:
    """A bound as a user writes it: 1, not 1.0."""
    return str(int(bound)) if bound == int(bound) else str(bound)


# Parsers raise ValueError with the words that follow "is not".


def _parse_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError("true or false")


def _parse_int(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(_WHOLE_NUMBER, value.strip()):
        return int(value)
    raise ValueError("a whole number")


def _parse_double(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and re.fullmatch(_NUMBER, value.strip()):
        return float(value)
    raise ValueError("a number")


def _parse_string(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    raise ValueError("a string")


def _parse_list(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(item.strip() for item in value.split(",")) if value.strip() else ()
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ValueError("a list of strings, with commas between them")


def _parse_quantity(value: object, units: Mapping[str, int]) -> int:
    if isinstance(value, str) and (found := re.fullmatch(_QUANTITY, value.strip())):
        number, unit = found.groups()
        if unit in units:
            return int(number) * units[unit]
    try:
        return _parse_int(value)
    except ValueError:
        names = ", ".join(unit for unit in units if unit)
        raise ValueError(f"a whole number, alone or with one of {names}") from None


_PARSERS: Final[Mapping[Kind, Callable[[object], Any]]] = {
    Kind.BOOL: _parse_bool,
    Kind.STRING: _parse_string,
    Kind.INT: _parse_int,
    Kind.SHORT: _parse_int,
    Kind.LONG: _parse_int,
    Kind.DOUBLE: _parse_double,
    Kind.LIST: _parse_list,
    Kind.SIZE: lambda value: _parse_quantity(value, _SIZE_UNITS),
    Kind.DURATION: lambda value: _parse_quantity(value, _DURATION_UNITS),
}
