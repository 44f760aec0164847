"""CreatePartitions (key 37): give topics more partitions."""

from ottla.broker.context import Context
from ottla.cluster.topics import NewPartitions
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


async def create_partitions(
    request: CreatePartitionsRequest, context: Context
) -> CreatePartitionsResponse:
    """Answer with one result for each name, because clients wait for theirs."""
    outcomes = await context.node.controller.create_partitions(
        [_wanted(topic) for topic in request.topics], validate_only=request.validate_only
    )
    return CreatePartitionsResponse(
        results=tuple(
            CreatePartitionsTopicResult(
                name=outcome.name, error_code=outcome.error, error_message=outcome.message
            )
            for outcome in outcomes
        )
    )


def _wanted(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = topic.assignments
    return NewPartitions(
        name=topic.name,
        count=topic.count,
        assignments=None if assignments is None else [placed.broker_ids for placed in assignments],
    )
