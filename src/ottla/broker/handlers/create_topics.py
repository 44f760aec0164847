"""CreateTopics (key 19): create topics, or check whether they could be created."""

from typing import Final

from ottla.broker.context import Context
from ottla.cluster.controller import Controller
from ottla.cluster.image import TopicImage
from ottla.cluster.topics import NewTopic, TopicOutcome
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_FIRST_VERSION_WITH_CONFIGS: Final = 5


async def create_topics(request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    """Answer with one result for each name; a name that occurs twice is refused once."""
    outcomes = await context.node.controller.create_topics(
        [_wanted(topic) for topic in request.topics], validate_only=request.validate_only
    )
    return CreateTopicsResponse(topics=tuple(_result(outcome, context) for outcome in outcomes))


def _wanted(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(placed.partition_index, placed.broker_ids) for placed in topic.assignments],
        configs=[(config.name, config.value) for config in topic.configs],
    )


def _result(outcome: TopicOutcome, context: Context) -> CreatableTopicResult:
    topic = outcome.topic
    if topic is None:
        return CreatableTopicResult(
            name=outcome.name, error_code=outcome.error, error_message=outcome.message
        )
    has_configs = context.version >= _FIRST_VERSION_WITH_CONFIGS
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        num_partitions=len(topic.partitions),
        replication_factor=topic.replication_factor,
        configs=_configs(topic, context.node.controller) if has_configs else (),
    )


def _configs(topic: TopicImage, controller: Controller) -> tuple[CreatableTopicConfigs, ...]:
    """Every setting of the topic, those that it falls back to included (KIP-525)."""
    return tuple(
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.is_read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in sorted(
            controller.describe_overrides(topic.overrides), key=lambda entry: entry.name
        )
    )
