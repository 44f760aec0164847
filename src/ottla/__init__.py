"""Kafka's little sister: a streaming log that speaks the Apache Kafka protocol.

    with ottla.Broker() as broker, ottla.Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders", partitions=6)

Names are imported when they are first used, so importing this package stays free of heavy imports:
no asyncio, click, pyarrow or compression wheels.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ottla.broker.embedded import Broker
    from ottla.client.admin.acls import Acl, AclFilter
    from ottla.client.admin.admin import Admin, AsyncAdmin
    from ottla.client.admin.cluster import (
        BrokerInfo,
        ClusterInfo,
        FeatureInfo,
        LogDirInfo,
        ReplicaInfo,
    )
    from ottla.client.admin.configs import ConfigEntry, ConfigResource
    from ottla.client.admin.groups import GroupInfo, GroupListing, GroupMember
    from ottla.client.admin.lag import GroupLag, PartitionLag
    from ottla.client.admin.outcomes import Results
    from ottla.client.admin.quotas import Quota
    from ottla.client.admin.replicas import Reassignment
    from ottla.client.admin.resets import OffsetChange
    from ottla.client.admin.scram import ScramCredential
    from ottla.client.admin.stories import AwaitedMember, GroupStory, Rebalance
    from ottla.client.admin.topics import PartitionInfo, TopicInfo
    from ottla.client.admin.transactions import (
        HangingTransaction,
        ProducerIdentity,
        ProducerInfo,
        TransactionInfo,
        TransactionListing,
    )
    from ottla.client.consumer.assignors import Assignor, Member
    from ottla.client.consumer.asynchronous import AsyncConsumer
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.consumer.plugs import ConsumerInterceptor, OffsetStore, RebalanceListener
    from ottla.client.headers import Headers, HeadersLike
    from ottla.client.producer.asynchronous import AsyncProducer, AsyncTransaction
    from ottla.client.producer.config import Partitioner
    from ottla.client.producer.outgoing import (
        ProducerInterceptor,
        ProducerRecord,
        SendingRows,
        SentBatch,
    )
    from ottla.client.producer.partitioners import murmur2
    from ottla.client.producer.producer import Producer, Transaction
    from ottla.client.records import (
        Batch,
        Commitable,
        GroupMetadata,
        OffsetAndMetadata,
        Offsets,
        Record,
    )
    from ottla.client.results import RecordMetadata
    from ottla.client.serdes import BYTES, JSON, UTF8, SerContext, Serde, avro, pydantic
    from ottla.errors import (
        AbortableError,
        BrokerError,
        ClosedError,
        CommitFailedError,
        ConfigError,
        ConnectError,
        DeadlineError,
        DeliveryError,
        DeliveryErrors,
        DeniedError,
        ErrorCode,
        FencedError,
        MisuseError,
        OttlaError,
        PositionError,
        ProducerFencedError,
        RejoinError,
        RequestError,
        SerializationError,
        TransportError,
        UnknownTopicError,
    )
    from ottla.model import TopicPartition
    from ottla.records.batch import TimestampType

__all__ = [
    "BYTES",
    "JSON",
    "UTF8",
    "AbortableError",
    "Acl",
    "AclFilter",
    "Admin",
    "Assignor",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncTransaction",
    "AwaitedMember",
    "Batch",
    "Broker",
    "BrokerError",
    "BrokerInfo",
    "ClosedError",
    "ClusterInfo",
    "CommitFailedError",
    "Commitable",
    "ConfigEntry",
    "ConfigError",
    "ConfigResource",
    "ConnectError",
    "Consumer",
    "ConsumerInterceptor",
    "DeadlineError",
    "DeliveryError",
    "DeliveryErrors",
    "DeniedError",
    "ErrorCode",
    "FeatureInfo",
    "FencedError",
    "GroupInfo",
    "GroupLag",
    "GroupListing",
    "GroupMember",
    "GroupMetadata",
    "GroupStory",
    "HangingTransaction",
    "Headers",
    "HeadersLike",
    "LogDirInfo",
    "Member",
    "MisuseError",
    "OffsetAndMetadata",
    "OffsetChange",
    "OffsetStore",
    "Offsets",
    "OttlaError",
    "PartitionInfo",
    "PartitionLag",
    "Partitioner",
    "PositionError",
    "Producer",
    "ProducerFencedError",
    "ProducerIdentity",
    "ProducerInfo",
    "ProducerInterceptor",
    "ProducerRecord",
    "Quota",
    "Reassignment",
    "Rebalance",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "RejoinError",
    "ReplicaInfo",
    "RequestError",
    "Results",
    "ScramCredential",
    "SendingRows",
    "SentBatch",
    "SerContext",
    "Serde",
    "SerializationError",
    "TimestampType",
    "TopicInfo",
    "TopicPartition",
    "Transaction",
    "TransactionInfo",
    "TransactionListing",
    "TransportError",
    "UnknownTopicError",
    "__version__",
    "avro",
    "murmur2",
    "pydantic",
]

__version__ = "0.1.0.dev0"

_HOMES: Final = {
    "AbortableError": "ottla.errors",
    "Acl": "ottla.client.admin.acls",
    "AclFilter": "ottla.client.admin.acls",
    "Admin": "ottla.client.admin.admin",
    "Assignor": "ottla.client.consumer.assignors",
    "AsyncAdmin": "ottla.client.admin.admin",
    "AsyncConsumer": "ottla.client.consumer.asynchronous",
    "AsyncProducer": "ottla.client.producer.asynchronous",
    "AsyncTransaction": "ottla.client.producer.asynchronous",
    "BYTES": "ottla.client.serdes",
    "AwaitedMember": "ottla.client.admin.stories",
    "Batch": "ottla.client.records",
    "Broker": "ottla.broker.embedded",
    "BrokerError": "ottla.errors",
    "BrokerInfo": "ottla.client.admin.cluster",
    "ClosedError": "ottla.errors",
    "ClusterInfo": "ottla.client.admin.cluster",
    "CommitFailedError": "ottla.errors",
    "Commitable": "ottla.client.records",
    "ConfigEntry": "ottla.client.admin.configs",
    "ConfigResource": "ottla.client.admin.configs",
    "ConfigError": "ottla.errors",
    "ConnectError": "ottla.errors",
    "Consumer": "ottla.client.consumer.consumer",
    "ConsumerInterceptor": "ottla.client.consumer.plugs",
    "DeadlineError": "ottla.errors",
    "DeliveryError": "ottla.errors",
    "DeliveryErrors": "ottla.errors",
    "DeniedError": "ottla.errors",
    "ErrorCode": "ottla.errors",
    "FeatureInfo": "ottla.client.admin.cluster",
    "FencedError": "ottla.errors",
    "GroupInfo": "ottla.client.admin.groups",
    "GroupLag": "ottla.client.admin.lag",
    "GroupListing": "ottla.client.admin.groups",
    "GroupMember": "ottla.client.admin.groups",
    "GroupMetadata": "ottla.client.records",
    "GroupStory": "ottla.client.admin.stories",
    "HangingTransaction": "ottla.client.admin.transactions",
    "Headers": "ottla.client.headers",
    "HeadersLike": "ottla.client.headers",
    "JSON": "ottla.client.serdes",
    "LogDirInfo": "ottla.client.admin.cluster",
    "Member": "ottla.client.consumer.assignors",
    "MisuseError": "ottla.errors",
    "OffsetAndMetadata": "ottla.client.records",
    "OffsetChange": "ottla.client.admin.resets",
    "OffsetStore": "ottla.client.consumer.plugs",
    "Offsets": "ottla.client.records",
    "OttlaError": "ottla.errors",
    "PartitionInfo": "ottla.client.admin.topics",
    "PartitionLag": "ottla.client.admin.lag",
    "Partitioner": "ottla.client.producer.config",
    "PositionError": "ottla.errors",
    "Producer": "ottla.client.producer.producer",
    "ProducerFencedError": "ottla.errors",
    "ProducerIdentity": "ottla.client.admin.transactions",
    "ProducerInfo": "ottla.client.admin.transactions",
    "ProducerInterceptor": "ottla.client.producer.outgoing",
    "ProducerRecord": "ottla.client.producer.outgoing",
    "Quota": "ottla.client.admin.quotas",
    "Reassignment": "ottla.client.admin.replicas",
    "Rebalance": "ottla.client.admin.stories",
    "RebalanceListener": "ottla.client.consumer.plugs",
    "Record": "ottla.client.records",
    "RecordMetadata": "ottla.client.results",
    "RejoinError": "ottla.errors",
    "ReplicaInfo": "ottla.client.admin.cluster",
    "RequestError": "ottla.errors",
    "Results": "ottla.client.admin.outcomes",
    "ScramCredential": "ottla.client.admin.scram",
    "SendingRows": "ottla.client.producer.outgoing",
    "SentBatch": "ottla.client.producer.outgoing",
    "SerContext": "ottla.client.serdes",
    "Serde": "ottla.client.serdes",
    "SerializationError": "ottla.errors",
    "TimestampType": "ottla.records.batch",
    "TopicInfo": "ottla.client.admin.topics",
    "TopicPartition": "ottla.model",
    "Transaction": "ottla.client.producer.producer",
    "TransactionInfo": "ottla.client.admin.transactions",
    "TransactionListing": "ottla.client.admin.transactions",
    "TransportError": "ottla.errors",
    "UTF8": "ottla.client.serdes",
    "UnknownTopicError": "ottla.errors",
    "avro": "ottla.client.serdes",
    "murmur2": "ottla.client.producer.partitioners",
    "pydantic": "ottla.client.serdes",
}


def __getattr__(name: str) -> Any:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    found = getattr(import_module(home), name)
    globals()[name] = found
    return found
