"""AlterReplicaLogDirs (key 34): move replicas to another directory of the same broker.

There is one directory, so a replica is where it should be, or the directory is unknown.
"""

import os

from ottla.broker.context import Context
from ottla.errors import ErrorCode
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, context: Context
) -> AlterReplicaLogDirsResponse:
    """Answer with one result for each partition; of several directories the last one counts."""
    wanted: dict[str, dict[int, str]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                wanted.setdefault(topic.name, {})[index] = directory.path
    return AlterReplicaLogDirsResponse(
        results=tuple(
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=tuple(
                    AlterReplicaLogDirPartitionResult(
                        partition_index=index, error_code=_error(name, index, path, context)
                    )
                    for index, path in paths.items()
                ),
            )
            for name, paths in wanted.items()
        )
    )


def _error(topic: str, index: int, path: str, context: Context) -> ErrorCode:
    if path != os.path.abspath(context.node.config.data_dir):
        return ErrorCode.LOG_DIR_NOT_FOUND
    found = context.node.partitions.find(topic, index)
    return found if isinstance(found, ErrorCode) else ErrorCode.NONE
