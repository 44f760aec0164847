"""The controller: the one who changes what the cluster consists of.

A request is decided on the current image, written through the store in one transaction, and then
applied to the image; subscribers hear of it before the request is answered.  Nothing is applied
that is not durable.  A transaction checks that the keys it depends on are as the image has them; if
somebody else wrote them, the image is read again and the request decided anew.

Errors are values: every topic and resource of a request has its own outcome.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

from ottla.cluster import layout
from ottla.cluster.changes import (
    BrokerConfigChanged,
    BrokerRegistered,
    Change,
    ProducerIdsAllocated,
    TopicConfigChanged,
    TopicDeleted,
    applied,
    differences,
)
from ottla.cluster.configs import ALL_BROKERS, ControllerConfig, Layers, ResourceType
from ottla.cluster.decision import Decision, OutcomeT, Refusal, unknown_topic
from ottla.cluster.image import BrokerImage, ClusterImage
from ottla.cluster.store.interface import ABSENT, MetadataStore, Put, Unchanged
from ottla.errors import ConfigError, ErrorCode, StorageError
from ottla.log.config import LogConfig
from ottla.model import uuid_text
from ottla.ports import Entropy

if TYPE_CHECKING:
    from ottla.cluster.alterations import ConfigAlteration, ConfigOutcome, IncrementalAlteration
    from ottla.cluster.configs import ConfigEntry
    from ottla.cluster.topics import NewPartitions, NewTopic, TopicOutcome

log = logging.getLogger(__name__)

PRODUCER_ID_BLOCK: Final = 1_000
_MAX_ATTEMPTS: Final = 5
_CONFLICT: Final = Refusal(ErrorCode.NOT_CONTROLLER, "somebody else keeps changing the metadata")


class Controller:
    """Make it with `open`, and call it from one event loop."""

    def __init__(
        self, store: MetadataStore, *, node_id: int, config: ControllerConfig, entropy: Entropy
    ) -> None:
        self._store = store
        self._node_id = node_id
        self._config = config
        self._entropy = entropy
        self._image: ClusterImage | None = None
        self._revisions: dict[str, int] = {}
        self._subscribers: list[Callable[[Change], None]] = []
        self._topic_configs: dict[str, LogConfig] = {}
        self._configs_by_overrides: dict[frozenset[tuple[str, str]], LogConfig] = {}

    @classmethod
    async def open(
        cls, store: MetadataStore, *, node_id: int, config: ControllerConfig, entropy: Entropy
    ) -> Self:
        """Read the store, founding the cluster if it is empty.

        Raises:
            ConfigError: The metadata belongs to another node, or a topic's overrides contradict
                the broker's settings.
            StorageError: The store cannot be read or written.
        """
        controller = cls(store, node_id=node_id, config=config, entropy=entropy)
        await controller._found()
        await controller._reload()
        controller._check()
        return controller

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        assert self._image is not None, "a controller is made with open"
        return self._image

    def subscribe(self, callback: Callable[[Change], None]) -> None:
        """Call `callback` after each change, when it is durable and in the image."""
        self._subscribers.append(callback)

    async def register(self, broker: BrokerImage) -> None:
        """Tell clients of a broker, or of its new address; partitions are placed on it then."""
        if self.image.brokers.get(broker.node_id) != broker:
            await self._insist(lambda: _registration(broker))

    async def create_topics(
        self, topics: "Sequence[NewTopic]", validate_only: bool = False
    ) -> "list[TopicOutcome]":
        """Create what can be created; one outcome for each name."""
        from ottla.cluster import topic_requests  # here, as below: a broker starts without

        return await self._carry_out(
            lambda: topic_requests.Creator(self.image, self._config, self._entropy).create(topics),
            validate_only,
        )

    async def delete_topics(self, names: Sequence[str]) -> "list[TopicOutcome]":
        """Delete what exists; one outcome for each name."""
        from ottla.cluster import topic_requests

        return await self._carry_out(
            lambda: topic_requests.delete(names, self.image, self._config), False
        )

    async def create_partitions(
        self, wanted: "Sequence[NewPartitions]", validate_only: bool = False
    ) -> "list[TopicOutcome]":
        """Add partitions to topics; one outcome for each name."""
        from ottla.cluster import topic_requests

        return await self._carry_out(
            lambda: topic_requests.grow(wanted, self.image, self._entropy), validate_only
        )

    async def alter_configs(
        self, alterations: "Sequence[ConfigAlteration]", validate_only: bool = False
    ) -> "list[ConfigOutcome]":
        """Replace all settings of some resources; one outcome for each, in order."""
        from ottla.cluster.alterations import Alterer

        return await self._carry_out(
            lambda: Alterer(self.image, self._config).replace_all(alterations), validate_only
        )

    async def incremental_alter_configs(
        self, alterations: "Sequence[IncrementalAlteration]", validate_only: bool = False
    ) -> "list[ConfigOutcome]":
        """Change some settings of some resources; one outcome for each, in order."""
        from ottla.cluster.alterations import Alterer

        return await self._carry_out(
            lambda: Alterer(self.image, self._config).operate(alterations), validate_only
        )

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids that nobody ever had; `StorageError` if none can be had."""
        await self._insist(self._producer_id_block)
        stop = self.image.next_producer_id
        return range(stop - PRODUCER_ID_BLOCK, stop)

    def topic_config(self, name: str) -> LogConfig:
        """The settings of a topic; `KeyError` if there is none of this name."""
        found = self._topic_configs.get(name)
        if found is None:
            # Topics with equal overrides share one config: most have none.
            overrides = self.image.topics[name].overrides
            key = frozenset(overrides.items())
            found = self._configs_by_overrides.get(key)
            if found is None:
                found = LogConfig.of(self._layers().topic_defaults(), overrides)
                self._configs_by_overrides[key] = found
            self._topic_configs[name] = found
        return found

    def describe_config(
        self,
        resource_type: int,
        name: str,
        keys: Sequence[str] | None = None,
        *,
        with_documentation: bool = False,
    ) -> "list[ConfigEntry] | Refusal":
        """All settings of a resource, or those of them that `keys` names."""
        from ottla.cluster.alterations import resource_refusal

        if refusal := resource_refusal(resource_type, name, self._config):
            return refusal
        layers = self._layers()
        if resource_type == ResourceType.TOPIC:
            if name not in self.image.topics:
                return unknown_topic(name)
            overrides = self.image.topics[name].overrides
            entries = layers.topic_entries(overrides, with_documentation=with_documentation)
        elif name == ALL_BROKERS:
            entries = layers.shared_entries(with_documentation=with_documentation)
        else:
            entries = layers.broker_entries(with_documentation=with_documentation)
        return entries if keys is None else [entry for entry in entries if entry.name in keys]

    def describe_overrides(self, overrides: Mapping[str, str]) -> "list[ConfigEntry]":
        """All settings that a topic with these overrides has, or would have."""
        return self._layers().topic_entries(overrides, with_documentation=False)

    def _layers(self) -> Layers:
        return Layers(self.image, self._config)

    async def _found(self) -> None:
        """Give the cluster an id, if it has none yet."""
        if await self._store.get(layout.CLUSTER) is not None:
            return
        from ottla.cluster import topic_requests

        cluster = {"id": uuid_text(topic_requests.random_uuid(self._entropy)), "features": {}}
        await self._store.txn(
            [Unchanged(layout.CLUSTER, ABSENT)], [layout.put(layout.CLUSTER, cluster)]
        )

    def _check(self) -> None:
        """Raise `ConfigError` if the broker's settings do not go with the metadata."""
        brokers = self.image.brokers
        if brokers and self._node_id not in brokers:
            raise ConfigError(
                f"node.id = {self._node_id}, but this is the metadata of node "
                f"{', '.join(map(str, sorted(brokers)))}: use that id, or another data directory"
            )
        for name in self.image.topics:
            try:
                self.topic_config(name)
            except ConfigError as error:
                raise ConfigError(f"topic {name!r}: {error}") from None

    def _producer_id_block(self) -> "Decision[TopicOutcome]":
        decision: Decision[TopicOutcome] = Decision()
        stop = self.image.next_producer_id + PRODUCER_ID_BLOCK
        value = layout.put(layout.PRODUCER_IDS, {"next": stop})
        decision.add(ProducerIdsAllocated(stop), [value], layout.PRODUCER_IDS)
        return decision

    async def _insist(self, decide: "Callable[[], Decision[TopicOutcome]]") -> None:
        """Write what no client asked for, so that nobody could be told of an error."""
        for _ in range(_MAX_ATTEMPTS):
            if await self._commit(decide()):
                return
        raise StorageError(_CONFLICT.message)

    async def _carry_out(
        self, decide: Callable[[], Decision[OutcomeT]], validate_only: bool
    ) -> list[OutcomeT]:
        """Decide, and write what was decided, until nobody interferes."""
        decision = decide()
        for _ in range(_MAX_ATTEMPTS):
            if validate_only or not decision.changes:
                return decision.outcomes
            try:
                if await self._commit(decision):
                    return decision.outcomes
            except StorageError as error:
                log.error("metadata not written: reason=%s", error)
                return decision.failed(Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
            decision = decide()
        return decision.failed(_CONFLICT)

    async def _commit(self, decision: Decision[OutcomeT]) -> bool:
        """Write a decision and apply it; if somebody else was faster, read what they wrote."""
        checks = [Unchanged(key, self._revisions.get(key, ABSENT)) for key in decision.unchanged]
        result = await self._store.txn(checks, decision.operations)
        if not result.is_applied:
            await self._reload()
            return False
        for operation in decision.operations:
            self._revisions.pop(operation.key, None)
            if isinstance(operation, Put):
                self._revisions[operation.key] = result.revision
        for change in decision.changes:
            self._apply(change)
        return True

    async def _reload(self) -> None:
        found = await self._store.scan("")
        self._revisions = {entry.key: entry.mod_revision for entry in found.entries}
        image = layout.read_image(found.entries, controller_id=self._node_id)
        if self._image is None:
            self._image = image
        else:
            for change in differences(self._image, image):
                self._apply(change)

    def _apply(self, change: Change) -> None:
        self._image = applied(self.image, change)
        if isinstance(change, TopicConfigChanged | TopicDeleted):
            self._topic_configs.pop(change.topic.name, None)
        elif isinstance(change, BrokerConfigChanged):
            self._topic_configs.clear()
            self._configs_by_overrides.clear()
        for callback in self._subscribers:
            callback(change)


def _registration(broker: BrokerImage) -> "Decision[TopicOutcome]":
    decision: Decision[TopicOutcome] = Decision()
    key = layout.broker_key(broker.node_id)
    decision.add(BrokerRegistered(broker), [layout.put_broker(broker)], key)
    return decision
