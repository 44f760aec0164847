"""DescribeGroups (key 15): state, protocol and members of groups."""

from functools import partial
from typing import Final

from ottla.broker.context import Context
from ottla.broker.groups import GROUP_OPERATIONS, ask
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.schema import replace

_FIRST_VERSION_WITH_OPERATIONS: Final = 3


async def describe_groups(
    request: DescribeGroupsRequest, context: Context
) -> DescribeGroupsResponse:
    """Ask each group's coordinator."""
    groups: list[DescribedGroup] = []
    for group_id in dict.fromkeys(request.groups):
        answer = await ask(
            context,
            group_id,
            GroupCoordinator.describe,
            replace(request, groups=(group_id,)),
            partial(_refused, group_id),
        )
        groups += answer.groups
    if request.include_authorized_operations and context.version >= _FIRST_VERSION_WITH_OPERATIONS:
        groups = [replace(group, authorized_operations=GROUP_OPERATIONS) for group in groups]
    return DescribeGroupsResponse(groups=tuple(groups))


def _refused(group_id: str, error: ErrorCode) -> DescribeGroupsResponse:
    described = DescribedGroup(
        error_code=error,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=(),
    )
    return DescribeGroupsResponse(groups=(described,))
