"""The checker of declarations sees each kind of mistake: it is fed one of each.

`Visit` is right.  Every other declaration here differs from the schema in one fact.
"""

from typing import Any

import pytest

from ottla.wire.schema import OWN_TAGS, Int16, Int32, Int64, String, Uuid, at, message, struct
from tests.conformance.kafka_schemas import Schema, snake_case
from tests.conformance.schema_checker import differences, own_fields

SCHEMA = Schema(
    {
        "apiKey": 7,
        "name": "Visit",
        "validVersions": "1-3",
        "flexibleVersions": "3+",
        "fields": [
            {"name": "Host", "type": "string", "versions": "0+", "flexibleVersions": "none"},
            {"name": "Gone", "type": "int32", "versions": "0"},
            {
                "name": "Rooms",
                "type": "[]Room",
                "versions": "0+",
                "nullableVersions": "2+",
            },
            {
                "name": "Reason",
                "type": "string",
                "versions": "2+",
                "nullableVersions": "2+",
                "default": "null",
                "ignorable": True,
            },
            {
                "name": "GuestId",
                "type": "int64",
                "versions": "3+",
                "taggedVersions": "3+",
                "tag": 0,
                "default": "-1",
            },
            {"name": "Best", "type": "Room", "taggedVersions": "3+", "tag": 1, "default": None},
        ],
        "commonStructs": [
            {
                "name": "Room",
                "versions": "0+",
                "fields": [
                    {"name": "Number", "type": "int32", "versions": "0+", "default": "0x10"},
                    {"name": "FloorID", "type": "int16", "versions": "2+"},
                ],
            }
        ],
    }
)


@struct
class Room:
    number: Int32 = 16
    floor_id: Int16 = at("2+", default=0)


@message(key=7, versions="1-3", flexible="3+")
class Visit:
    host: String = at("0+", flexible=False)
    rooms: tuple[Room, ...] | None = at("0+", nullable="2+")
    reason: String | None = at("2+", default=None, ignorable=True)
    guest_id: Int64 = at("3+", default=-1, tag=0)
    best: Room = at("3+", default=Room(), tag=1)


def declared(
    versions: str = "1-3", flexible: str = "3+", key: int = 7, **changes: tuple[Any, Any]
) -> type[Any]:
    """`Visit` with other versions, or with some fields declared as (annotation, value)."""
    annotations: dict[str, Any] = dict(Visit.__annotations__)
    values: dict[str, Any] = dict(Visit.__declared_defaults__)  # type: ignore[attr-defined]
    for name, (annotation, value) in changes.items():
        annotations[name], values[name] = annotation, value
        if annotation is None:
            del annotations[name], values[name]
    made = type("Visit", (), {"__annotations__": annotations, **values})
    return message(key=key, versions=versions, flexible=flexible)(made)


def reported(cls: type[Any]) -> list[str]:
    return [str(difference) for difference in differences(cls, SCHEMA)]


def test_a_right_declaration_has_no_differences() -> None:
    assert reported(Visit) == []


def test_a_field_of_our_own_is_no_difference_but_listed() -> None:
    @struct
    class RoomWithView:
        number: Int32 = 16
        floor_id: Int16 = at("2+", default=0)
        view: String = at("3+", default="", tag=OWN_TAGS)

    cls = declared(
        rooms=(tuple[RoomWithView, ...] | None, at("0+", nullable="2+")),
        price=(Int64, at("3+", default=-1, tag=OWN_TAGS + 1)),
    )

    assert reported(cls) == []
    assert list(own_fields(cls)) == ["rooms.view", "price"]


def test_a_field_of_our_own_needs_a_tag_of_our_own() -> None:
    cls = declared(price=(Int64, at("3+", default=-1, tag=OWN_TAGS - 1)))

    assert reported(cls)[-1] == "Visit v3 price: on the wire here, not in Kafka"


@struct
class RoomOfOtherType:
    number: Int64 = 16
    floor_id: Int16 = at("2+", default=0)


@struct
class RoomWithoutFloor:
    number: Int32 = 16


@pytest.mark.parametrize(
    ("wrong", "report"),
    [
        (declared(key=8), "Visit v0: has key 8 here, 7 in Kafka"),
        (declared(versions="1-2"), "Visit v0: versions 1-2 here, 1-3 in Kafka"),
        (declared(versions="1-4"), "Visit v4: is not a version in Kafka"),
        (declared(flexible="2+"), "Visit v2: is flexible here, not flexible in Kafka"),
        (declared(host=(String, at("0+"))), "Visit v3 host: compact=True here, False in Kafka"),
        (
            declared(rooms=(tuple[Room, ...] | None, at("0+"))),
            "Visit v1 rooms: nullable here, not in Kafka",
        ),
        (
            declared(rooms=(tuple[Room, ...] | None, at("0+", nullable="3+"))),
            "Visit v2 rooms: not nullable here, but in Kafka",
        ),
        (
            declared(rooms=(tuple[RoomOfOtherType, ...] | None, at("0+", nullable="2+"))),
            "Visit v1 rooms.number: int64 here, int32 in Kafka",
        ),
        (
            declared(rooms=(tuple[RoomWithoutFloor, ...] | None, at("0+", nullable="2+"))),
            "Visit v2 rooms.floor_id: on the wire in Kafka, not here",
        ),
        (
            declared(reason=(String | None, at("1+", default=None, ignorable=True))),
            "Visit v1 reason: on the wire here, not in Kafka",
        ),
        (
            declared(reason=(String | None, at("2+", default=None))),
            "Visit v1 reason: absent, with ignorable=False here, True in Kafka",
        ),
        (
            declared(reason=(String | None, at("2+", default="", ignorable=True))),
            "Visit v1 reason: absent, with default '' here, None in Kafka",
        ),
        (
            declared(guest_id=(Int64, at("3+", default=0, tag=0))),
            "Visit v3 guest_id: default 0 here, -1 in Kafka",
        ),
        (
            declared(guest_id=(Int64, at("3+", default=-1, tag=2))),
            "Visit v3: fields in the order ['host', 'rooms', 'reason', 'best', 'guest_id'] here, "
            "['host', 'rooms', 'reason', 'guest_id', 'best'] in Kafka",
        ),
        (
            declared(best=(Room, at("3+", default=Room(), tag=7))),
            "Visit v3 best: tag 7 here, 1 in Kafka",
        ),
        (
            declared(best=(Room, at("3+", default=Room(number=1), tag=1))),
            "Visit v3 best: default {'number': 1, 'floor_id': 0} here, "
            "{'number': 16, 'floor_id': 0} in Kafka",
        ),
        (
            declared(best=(Uuid, at("3+", default=bytes(16), tag=1))),
            "Visit v3 best: uuid here, struct in Kafka",
        ),
        (
            declared(best=(None, None)),
            "Visit v1 best: a field of another version only in Kafka",
        ),
    ],
)
def test_a_wrong_declaration_is_reported(wrong: type[Any], report: str) -> None:
    assert report in reported(wrong)


@pytest.mark.parametrize(
    ("kafka", "python"),
    [
        ("Name", "name"),
        ("V3AndBelowTopics", "v3_and_below_topics"),
        ("IsrNodes", "isr_nodes"),
        ("FloorID", "floor_id"),
        ("HTTPPort", "http_port"),
    ],
)
def test_names_are_spelled_as_python_does(kafka: str, python: str) -> None:
    assert snake_case(kafka) == python
