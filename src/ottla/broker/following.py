"""What a broker does when metadata changed: coordinators hear of it, and the disk follows.

The change is durable by then, and somebody waits to be told so.  If the disk cannot follow, that is
not the fault of the change: the broker is told that its disk failed.
"""

import logging
from collections.abc import Callable

from ottla.broker.cleaning import Cleaning
from ottla.broker.context import Node
from ottla.broker.storage import Storage
from ottla.cluster.changes import (
    BrokerConfigChanged,
    Change,
    PartitionsAdded,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)

log = logging.getLogger(__name__)


class Follower:
    """Is told of every change right after it was applied."""

    def __init__(
        self,
        node: Node,
        storage: Storage,
        cleaning: Cleaning,
        on_disk_failure: Callable[[OSError], None],
    ) -> None:
        self._node = node
        self._storage = storage
        self._cleaning = cleaning
        self._on_disk_failure = on_disk_failure

    def on_change(self, change: Change) -> None:
        """Follow one change, and never raise for what the disk did."""
        try:
            self._follow(change)
        except OSError as error:
            log.error("the disk cannot follow metadata: change=%s %s", type(change).__name__, error)
            self._on_disk_failure(error)

    def _follow(self, change: Change) -> None:
        """Those who remember a topic forget it before its files go."""
        if isinstance(change, TopicDeleted):
            self._cleaning.forget(change.topic.name)
            for coordinators in self._node.coordinators:
                coordinators.on_topic_deleted(change.topic.name)
        if isinstance(change, TopicCreated | TopicDeleted | PartitionsAdded):
            for coordinators in self._node.coordinators:
                coordinators.on_topics_changed()
        match change:
            case (
                TopicCreated(topic)
                | TopicDeleted(topic)
                | PartitionsAdded(topic, _)
                | TopicConfigChanged(topic)
            ):
                self._storage.follow(topic.name)
            case BrokerConfigChanged():
                self._storage.reconfigure_all()
            case _:
                pass
