"""DescribeLogDirs (key 35): the data directory, and the size of what lies in it."""

import logging
import os
from collections.abc import Iterable

from ottla.broker.context import Context
from ottla.broker.partition import Partition
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

log = logging.getLogger(__name__)


def describe_log_dirs(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    """Describe the one directory there is.  What is not online in it, is not listed."""
    path = os.path.abspath(context.node.config.data_dir)
    try:
        disk = context.node.ports.disk
        usable_bytes, total_bytes = disk.free_bytes(), disk.total_bytes()
    except OSError as error:
        log.error("data directory unreadable: path=%s reason=%s", path, error)
        result = DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=()
        )
    else:
        result = DescribeLogDirsResult(
            log_dir=path,
            topics=_topics(_wanted(request, context)),
            total_bytes=total_bytes,
            usable_bytes=usable_bytes,
        )
    return DescribeLogDirsResponse(results=(result,))


def _wanted(request: DescribeLogDirsRequest, context: Context) -> list[Partition]:
    """The partitions asked for, each once, in the order of their topics' creation."""
    online = context.node.partitions.all()
    if request.topics is None:
        return online
    asked = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return [partition for partition in online if (partition.topic, partition.index) in asked]


def _topics(partitions: Iterable[Partition]) -> tuple[DescribeLogDirsTopic, ...]:
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=partition.log.size_bytes,
                offset_lag=0,  # the leader's own log never lags
                is_future_key=False,
            )
        )
    return tuple(
        DescribeLogDirsTopic(name=name, partitions=tuple(described))
        for name, described in by_topic.items()
    )
