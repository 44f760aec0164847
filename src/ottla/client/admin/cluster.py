"""The cluster itself: its brokers and controller, the features it has, what is on their disks."""

from collections.abc import Collection, Mapping
from typing import Final

from ottla.client.admin.calling import Caller
from ottla.client.admin.outcomes import outcome_of
from ottla.client.targets import CONTROLLER
from ottla.errors import OttlaError, raise_for_code
from ottla.model import TopicPartition
from ottla.values import dataclass
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_FIRST_WITH_FENCED: Final = 2
_FIRST_WITH_FEATURES: Final = 3
_FIRST_WITH_DRY_RUN: Final = 1
_SOFTWARE: Final = "ottla"
_UPGRADE, _SAFE_DOWNGRADE = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """A broker, and where it listens."""

    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool
    """Whether the controller has not heard of it for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    """Which brokers make up the cluster."""

    cluster_id: str
    controller: int | None
    """Whom to ask for changes; None while there is nobody."""
    brokers: tuple[BrokerInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureInfo:
    """A feature: the levels that brokers support, and the one that the cluster has agreed on."""

    name: str
    min_level: int
    max_level: int
    finalized: int | None
    """None: it is not in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInfo:
    """A partition in a folder of a broker."""

    size_bytes: int
    offset_lag: int
    """How far it is behind the leader, or behind the folder that it moves from."""
    is_moving_here: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirInfo:
    """A folder in which a broker keeps partitions."""

    path: str
    error: OttlaError | None
    """Why it cannot be used."""
    total_bytes: int | None
    """Of the volume that it is on; None where the broker does not tell."""
    usable_bytes: int | None
    replicas: Mapping[TopicPartition, ReplicaInfo]


async def describe_cluster(caller: Caller, *, include_fenced: bool = False) -> ClusterInfo:
    """The cluster's id, its brokers and its controller.

    Args:
        include_fenced: Also tell of brokers that are registered but out of reach.
    """
    answer = await caller.call(
        DescribeClusterRequest(
            include_cluster_authorized_operations=False, include_fenced_brokers=include_fenced
        ),
        DescribeClusterResponse,
        min_version=_FIRST_WITH_FENCED if include_fenced else None,
    )
    raise_for_code(answer.error_code, answer.error_message or "describing the cluster")
    return ClusterInfo(
        cluster_id=answer.cluster_id,
        controller=answer.controller_id if answer.controller_id >= 0 else None,
        brokers=tuple(
            BrokerInfo(
                id=told.broker_id,
                host=told.host,
                port=told.port,
                rack=told.rack,
                is_fenced=told.is_fenced,
            )
            for told in sorted(answer.brokers, key=lambda told: told.broker_id)
        ),
    )


async def describe_features(caller: Caller) -> dict[str, FeatureInfo]:
    """The features of the cluster, `transaction.version` say, by name."""
    answer = await caller.call(
        ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version="1"),
        ApiVersionsResponse,
        min_version=_FIRST_WITH_FEATURES,
    )
    raise_for_code(answer.error_code, "features")
    finalized = {told.name: told.max_version_level for told in answer.finalized_features}
    return {
        told.name: FeatureInfo(
            name=told.name,
            min_level=told.min_version,
            max_level=told.max_version,
            finalized=finalized.get(told.name),
        )
        for told in sorted(answer.supported_features, key=lambda told: told.name)
    }


async def update_features(
    caller: Caller,
    levels: Mapping[str, int],
    *,
    allow_downgrade: bool = False,
    dry_run: bool = False,
) -> None:
    """Let the cluster agree on other levels of features.

    Args:
        levels: Feature -> its new level; 0: not in use any more.
        allow_downgrade: Whether a level may be lower than now, if no metadata is lost by it.
        dry_run: Only find out whether it would be accepted.

    Raises:
        UnsupportedError: The broker cannot change features; Ottla's cannot.
        BrokerError: The controller refuses; nothing has changed.
    """
    kind = _SAFE_DOWNGRADE if allow_downgrade else _UPGRADE
    answer = await caller.call(
        UpdateFeaturesRequest(
            timeout_ms=caller.answer_ms,
            feature_updates=tuple(
                FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
                for name, level in levels.items()
            ),
            validate_only=dry_run,
        ),
        UpdateFeaturesResponse,
        to=CONTROLLER,
        min_version=_FIRST_WITH_DRY_RUN,
    )
    raise_for_code(answer.error_code, answer.error_message or "features")
    for result in answer.results:
        raise_for_code(result.error_code, result.error_message or f"feature {result.feature!r}")


async def describe_log_dirs(
    caller: Caller, brokers: Collection[int] | None = None
) -> dict[int, tuple[LogDirInfo, ...]]:
    """Broker -> its folders, what is in them, and how large it is.

    Args:
        brokers: Whose; None: those of all that are alive.

    Raises:
        NotFoundError: There is no such broker.
    """
    answers = await caller.ask_nodes(
        DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, brokers
    )
    found: dict[int, tuple[LogDirInfo, ...]] = {}
    for node_id, answer in answers.items():
        raise_for_code(answer.error_code, f"log directories of broker {node_id}")
        found[node_id] = tuple(_log_dir(told) for told in answer.results)
    return found


def _log_dir(told: DescribeLogDirsResult) -> LogDirInfo:
    outcome = outcome_of(told.error_code, told.log_dir, None)
    return LogDirInfo(
        path=told.log_dir,
        error=outcome,
        total_bytes=told.total_bytes if told.total_bytes >= 0 else None,
        usable_bytes=told.usable_bytes if told.usable_bytes >= 0 else None,
        replicas={
            TopicPartition(topic.name, partition.partition_index): ReplicaInfo(
                size_bytes=partition.partition_size,
                offset_lag=partition.offset_lag,
                is_moving_here=partition.is_future_key,
            )
            for topic in told.topics
            for partition in topic.partitions
        },
    )
