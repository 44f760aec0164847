"""OffsetDelete (key 47): forget committed offsets."""

from ottla.broker.context import Context
from ottla.broker.groups import ask
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


async def offset_delete(request: OffsetDeleteRequest, context: Context) -> OffsetDeleteResponse:
    """Put it to the group's coordinator."""
    return await ask(
        context,
        request.group_id,
        GroupCoordinator.offset_delete,
        request,
        lambda error: OffsetDeleteResponse(error_code=error, topics=()),
    )
