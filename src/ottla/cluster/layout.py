"""How an image lies in the metadata store: keys, and JSON values.

    cluster                         id, features
    brokers/<node id>               host, port, rack
    topics/<name>                   id, number of partitions
    partitions/<topic id>/<index>   leader, epochs, replicas, in-sync replicas
    configs/topic/<name>            the topic's overrides
    configs/broker/<node id>        settings given to a running broker; to all without a node id
    producer_ids                    the next one that nobody has

A partition has a key of its own, because its leader changes it without touching the topic.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ottla.cluster.image import (
    NO_SETTINGS,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from ottla.cluster.store.interface import Delete, Entry, Operation, Put
from ottla.errors import StorageError
from ottla.model import uuid_from_text, uuid_text

CLUSTER: Final = "cluster"
PRODUCER_IDS: Final = "producer_ids"
_BROKERS: Final = "brokers/"
_TOPICS: Final = "topics/"
_PARTITIONS: Final = "partitions/"
_TOPIC_CONFIGS: Final = "configs/topic/"
_BROKER_CONFIGS: Final = "configs/broker/"


def topic_key(name: str) -> str:
    """Exists as long as the topic does, and changes with its number of partitions."""
    return _TOPICS + name


def topic_config_key(name: str) -> str:
    """Exists if the topic has overrides."""
    return _TOPIC_CONFIGS + name


def broker_key(node_id: int) -> str:
    """Exists once the broker has started for the first time."""
    return f"{_BROKERS}{node_id}"


def broker_config_key(broker: str) -> str:
    """Exists if the broker, or all of them (""), were given settings while running."""
    return _BROKER_CONFIGS + broker


def partition_key(topic_id: bytes, index: int) -> str:
    """By id and not by name: a topic that is created again has other partitions."""
    return f"{_PARTITIONS}{uuid_text(topic_id)}/{index}"


def put(key: str, value: Mapping[str, Any]) -> Put:
    """Write a value."""
    return Put(key, json.dumps(value, separators=(",", ":"), sort_keys=True).encode())


def put_settings(key: str, settings: Mapping[str, str]) -> Operation:
    """Write settings; none at all are no key."""
    return put(key, settings) if settings else Delete(key)


def put_broker(broker: BrokerImage) -> Put:
    """Register a broker."""
    value = {"host": broker.host, "port": broker.port, "rack": broker.rack}
    return put(broker_key(broker.node_id), value)


def put_topic(topic: TopicImage, first_index: int = 0) -> list[Operation]:
    """Write a topic, and its partitions from `first_index` on."""
    value = {"id": uuid_text(topic.topic_id), "partitions": len(topic.partitions)}
    new = topic.partitions[first_index:]
    return [
        put(topic_key(topic.name), value),
        *(put(partition_key(topic.topic_id, p.index), _partition_value(p)) for p in new),
    ]


def delete_topic(topic: TopicImage) -> list[Operation]:
    """Delete a topic and everything that belongs to it."""
    return [
        Delete(topic_key(topic.name)),
        Delete(topic_config_key(topic.name)),
        *(Delete(partition_key(topic.topic_id, p.index)) for p in topic.partitions),
    ]


def _partition_value(partition: PartitionImage) -> dict[str, Any]:
    return {
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "replicas": partition.replicas,
        "isr": partition.isr,
    }


def read_image(entries: Iterable[Entry], controller_id: int) -> ClusterImage:
    """The image that a whole store holds; `StorageError` if it holds none."""
    stored = {entry.key: read(entry) for entry in entries}
    try:
        cluster = stored[CLUSTER]
        return ClusterImage(
            cluster_id=cluster["id"],
            controller_id=controller_id,
            brokers={
                int(name): BrokerImage(node_id=int(name), **value)
                for name, value in _under(_BROKERS, stored)
            },
            topics={name: _topic(name, value, stored) for name, value in _under(_TOPICS, stored)},
            broker_settings=dict(_under(_BROKER_CONFIGS, stored)),
            features=cluster["features"],
            next_producer_id=stored.get(PRODUCER_IDS, {}).get("next", 0),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"the metadata store is damaged: {error!r}") from error


def read(entry: Entry) -> Any:
    """The value that `put` wrote."""
    try:
        return json.loads(entry.value)
    except ValueError as error:
        raise StorageError(f"the metadata store is damaged at {entry.key}: {error}") from error


def _under(prefix: str, stored: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(k.removeprefix(prefix), value) for k, value in stored.items() if k.startswith(prefix)]


def _topic(name: str, value: Mapping[str, Any], stored: Mapping[str, Any]) -> TopicImage:
    topic_id = uuid_from_text(value["id"])
    return TopicImage(
        name=name,
        topic_id=topic_id,
        partitions=tuple(
            _partition(index, stored[partition_key(topic_id, index)])
            for index in range(value["partitions"])
        ),
        overrides=stored.get(topic_config_key(name), NO_SETTINGS),
        is_internal=TopicImage.has_internal_name(name),
    )


def _partition(index: int, value: Mapping[str, Any]) -> PartitionImage:
    return PartitionImage(
        index=index,
        leader=value["leader"],
        leader_epoch=value["leader_epoch"],
        partition_epoch=value["partition_epoch"],
        replicas=tuple(value["replicas"]),
        isr=tuple(value["isr"]),
    )
