"""Who leads partitions and who has copies of them, and in which folder: elections and moves."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ottla.client.admin.calling import Caller, passing_error
from ottla.client.admin.outcomes import all_or_raise, outcome_of
from ottla.client.admin.positions import by_topic
from ottla.client.targets import CONTROLLER
from ottla.errors import ErrorCode, OttlaError, raise_for_code
from ottla.model import TopicPartition
from ottla.values import dataclass
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

_PREFERRED, _UNCLEAN = 0, 1
_FIRST_WITH_UNCLEAN: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition on its way to other brokers."""

    replicas: tuple[int, ...]
    """Who has it now, newcomers included."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]


async def elect_leaders(
    caller: Caller,
    partitions: Collection[TopicPartition] | None = None,
    *,
    unclean: bool = False,
) -> list[TopicPartition]:
    """Let partitions be led by whom they should be led.

    Args:
        partitions: Which; None: all.
        unclean: Where nobody leads, take a broker that is not up to date.  Records get lost!

    Returns:
        Those that have a new leader; for the others none was needed.

    Raises:
        RefreshError: The one who should lead a partition is not there.
        UnknownTopicError: There is no such partition.
    """
    wanted = None
    if partitions is not None:
        wanted = tuple(
            TopicPartitions(topic=name, partitions=indexes)
            for name, indexes in by_topic(partitions, lambda tp: tp.partition).items()
        )
    answer = await caller.call(
        ElectLeadersRequest(
            election_type=_UNCLEAN if unclean else _PREFERRED,
            topic_partitions=wanted,
            timeout_ms=caller.answer_ms,
        ),
        ElectLeadersResponse,
        to=CONTROLLER,
        failure=lambda got: (
            got.error_code if got.error_code == ErrorCode.NOT_CONTROLLER else ErrorCode.NONE
        ),
        min_version=_FIRST_WITH_UNCLEAN if unclean else None,
    )
    raise_for_code(answer.error_code, "electing leaders")
    outcomes: dict[TopicPartition, bool | OttlaError] = {}
    for topic in answer.replica_election_results:
        for told in topic.partition_result:
            tp = TopicPartition(topic.topic, told.partition_id)
            if told.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                detail = told.error_message or f"partition {tp}"
                outcomes[tp] = outcome_of(told.error_code, detail, True)
    return sorted(all_or_raise(outcomes))


async def list_reassignments(
    caller: Caller, partitions: Collection[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """The partitions that are on their way to other brokers; None: look at all."""
    wanted = None
    if partitions is not None:
        wanted = tuple(
            ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(partitions, lambda tp: tp.partition).items()
        )
    answer = await caller.call(
        ListPartitionReassignmentsRequest(timeout_ms=caller.answer_ms, topics=wanted),
        ListPartitionReassignmentsResponse,
        to=CONTROLLER,
    )
    raise_for_code(answer.error_code, answer.error_message or "listing reassignments")
    return {
        TopicPartition(topic.name, told.partition_index): Reassignment(
            replicas=tuple(told.replicas),
            adding=tuple(told.adding_replicas),
            removing=tuple(told.removing_replicas),
        )
        for topic in answer.topics
        for told in topic.partitions
    }


async def reassign_partitions(
    caller: Caller, replicas: Mapping[TopicPartition, Sequence[int] | None]
) -> None:
    """Begin to move partitions to other brokers; `list_reassignments` says how far it came.

    Args:
        replicas: Partition -> the brokers that shall have it, first its preferred leader; None:
            stop a move that is under way.

    Raises:
        RequestError: A broker is not there, or named twice.
        ConflictError: There is no move to stop.
        UnknownTopicError: There is no such partition.
    """

    def wanted(tp: TopicPartition) -> ReassignablePartition:
        brokers = replicas[tp]
        return ReassignablePartition(
            partition_index=tp.partition, replicas=None if brokers is None else tuple(brokers)
        )

    answer = await caller.call(
        AlterPartitionReassignmentsRequest(
            timeout_ms=caller.answer_ms,
            topics=tuple(
                ReassignableTopic(name=name, partitions=partitions)
                for name, partitions in by_topic(replicas, wanted).items()
            ),
        ),
        AlterPartitionReassignmentsResponse,
        to=CONTROLLER,
        failure=lambda got: passing_error(
            [
                got.error_code,
                *(told.error_code for topic in got.responses for told in topic.partitions),
            ]
        ),
    )
    raise_for_code(answer.error_code, answer.error_message or "reassigning partitions")
    outcomes: dict[TopicPartition, bool | OttlaError] = {}
    for topic in answer.responses:
        for told in topic.partitions:
            tp = TopicPartition(topic.name, told.partition_index)
            detail = told.error_message or f"partition {tp}"
            outcomes[tp] = outcome_of(told.error_code, detail, True)
    all_or_raise(outcomes)


async def move_replicas(caller: Caller, broker: int, folders: Mapping[TopicPartition, str]) -> None:
    """Begin to move partitions of one broker to other folders of it.

    A partition that the broker does not have yet is put there when it comes.

    Args:
        broker: The broker's id.
        folders: Partition -> one of its log directories, as `describe_log_dirs` names it.

    Raises:
        NotFoundError: There is no such broker, or it has no such folder.
        UnknownTopicError: There is no such partition.
    """
    await caller.check_brokers([broker])
    by_folder: dict[str, list[TopicPartition]] = {}
    for tp, folder in folders.items():
        by_folder.setdefault(folder, []).append(tp)
    answer = await caller.call(
        AlterReplicaLogDirsRequest(
            dirs=tuple(
                AlterReplicaLogDir(
                    path=folder,
                    topics=tuple(
                        AlterReplicaLogDirTopic(name=name, partitions=indexes)
                        for name, indexes in by_topic(moved, lambda tp: tp.partition).items()
                    ),
                )
                for folder, moved in by_folder.items()
            )
        ),
        AlterReplicaLogDirsResponse,
        to=broker,
        failure=lambda got: passing_error(
            told.error_code for topic in got.results for told in topic.partitions
        ),
    )
    outcomes: dict[TopicPartition, bool | OttlaError] = {}
    for topic in answer.results:
        for told in topic.partitions:
            tp = TopicPartition(topic.topic_name, told.partition_index)
            detail = f"partition {tp} to {folders.get(tp)}"
            outcomes[tp] = outcome_of(told.error_code, detail, True)
    all_or_raise(outcomes)
