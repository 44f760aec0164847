"""Where the value of a setting comes from, and how DescribeConfigs tells it.

A topic's settings fall back to broker-level ones.  These may be given while the broker runs (for
it, or for all brokers), or in its file, or are defaults: `Layers` knows them in this order.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, Protocol

from ottla.cluster.image import NO_SETTINGS, ClusterImage
from ottla.config import (
    ConfigType,
    Declared,
    Setting,
    documentation,
    settings_of,
    value_of,
)
from ottla.log.config import LogConfig, broker_level
from ottla.values import NamedTuple, dataclass

ALL_BROKERS: Final = ""


class ResourceType(IntEnum):
    """What settings can belong to, with the protocol's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from, with the protocol's numbers."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting as DescribeConfigs tells it."""

    name: str
    value: str | None
    is_read_only: bool
    source: ConfigSource
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    type: ConfigType
    documentation: str | None = None


class ControllerConfig(Declared, Protocol):
    """What the controller reads of its broker's settings."""

    @property
    def node_id(self) -> int: ...
    @property
    def num_partitions(self) -> int: ...
    @property
    def default_replication_factor(self) -> int: ...
    @property
    def delete_topic_enable(self) -> bool: ...
    @property
    def topic_defaults(self) -> Mapping[str, str]: ...
    @property
    def given(self) -> frozenset[str]: ...


def dynamic_settings() -> Mapping[str, Setting]:
    """The broker-level settings that can be changed while the broker runs.

    They are the defaults of topics, because these alone are read again every time.
    """
    strongest = {s.synonyms[0].name for s in settings_of(LogConfig).values() if s.synonyms}
    return {name: declared for name, declared in broker_level().items() if name in strongest}


class Layers:
    """Broker-level settings of one node, by where they come from."""

    def __init__(self, image: ClusterImage, config: ControllerConfig) -> None:
        self._config = config
        self.own = image.broker_settings.get(str(config.node_id), NO_SETTINGS)
        self.shared = image.broker_settings.get(ALL_BROKERS, NO_SETTINGS)

    def topic_defaults(self) -> dict[str, str]:
        """Everything given at broker level that topics fall back to."""
        return {**self._config.topic_defaults, **self.shared, **self.own}

    def topic_entries(
        self, overrides: Mapping[str, str], *, with_documentation: bool
    ) -> list[ConfigEntry]:
        """Every setting of a topic with these overrides."""
        effective = LogConfig.of(self.topic_defaults(), overrides)
        docs = documentation(LogConfig) if with_documentation else {}
        entries = []
        for name, declared in settings_of(LogConfig).items():
            text = declared.text(value_of(effective, declared))
            synonyms = self._synonyms([s.name for s in declared.synonyms])
            if name in overrides:
                own = ConfigSynonym(name, text, ConfigSource.DYNAMIC_TOPIC_CONFIG)
                synonyms = [own, *synonyms]
            entries.append(_entry(declared, text, synonyms, docs.get(name), is_read_only=False))
        return entries

    def broker_entries(self, *, with_documentation: bool) -> list[ConfigEntry]:
        """Every setting of this node."""
        docs = self._documentation() if with_documentation else {}
        dynamic = dynamic_settings()
        entries = []
        for name, declared in settings_of(type(self._config)).items():
            text = declared.text(value_of(self._config, declared))
            is_given = (
                name in self._config.given or value_of(self._config, declared) != declared.default
            )
            synonyms = [ConfigSynonym(name, text, ConfigSource.STATIC_BROKER_CONFIG)] * is_given
            if declared.default is not None:
                default = declared.text(declared.default)
                synonyms.append(ConfigSynonym(name, default, ConfigSource.DEFAULT_CONFIG))
            entries.append(_entry(declared, text, synonyms, docs.get(name), is_read_only=True))
        for name, declared in broker_level().items():
            synonyms = self._synonyms([name])
            text = synonyms[0].value if synonyms else None
            is_read_only = name not in dynamic
            entries.append(
                _entry(declared, text, synonyms, docs.get(name), is_read_only=is_read_only)
            )
        return entries

    def shared_entries(self, *, with_documentation: bool) -> list[ConfigEntry]:
        """What was given for all brokers."""
        docs = self._documentation() if with_documentation else {}
        return [
            _entry(
                broker_level()[name],
                text,
                [ConfigSynonym(name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)],
                docs.get(name),
                is_read_only=False,
            )
            for name, text in self.shared.items()
        ]

    def _documentation(self) -> dict[str, str]:
        topic_docs = documentation(LogConfig)
        defaults = {
            synonym.name: f"The default of topics' {name}. {topic_docs[name]}"
            for name, declared in settings_of(LogConfig).items()
            for synonym in declared.synonyms
        }
        return {**defaults, **documentation(type(self._config))}

    def _synonyms(self, names: Iterable[str]) -> list[ConfigSynonym]:
        """The values of broker-level settings, the strongest first."""
        names = list(names)
        defaults = {
            name: broker_level()[name].text(broker_level()[name].default)
            for name in names
            if broker_level()[name].default is not None
        }
        layers: tuple[tuple[Mapping[str, str | None], ConfigSource], ...] = (
            (self.own, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self.shared, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self._config.topic_defaults, ConfigSource.STATIC_BROKER_CONFIG),
            (defaults, ConfigSource.DEFAULT_CONFIG),
        )
        return [
            ConfigSynonym(name, layer[name], source)
            for layer, source in layers
            for name in names
            if name in layer
        ]


def _entry(
    declared: Setting,
    text: str | None,
    synonyms: Sequence[ConfigSynonym],
    documented: str | None,
    *,
    is_read_only: bool,
) -> ConfigEntry:
    is_hidden = declared.is_sensitive
    return ConfigEntry(
        name=declared.name,
        value=None if is_hidden else text,
        is_read_only=is_read_only,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        is_sensitive=is_hidden,
        synonyms=tuple(s._replace(value=None) if is_hidden else s for s in synonyms),
        type=ConfigType.PASSWORD if is_hidden else declared.kind.wire_type,
        documentation=documented,
    )
