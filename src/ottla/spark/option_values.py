"""How the text of an option is read where it is more than a word or a number."""

import json
import re
from typing import Any, Final

from ottla.errors import ConfigError
from ottla.model import TopicPartition

EARLIEST: Final = -2
"""In JSON of offsets: the first that is there."""
LATEST: Final = -1
"""In JSON of offsets: behind the last that may be seen."""

_DURATION: Final = re.compile(r"([0-9]+) ?([a-z]*)")
_DURATION_UNITS_MS: Final = {
    "": 1,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_SIZE: Final = re.compile(r"([0-9]+) ?([A-Za-z]*)")
_SIZE_UNITS: Final = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def assigned_partitions(text: str) -> tuple[TopicPartition, ...]:
    """Read JSON like {"orders": [0, 1]}."""
    told = _json_object("assign", text)
    found = []
    for topic, numbers in told.items():
        if not isinstance(numbers, list) or not all(_is_number(n) and n >= 0 for n in numbers):
            raise ConfigError(f"assign: {topic!r} needs a list of partitions, like [0, 1]")
        found += [TopicPartition(topic, number) for number in numbers]
    if not found:
        raise ConfigError("assign names no partition")
    if len(set(found)) != len(found):
        raise ConfigError("assign names a partition twice")
    return tuple(sorted(found))


def positions(name: str, text: str) -> dict[TopicPartition, int]:
    """Read JSON like {"orders": {"0": 23}} of an option."""
    found: dict[TopicPartition, int] = {}
    for topic, offsets in _json_object(name, text).items():
        if not isinstance(offsets, dict):
            raise ConfigError(f'{name}: {topic!r} needs offsets by partition, like {{"0": 23}}')
        for partition, offset in offsets.items():
            if not partition.isdecimal() or not _is_number(offset):
                raise ConfigError(f"{name}: {topic} {partition!r}: {offset!r} is no offset")
            found[TopicPartition(topic, int(partition))] = offset
    return found


def duration_ms(name: str, text: str) -> int:
    """Read a duration as Spark writes it: 500ms, 30s, 15m, 1h; milliseconds without a unit."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in _DURATION_UNITS_MS:
        raise ConfigError(f"{name} = {text!r} is not a duration like 500ms, 30s, 15m or 1h")
    return int(found[1]) * _DURATION_UNITS_MS[found[2]]


def size_bytes(name: str, text: str) -> int:
    """Read a size as Spark writes it: 64k, 128m, 1g, or with KiB, MiB, GiB; bytes without."""
    found = _SIZE.fullmatch(text.strip())
    unit = "" if found is None else found[2].lower().removesuffix("ib").removesuffix("b")
    if found is None or unit not in _SIZE_UNITS or int(found[1]) == 0:
        raise ConfigError(f"{name} = {text!r} is not a size like 64k, 128m or 1g")
    return int(found[1]) << 10 * _SIZE_UNITS[unit]


def _json_object(name: str, text: str) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{name} = {text!r} is not JSON: {error}") from None
    if not isinstance(told, dict):
        raise ConfigError(f"{name} = {text!r} is no JSON object of topics")
    return told


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
