"""The partitions this broker leads, by topic and number."""

from ottla.broker.partition import Partition
from ottla.errors import ErrorCode
from ottla.model import INTERNAL_TOPICS


class Partitions:
    """Where handlers find a partition, or the reason why there is none."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, Partition | ErrorCode]] = {}

    def find(self, topic: str, index: int) -> Partition | ErrorCode:
        """The partition, or the error code to answer."""
        try:
            return self._by_topic[topic][index]
        except KeyError:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def put(self, topic: str, index: int, partition: Partition | ErrorCode) -> None:
        """Add a partition, or say why requests for it fail."""
        self._by_topic.setdefault(topic, {})[index] = partition

    def remove(self, topic: str) -> list[Partition]:
        """Forget a topic; return its partitions, for their logs to be closed."""
        gone = self._by_topic.pop(topic, {})
        return [found for found in gone.values() if isinstance(found, Partition)]

    def all(self) -> list[Partition]:
        """Every partition that is online, in the order of topics' creation."""
        return [
            found
            for topic in self._by_topic.values()
            for found in topic.values()
            if isinstance(found, Partition)
        ]

    @property
    def has_offline(self) -> bool:
        """Whether some partition could not be opened, or was lost with its disk."""
        return self.offline_count > 0

    @property
    def offline_count(self) -> int:
        """How many could not be opened, or were lost with their disk."""
        return sum(
            isinstance(found, ErrorCode)
            for topic in self._by_topic.values()
            for found in topic.values()
        )

    def take_offline(self) -> None:
        """The disk failed: answer KAFKA_STORAGE_ERROR from now on."""
        for topic in self._by_topic.values():
            for index in topic:
                topic[index] = ErrorCode.KAFKA_STORAGE_ERROR

    def is_reserved(self, topic: str) -> bool:
        """Whether only the broker itself may write the topic."""
        return topic in INTERNAL_TOPICS
