"""Decides on changes of settings: pure, like `topics`.

The settings that a resource would have are worked out first, then checked together with all that
they fall back to.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Final, Self, TypeVar

from ottla.cluster import layout
from ottla.cluster.changes import BrokerConfigChanged, TopicConfigChanged
from ottla.cluster.configs import (
    ALL_BROKERS,
    ControllerConfig,
    Layers,
    ResourceType,
    dynamic_settings,
)
from ottla.cluster.decision import Decision, Refusal, unknown_topic
from ottla.cluster.image import NO_SETTINGS, ClusterImage
from ottla.config import Kind, Setting, settings_of, to_strings, unknown_setting
from ottla.errors import ConfigError, ErrorCode
from ottla.log.config import LogConfig, broker_level
from ottla.model import topic_name_error
from ottla.values import NamedTuple, dataclass

MAX_VALUE_LENGTH: Final = 2**15 - 1


class Operator(IntEnum):
    """How IncrementalAlterConfigs changes a value, with the protocol's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigOperation(NamedTuple):
    name: str
    operator: int
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAlteration:
    """All settings that a resource shall have: what is not named falls back to its default."""

    resource_type: int
    name: str
    configs: Sequence[tuple[str, str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlteration:
    """Changes to some settings of a resource; the others stay."""

    resource_type: int
    name: str
    operations: Sequence[ConfigOperation]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOutcome:
    """What became of one resource of a request."""

    resource_type: int
    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None

    def but(self, refusal: Refusal) -> Self:
        """The same resource, refused."""
        return replace(self, error=refusal.error, message=refusal.message)


A = TypeVar("A", ConfigAlteration, IncrementalAlteration)


class Alterer:
    """Decides on the changes of one request, on one image."""

    def __init__(self, image: ClusterImage, config: ControllerConfig) -> None:
        self._image = image
        self._config = config
        self._layers = Layers(image, config)
        self._decision: Decision[ConfigOutcome] = Decision()

    def replace_all(self, alterations: Sequence[ConfigAlteration]) -> Decision[ConfigOutcome]:
        """Decide on AlterConfigs."""
        return self._decide(alterations, replaced)

    def operate(self, alterations: Sequence[IncrementalAlteration]) -> Decision[ConfigOutcome]:
        """Decide on IncrementalAlterConfigs."""
        return self._decide(alterations, self._operated)

    def _decide(
        self, alterations: Sequence[A], after: Callable[[A], dict[str, str] | Refusal]
    ) -> Decision[ConfigOutcome]:
        resources = [(a.resource_type, a.name) for a in alterations]
        for alteration, resource in zip(alterations, resources, strict=True):
            outcome = ConfigOutcome(resource_type=resource[0], name=resource[1])
            settings = self._settings(alteration, after, is_twice=resources.count(resource) > 1)
            if isinstance(settings, Refusal):
                self._decision.outcomes.append(outcome.but(settings))
            else:
                self._decision.outcomes.append(outcome)
                self._write(*resource, settings)
        return self._decision

    def _settings(
        self, alteration: A, after: Callable[[A], dict[str, str] | Refusal], *, is_twice: bool
    ) -> dict[str, str] | Refusal:
        """All settings that a resource has afterwards."""
        resource_type, name = alteration.resource_type, alteration.name
        if is_twice:
            return Refusal(ErrorCode.INVALID_REQUEST, "the resource occurs twice")
        if refusal := resource_refusal(resource_type, name, self._config):
            return refusal
        settings = after(alteration)
        if isinstance(settings, Refusal):
            return settings
        if resource_type == ResourceType.BROKER:
            return broker_refusal(name, settings, self._image, self._config) or settings
        if refusal := topic_refusal(settings, self._layers):
            return refusal
        return settings if name in self._image.topics else unknown_topic(name)

    def _write(self, resource_type: int, name: str, settings: dict[str, str]) -> None:
        if resource_type == ResourceType.BROKER:
            key = layout.broker_config_key(name)
            change = BrokerConfigChanged(name, settings)
            self._decision.add(change, [layout.put_settings(key, settings)], key)
            return
        key = layout.topic_config_key(name)
        topic = replace(self._image.topics[name], overrides=settings)
        self._decision.add(
            TopicConfigChanged(topic),
            [layout.put_settings(key, settings)],
            key,
            layout.topic_key(name),
        )

    def _operated(self, alteration: IncrementalAlteration) -> dict[str, str] | Refusal:
        known: Mapping[str, Setting]
        fallback: Mapping[str, str | None]
        if alteration.resource_type == ResourceType.TOPIC:
            topic = self._image.topics.get(alteration.name)
            current = NO_SETTINGS if topic is None else topic.overrides
            known = settings_of(LogConfig)
            fallback = to_strings(LogConfig.of(self._layers.topic_defaults(), {}))
        else:
            current = self._image.broker_settings.get(alteration.name, NO_SETTINGS)
            known = dynamic_settings()
            defaults = {name: declared.text(declared.default) for name, declared in known.items()}
            fallback = {**defaults, **self._config.topic_defaults}
        return operated(alteration, current, known, fallback)


def resource_refusal(resource_type: int, name: str, config: ControllerConfig) -> Refusal | None:
    """Why a resource cannot have settings at all."""
    if resource_type == ResourceType.TOPIC:
        if not name:
            return Refusal(ErrorCode.INVALID_REQUEST, "there are no settings of all topics")
        reason = topic_name_error(name)
        return None if reason is None else Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if resource_type == ResourceType.BROKER:
        if name in (ALL_BROKERS, str(config.node_id)):
            return None
        return Refusal(
            ErrorCode.INVALID_REQUEST, f"broker {name!r} was asked for, this is {config.node_id}"
        )
    return Refusal(ErrorCode.INVALID_REQUEST, f"resource type {resource_type} has no settings here")


def topic_refusal(overrides: Mapping[str, str], layers: Layers) -> Refusal | None:
    """Why a topic cannot have these overrides."""
    try:
        _check_lengths(overrides)
        LogConfig.of(layers.topic_defaults(), overrides)
    except ConfigError as error:
        return Refusal(ErrorCode.INVALID_CONFIG, str(error))
    return None


def new_overrides(
    configs: Sequence[tuple[str, str | None]], layers: Layers
) -> dict[str, str] | Refusal:
    """The overrides of a new topic."""
    if nulls := sorted(name for name, value in configs if value is None):
        return Refusal(ErrorCode.INVALID_CONFIG, f"no value for {', '.join(nulls)}")
    overrides = {name: value for name, value in configs if value is not None}
    return topic_refusal(overrides, layers) or overrides


def broker_refusal(
    broker: str, settings: Mapping[str, str], image: ClusterImage, config: ControllerConfig
) -> Refusal | None:
    """Why running brokers cannot be given these settings; every topic must still be legal."""
    dynamic = dynamic_settings()
    for name in settings:
        if name not in dynamic and (name in broker_level() or name in settings_of(type(config))):
            return Refusal(
                ErrorCode.INVALID_REQUEST, f"{name} cannot be changed while the broker runs"
            )
    after = replace(image, broker_settings={**image.broker_settings, broker: settings})
    try:
        _check_lengths(settings)
        for name, value in settings.items():
            if name not in dynamic:
                raise unknown_setting(name, dynamic)
            dynamic[name].parse(value)
        layers = Layers(after, config)
        LogConfig.of(layers.topic_defaults(), {})
    except ConfigError as error:
        return Refusal(ErrorCode.INVALID_CONFIG, str(error))
    for topic in image.topics.values():
        if topic.overrides and (refusal := topic_refusal(topic.overrides, layers)):
            return replace(refusal, message=f"topic {topic.name!r}: {refusal.message}")
    return None


def _check_lengths(settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        if len(value) > MAX_VALUE_LENGTH:
            raise ConfigError(f"{name} has {len(value)} characters, {MAX_VALUE_LENGTH} are allowed")


def replaced(alteration: ConfigAlteration) -> dict[str, str] | Refusal:
    """The settings of a resource after AlterConfigs."""
    names = [name for name, _ in alteration.configs]
    if len(set(names)) != len(names):
        return Refusal(ErrorCode.INVALID_REQUEST, "a setting occurs twice")
    if nulls := [name for name, value in alteration.configs if value is None]:
        return Refusal(ErrorCode.INVALID_REQUEST, f"no value for {', '.join(nulls)}")
    return {name: value for name, value in alteration.configs if value is not None}


def operated(
    alteration: IncrementalAlteration,
    current: Mapping[str, str],
    known: Mapping[str, Setting],
    fallback: Mapping[str, str | None],
) -> dict[str, str] | Refusal:
    """The settings of a resource after IncrementalAlterConfigs.

    Lists without a value of their own are appended to, and subtracted from, as they fall back.
    """
    names = [operation.name for operation in alteration.operations]
    if len(set(names)) != len(names):
        return Refusal(ErrorCode.INVALID_REQUEST, "a setting occurs twice")
    result = dict(current)
    for name, operator, value in alteration.operations:
        if operator not in set(Operator):
            return Refusal(ErrorCode.INVALID_REQUEST, f"operation {operator} is unknown")
        if operator == Operator.DELETE:
            result.pop(name, None)
        elif value is None:
            return Refusal(ErrorCode.INVALID_REQUEST, f"no value for {name}")
        elif operator == Operator.SET:
            result[name] = value
        elif name in known and known[name].kind is Kind.LIST:
            items = _items(result.get(name, fallback.get(name)))
            result[name] = ",".join(_changed(items, Operator(operator), _items(value)))
        else:
            return Refusal(
                ErrorCode.INVALID_CONFIG,
                f"{name} is no list, so nothing can be appended to it or taken from it",
            )
    return result


def _changed(items: list[str], operator: Operator, operands: list[str]) -> list[str]:
    if operator is Operator.APPEND:
        return [*items, *(item for item in dict.fromkeys(operands) if item not in items)]
    return [item for item in items if item not in operands]


def _items(text: str | None) -> list[str]:
    return [item.strip() for item in text.split(",")] if text else []
