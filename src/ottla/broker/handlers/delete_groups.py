"""DeleteGroups (key 42): forget groups without members, and their offsets."""

from functools import partial

from ottla.broker.context import Context
from ottla.broker.groups import ask
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.errors import ErrorCode
from ottla.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def delete_groups(request: DeleteGroupsRequest, context: Context) -> DeleteGroupsResponse:
    """Ask each group's coordinator."""
    results: list[DeletableGroupResult] = []
    for group_id in dict.fromkeys(request.groups_names):
        answer = await ask(
            context,
            group_id,
            GroupCoordinator.delete_groups,
            DeleteGroupsRequest(groups_names=(group_id,)),
            partial(_refused, group_id),
        )
        results += answer.results
    return DeleteGroupsResponse(results=tuple(results))


def _refused(group_id: str, error: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=(DeletableGroupResult(group_id=group_id, error_code=error),)
    )
