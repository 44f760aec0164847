"""LeaveGroup (key 13): members go."""

from ottla.broker.context import Context
from ottla.broker.groups import ask
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


async def leave_group(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse:
    """Put it to the group's coordinator."""
    return await ask(
        context,
        request.group_id,
        GroupCoordinator.leave,
        request,
        lambda error: LeaveGroupResponse(error_code=error),
    )
