"""The settings of a broker in a file: TOML with Kafka's dotted names, or a server.properties.

In TOML a dotted name may be written as it is (`log.retention.hours = 24`), quoted, or as a table;
all three mean the same here.
"""

import os
from collections.abc import Iterator, Mapping

from ottla.errors import ConfigError


def read_settings(path: str | os.PathLike[str]) -> dict[str, object]:
    """Dotted name -> value; `ConfigError` if the file cannot be read as such."""
    path = os.fspath(path)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    if path.endswith(".properties"):
        return dict(_properties(path, text))
    import tomllib  # here, because most brokers start without a file

    try:
        return dict(_flattened(tomllib.loads(text)))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None


def _flattened(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _properties(path: str, text: str) -> Iterator[tuple[str, object]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise ConfigError(f"{path}:{number}: {line!r} is not name=value")
        yield name.strip(), value.strip()
