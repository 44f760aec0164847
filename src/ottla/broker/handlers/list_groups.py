"""ListGroups (key 16): all groups that this broker coordinates."""

from ottla.broker.context import Context
from ottla.broker.groups import put
from ottla.broker.shard import UnansweredError
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.errors import ErrorCode
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


async def list_groups(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    """Ask every shard, and join the answers."""
    shards = context.node.groups.all_loaded()
    if isinstance(shards, ErrorCode):
        return ListGroupsResponse(error_code=shards, groups=())
    groups: list[ListedGroup] = []
    for shard in shards:
        try:
            answer = await put(shard, context, GroupCoordinator.list_groups, request)
        except UnansweredError as error:
            return ListGroupsResponse(error_code=error.code, groups=())
        groups += answer.groups
    return ListGroupsResponse(groups=tuple(groups))
