"""FindCoordinator (key 10): who looks after a group, or after a transactional id."""

from enum import IntEnum
from typing import Final

from ottla.broker.context import Context
from ottla.errors import ErrorCode
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_FIRST_BATCHED_VERSION: Final = 4


class KeyType(IntEnum):
    """What a coordinator is looked up for."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


async def find_coordinator(
    request: FindCoordinatorRequest, context: Context
) -> FindCoordinatorResponse:
    """Answer for each key; the first of its kind brings the coordinators' topic into being."""
    is_batched = context.version >= _FIRST_BATCHED_VERSION
    keys = request.coordinator_keys if is_batched else (request.key,)
    if any(keys):
        if request.key_type == KeyType.GROUP:
            await context.node.groups.ensure_topic()
        elif request.key_type == KeyType.TRANSACTION:
            await context.node.transactions.ensure_topic()
    found = tuple(_coordinator(request.key_type, key, context) for key in keys)
    if is_batched:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _coordinator(key_type: int, key: str, context: Context) -> Coordinator:
    if key_type in (KeyType.GROUP, KeyType.TRANSACTION) and key:
        image = context.node.controller.image
        me = image.brokers[context.node.config.node_id]
        return Coordinator(key=key, node_id=me.node_id, host=me.host, port=me.port)
    if key_type == KeyType.GROUP:
        return _none(key, ErrorCode.INVALID_GROUP_ID, "the group needs a name")
    if key_type == KeyType.TRANSACTION:
        return _none(key, ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if key_type == KeyType.SHARE:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker has no share groups")
    return _none(key, ErrorCode.INVALID_REQUEST, f"key type {key_type} is not known")


def _none(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message
    )
