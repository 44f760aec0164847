"""Settings of topics, brokers and groups, as the cluster keeps them.

Settings of one broker are asked of that broker; all others of anyone, who passes on what is to be
changed.  Changes are incremental: what is not named stays as it is.
"""

from collections.abc import Collection, Mapping
from typing import Final, Literal, NamedTuple

from ottla.client.admin.calling import Caller
from ottla.client.admin.outcomes import outcome_of
from ottla.client.targets import ANY, Target
from ottla.errors import ErrorCode, OttlaError, RequestError, raise_for_code
from ottla.values import dataclass
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

ConfigKind = Literal["topic", "broker", "broker_logger", "client_metrics", "group"]
ConfigValue = str | int | float | bool
BrokerName = int | Literal["all"]

_TOPIC, _BROKER, _GROUP = 2, 4, 32
_KINDS: Final = {
    "topic": _TOPIC,
    "broker": _BROKER,
    "broker_logger": 8,
    "client_metrics": 16,
    "group": _GROUP,
}
_FIRST_WITH_KINDS: Final = 1
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3
_SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "brokers",
    4: "broker's file",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting, and who set it."""

    name: str
    value: str | None
    """None if it is secret, or has no value."""
    source: str
    """topic, group, broker (this one), brokers (all), broker's file, or default."""
    is_read_only: bool
    is_sensitive: bool

    @property
    def is_default(self) -> bool:
        """Whether nobody set it for this topic, group or broker."""
        return self.source not in ("topic", "group", "broker")


class ConfigResource(NamedTuple):
    """Something that has settings, by its kind and name."""

    kind: str
    name: str


class Resource(NamedTuple):
    """What has settings."""

    kind: int
    name: str

    @classmethod
    def of(cls, topic: str | None, broker: BrokerName | None, group: str | None) -> "Resource":
        """The one of the three that is given."""
        given = [
            resource
            for resource, value in (
                (cls(_TOPIC, topic or ""), topic),
                (cls(_BROKER, "" if broker == "all" else str(broker)), broker),
                (cls(_GROUP, group or ""), group),
            )
            if value is not None
        ]
        if len(given) != 1:
            raise RequestError(
                ErrorCode.INVALID_REQUEST, "name one thing: a topic, a broker or a group"
            )
        return given[0]

    @property
    def target(self) -> Target:
        return int(self.name) if self.kind == _BROKER and self.name else ANY

    def __str__(self) -> str:
        kind = {_TOPIC: "topic", _BROKER: "broker", _GROUP: "group"}[self.kind]
        return f"{kind} {self.name!r}" if self.name else "all brokers"


async def describe_config(
    caller: Caller,
    *,
    topic: str | None = None,
    broker: BrokerName | None = None,
    group: str | None = None,
    keys: Collection[str] | None = None,
) -> dict[str, ConfigEntry]:
    """The settings of one topic, broker or group, those with default values too.

    Args:
        topic: The topic's name.
        broker: The broker's id; "all": what is set for all of them together.
        group: The group's id.
        keys: Which settings; None: all.

    Raises:
        UnknownTopicError: There is no such topic.
        NotFoundError: There is no such broker.
    """
    resource = await _found(caller, Resource.of(topic, broker, group))
    wanted = DescribeConfigsResource(
        resource_type=resource.kind,
        resource_name=resource.name,
        configuration_keys=None if keys is None else tuple(keys),
    )
    answer = await caller.call(
        DescribeConfigsRequest(resources=(wanted,)),
        DescribeConfigsResponse,
        to=resource.target,
        failure=lambda got: got.results[0].error_code,
    )
    (result,) = answer.results
    raise_for_code(result.error_code, result.error_message or str(resource))
    return _entries(result)


