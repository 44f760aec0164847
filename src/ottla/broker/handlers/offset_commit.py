"""OffsetCommit (key 8): write down how far a group has come."""

from ottla.broker.context import Context
from ottla.broker.dispatch import handles
from ottla.broker.groups import ask
from ottla.coordinator.group.committing import refused_commit
from ottla.coordinator.group.machine import GroupCoordinator
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


@handles(OffsetCommitRequest, versions="2-9")
async def offset_commit(request: OffsetCommitRequest, context: Context) -> OffsetCommitResponse:
    """Put it to the group's coordinator; answered once it is durable."""
    return await ask(
        context,
        request.group_id,
        GroupCoordinator.commit,
        request,
        lambda error: refused_commit(request, error),
    )
