"""Heartbeat (key 12): a member tells that it is alive."""

from ottla.broker.context import Context
from ottla.broker.groups import ask_at_once
from ottla.broker.shard import Reply
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat(request: HeartbeatRequest, context: Context) -> Reply[HeartbeatResponse]:
    """Put it to the group's coordinator."""
    return ask_at_once(
        context,
        request.group_id,
        GroupCoordinator.heartbeat,
        request,
        lambda error: HeartbeatResponse(error_code=error),
    )
