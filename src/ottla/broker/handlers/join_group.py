"""JoinGroup (key 11): enter a group, and wait for its next generation."""

from ottla.broker.context import Context
from ottla.broker.groups import ask
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


async def join_group(request: JoinGroupRequest, context: Context) -> JoinGroupResponse:
    """Put it to the group's coordinator."""
    return await ask(
        context,
        request.group_id,
        GroupCoordinator.join,
        request,
        lambda error: _refused(request, error),
    )


def _refused(request: JoinGroupRequest, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error, protocol_name="", leader="", member_id=request.member_id, members=()
    )
