"""ConsumerGroupDescribe (key 69): epochs, members and assignments of consumer groups."""

from functools import partial

from ottla.broker.context import Context
from ottla.broker.groups import GROUP_OPERATIONS, ask, serves_consumer_groups
from ottla.coordinator.group.consumer.telling import refused
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ottla.wire.schema import replace


async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: Context
) -> ConsumerGroupDescribeResponse:
    """Ask each group's coordinator."""
    groups: list[DescribedGroup] = []
    for group_id in dict.fromkeys(request.group_ids):
        refuse = partial(_refused, group_id)
        if not serves_consumer_groups(context):
            answer = refuse(ErrorCode.UNSUPPORTED_VERSION)
        else:
            one = replace(request, group_ids=(group_id,))
            answer = await ask(context, group_id, GroupCoordinator.consumer_describe, one, refuse)
        groups += answer.groups
    if request.include_authorized_operations:
        groups = [
            group if group.error_code else replace(group, authorized_operations=GROUP_OPERATIONS)
            for group in groups
        ]
    return ConsumerGroupDescribeResponse(groups=tuple(groups))


def _refused(group_id: str, error: ErrorCode) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=(refused(group_id, error),))