async def topic_configs(
    caller: Caller, names: Collection[str]
) -> dict[str, dict[str, ConfigEntry] | OttlaError]:
    """Topic -> its settings, of several topics in one request."""
    if not names:
        return {}
    answer = await caller.call(
        DescribeConfigsRequest(
            resources=tuple(
                DescribeConfigsResource(
                    resource_type=_TOPIC, resource_name=name, configuration_keys=None
                )
                for name in names
            ),
        ),
        DescribeConfigsResponse,
    )
    return {
        result.resource_name: outcome_of(
            result.error_code,
            result.error_message or f"settings of topic {result.resource_name!r}",
            _entries(result),
        )
        for result in answer.results
    }


async def alter_config(
    caller: Caller,
    *,
    topic: str | None = None,
    broker: BrokerName | None = None,
    group: str | None = None,
    set: Mapping[str, ConfigValue] | None = None,  # noqa: A002  # it is what one does to a setting
    unset: Collection[str] = (),
    append: Mapping[str, ConfigValue] | None = None,
    subtract: Mapping[str, ConfigValue] | None = None,
    dry_run: bool = False,
) -> None:
    """Change some settings of one topic, broker or group, and leave the others alone.

    Args:
        topic: The topic's name.
        broker: The broker's id; "all": for all brokers that have no value of their own.
        group: The group's id.
        set: Settings -> their new values.
        unset: Settings that get their defaults back.
        append: Settings that are lists -> what to add.
        subtract: Settings that are lists -> what to take away.
        dry_run: Only find out whether it would be accepted.

    Raises:
        RequestError: A setting is unknown, or its value is not allowed.
        UnknownTopicError: There is no such topic.
        NotFoundError: There is no such broker.
    """
    resource = await _found(caller, Resource.of(topic, broker, group))
    operations = [(name, _SET, text_of(value)) for name, value in (set or {}).items()]
    operations += [(name, _APPEND, text_of(value)) for name, value in (append or {}).items()]
    operations += [(name, _SUBTRACT, text_of(value)) for name, value in (subtract or {}).items()]
    changed = AlterConfigsResource(
        resource_type=resource.kind,
        resource_name=resource.name,
        configs=(
            *(AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in operations),
            *(AlterableConfig(name=n, config_operation=_DELETE, value=None) for n in unset),
        ),
    )
    answer = await caller.call(
        IncrementalAlterConfigsRequest(resources=(changed,), validate_only=dry_run),
        IncrementalAlterConfigsResponse,
        to=resource.target,
        failure=lambda got: got.responses[0].error_code,
    )
    (result,) = answer.responses
    raise_for_code(result.error_code, result.error_message or str(resource))


async def list_config_resources(
    caller: Caller, *, kinds: Collection[ConfigKind] = ()
) -> list[ConfigResource]:
    """What has settings: every topic, every broker, every group that was given some, ...

    Args:
        kinds: Only of these; none: of all.
    """
    answer = await caller.call(
        ListConfigResourcesRequest(resource_types=tuple(_KINDS[kind] for kind in kinds)),
        ListConfigResourcesResponse,
        min_version=_FIRST_WITH_KINDS,
    )
    raise_for_code(answer.error_code, "listing what has settings")
    names = {number: kind for kind, number in _KINDS.items()}
    return sorted(
        ConfigResource(
            names.get(told.resource_type, f"unknown ({told.resource_type})"), told.resource_name
        )
        for told in answer.config_resources
    )


async def _found(caller: Caller, resource: Resource) -> Resource:
    if isinstance(resource.target, int):
        await caller.check_brokers([resource.target])
    return resource


def text_of(value: ConfigValue) -> str:
    """A value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _entries(result: DescribeConfigsResult) -> dict[str, ConfigEntry]:
    return {told.name: _entry(told) for told in sorted(result.configs, key=lambda told: told.name)}


def _entry(told: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=told.name,
        value=told.value,
        source=_SOURCES.get(told.config_source, "unknown"),
        is_read_only=told.read_only,
        is_sensitive=told.is_sensitive,
    )
