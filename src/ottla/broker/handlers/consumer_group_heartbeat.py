"""ConsumerGroupHeartbeat (key 68): join, stay in and leave a group whose broker assigns."""

from ottla.broker.context import Context
from ottla.broker.groups import ask, serves_consumer_groups
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


async def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: Context
) -> ConsumerGroupHeartbeatResponse:
    """Put it to the group's coordinator; answered once what it changes is durable."""
    if not serves_consumer_groups(context):
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    return await ask(
        context, request.group_id, GroupCoordinator.consumer_heartbeat, request, _refused
    )


def _refused(error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error, member_epoch=0, heartbeat_interval_ms=0)
