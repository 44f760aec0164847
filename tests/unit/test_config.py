"""How settings are declared, read and written back."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from ottla.config import (
    ConfigType,
    Kind,
    check_order,
    check_ranges,
    documentation,
    from_mapping,
    setting,
    settings_of,
    to_strings,
)
from ottla.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    oil_bytes: int = setting("engine.oil.bytes", 10, kind=Kind.SIZE, low=1)
    """How much oil
    it takes."""

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Car:
    seats: int = setting("seats", 4, low=1, high=9, aliases=("chairs",))
    """Where one sits."""
    doors: int = setting("doors", 4, low=0)
    weight: int = setting("weight", 2**40, kind=Kind.LONG)
    color: str = setting("color", "red", choices=("red", "blue"))
    extras: tuple[str, ...] = setting("extras", (), pattern="[a-z]+")
    thirst: float = setting("thirst", 0.5, low=0, high=1)
    is_fast: bool = setting("fast", False)
    patience_ms: int = setting("patience", 1000, kind=Kind.DURATION, low=0)
    wheel_bytes: int = setting("wheel.bytes", 100, low=1, given_low=50)
    owner: str | None = setting("owner", None, kind=Kind.STRING, nullable=True)
    engine: Engine = field(default_factory=Engine)
    note: str = ""

    def __post_init__(self) -> None:
        check_ranges(self)
        check_order(self, "doors", "seats")


@pytest.mark.parametrize(
    ("name", "text", "attribute", "value"),
    [
        ("seats", " +7 ", "seats", 7),
        ("seats", 7, "seats", 7),
        ("chairs", "7", "seats", 7),
        ("weight", "-9223372036854775808", "weight", -(2**63)),
        ("color", "blue", "color", "blue"),
        ("extras", "a, b ,c", "extras", ("a", "b", "c")),
        ("extras", "", "extras", ()),
        ("extras", ["a", "b"], "extras", ("a", "b")),
        ("thirst", "1e-1", "thirst", 0.1),
        ("thirst", 1, "thirst", 1.0),
        ("fast", "TRUE", "is_fast", True),
        ("fast", False, "is_fast", False),
        ("patience", "2 min", "patience_ms", 120_000),
        ("patience", "250", "patience_ms", 250),
        ("owner", "ada", "owner", "ada"),
        ("owner", None, "owner", None),
    ],
)
def test_a_value_is_read_as_kafka_reads_it(
    name: str, text: object, attribute: str, value: object
) -> None:
    assert getattr(from_mapping(Car, {name: text}), attribute) == value


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"seats": "many"}, "seats = 'many' is not a whole number"),
        ({"seats": "1_0"}, "seats = '1_0' is not a whole number"),
        ({"seats": "٣"}, "seats = '٣' is not a whole number"),
        ({"seats": True}, "seats = True is not a whole number"),
        ({"seats": "10"}, "seats = 10 is not 1 to 9"),
        ({"seats": None}, "seats needs a value"),
        ({"weight": str(2**63)}, "weight = 9223372036854775808 does not fit into long"),
        ({"color": "green"}, "color = green is not one of red, blue"),
        ({"extras": "a,B"}, "extras = a,B is not like [a-z]+"),
        ({"extras": "a,a"}, "extras = a,a names a value twice"),
        ({"extras": [1]}, "extras = [1] is not a list of strings, with commas between them"),
        ({"thirst": "nan"}, "thirst = 'nan' is not a number"),
        ({"thirst": float("nan")}, "thirst = nan is not 0 to 1"),
        ({"thirst": "1.5"}, "thirst = 1.5 is not 0 to 1"),
        ({"fast": "yes"}, "fast = 'yes' is not true or false"),
        ({"patience": "2 weeks"}, "is not a whole number, alone or with one of ms, s, min, h, d"),
        ({"wheel.bytes": "49"}, "wheel.bytes = 49 is not at least 50"),
        ({"engine.oil.bytes": "0"}, "engine.oil.bytes = 0 is not at least 1"),
        ({"doors": "5"}, "doors = 5 is more than seats = 4"),
        ({"seats": "4", "chairs": "4"}, "seats is given twice, once as chairs"),
        ({"seat": "4"}, "unknown setting 'seat'; did you mean seats?"),
        ({"helicopter": "4"}, "unknown setting 'helicopter'"),
    ],
)
def test_what_cannot_be_read_says_name_value_and_limit(
    mapping: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        from_mapping(Car, mapping)
    assert str(raised.value).endswith(message)


def test_code_may_go_below_what_users_may_ask_for() -> None:
    assert Car(wheel_bytes=1).wheel_bytes == 1
    with pytest.raises(ConfigError):
        Car(wheel_bytes=0)


def test_a_section_keeps_the_names_of_its_settings() -> None:
    car = from_mapping(Car, {"engine.oil.bytes": "4 KiB"})
    assert car.engine.oil_bytes == 4096


def test_every_setting_can_be_written_and_read_back() -> None:
    given: dict[str, Any] = {"fast": "true", "extras": "a,b", "thirst": "0.25", "chairs": "8"}
    car = from_mapping(Car, given | {"engine.oil.bytes": "7"})
    written = to_strings(car)
    assert written["fast"] == "true"
    assert written["extras"] == "a,b"
    assert written["engine.oil.bytes"] == "7"
    assert written["owner"] is None
    assert from_mapping(Car, written) == car


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (1.0, "1.0"), (1.7976931348623157e308, "1.7976931348623157E308")],
)
def test_a_double_is_written_as_java_writes_it(value: float, text: str) -> None:
    assert settings_of(Car)["thirst"].text(value) == text


def test_only_declared_fields_are_settings() -> None:
    assert "note" not in {declared.attribute for declared in settings_of(Car).values()}


def test_the_string_after_a_field_documents_it() -> None:
    docs = documentation(Car)
    assert docs["seats"] == "Where one sits."
    assert docs["engine.oil.bytes"] == "How much oil it takes."
    assert docs["doors"] == ""


def test_sizes_and_durations_are_longs_to_clients() -> None:
    assert settings_of(Car)["patience"].kind.wire_type is ConfigType.LONG
    assert settings_of(Car)["fast"].kind.wire_type is ConfigType.BOOLEAN
