"""Topics that come into being by being asked for."""

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.context import Node


async def create_missing(node: "Node", names: list[str]) -> dict[str, ErrorCode]:
    """Create topics with the broker's defaults; return those that were refused, and why.

    A topic that somebody else created meanwhile is not refused.
    """
    from ottla.cluster.topics import NewTopic  # here, because most topics are there

    outcomes = await node.controller.create_topics(
        [NewTopic(name=name) for name in names], validate_only=False
    )
    return {
        outcome.name: outcome.error
        for outcome in outcomes
        if outcome.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    }
