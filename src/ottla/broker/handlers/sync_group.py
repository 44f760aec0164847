"""SyncGroup (key 14): the leader brings the assignment, everyone gets theirs."""

from ottla.broker.context import Context
from ottla.broker.groups import ask
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


async def sync_group(request: SyncGroupRequest, context: Context) -> SyncGroupResponse:
    """Put it to the group's coordinator."""
    return await ask(
        context,
        request.group_id,
        GroupCoordinator.sync,
        request,
        lambda error: SyncGroupResponse(error_code=error, assignment=b""),
    )
