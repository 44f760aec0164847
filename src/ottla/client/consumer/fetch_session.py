"""Fetch sessions (KIP-227), the client's side: after the first request, only changes are sent.

One session for each broker.  Request and answer count epochs; when they disagree, or an answer is
lost, the session is given up, and the next request tells everything again.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.values import dataclass
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from ottla.wire.schema import NO_UUID

NEWEST_WITH_NAMES: Final = 12
"""Later versions of Fetch name topics by their ids only."""

_NO_SESSION: Final = 0
_OPEN: Final = 0
_MAX_EPOCH: Final = 2**31 - 1

Wanted = Mapping[TopicPartition, FetchPartition]
Asked = tuple[bytes, FetchPartition]
"""The id of a topic, and what is asked about one of its partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """What every request says, whatever it asks for."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    rack_id: str


class FetchSession:
    """The session with one broker.  `request`, then `answered` or `lost`, and again."""

    def __init__(self, limits: FetchLimits) -> None:
        self._limits = limits
        self._id = _NO_SESSION
        self._epoch = _OPEN
        self._known: dict[TopicPartition, Asked] = {}
        self._uses_ids = True

    def request(self, wanted: Wanted, ids: Mapping[str, bytes]) -> tuple[FetchRequest, int | None]:
        """The next request, for exactly `wanted`; and the newest version that can say it.

        `ids` are those of the topics.  If one has none, all go by their names.
        """
        now: dict[TopicPartition, Asked] = {}
        uses_ids = True
        for tp, asked in wanted.items():
            topic_id = ids.get(tp.topic, NO_UUID)
            uses_ids = uses_ids and topic_id != NO_UUID
            now[tp] = (topic_id, asked)
        if uses_ids != self._uses_ids:
            self.lost()
            self._uses_ids = uses_ids
        if self._epoch == _OPEN:
            told, gone = now, {}
        else:
            told = {tp: what for tp, what in now.items() if _is_news(what, self._known.get(tp))}
            # A topic that was created anew has another id: the old one is forgotten.
            gone = {
                tp: topic_id
                for tp, (topic_id, _) in self._known.items()
                if tp not in now or now[tp][0] != topic_id
            }
        self._known = now
        limits = self._limits
        request = FetchRequest(
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            isolation_level=limits.isolation_level,
            rack_id=limits.rack_id,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=_topics(told),
            forgotten_topics_data=_forgotten(gone),
        )
        return request, None if uses_ids else NEWEST_WITH_NAMES

    def answered(self, answer: FetchResponse) -> bool:
        """Take note of an answer; False if it says that the session is lost."""
        if answer.error_code != ErrorCode.NONE:
            self.lost()
            return False
        if answer.session_id == _NO_SESSION:
            self.lost()  # the broker keeps none: each request stays a full one
        else:
            self._id = answer.session_id
            self._epoch = 1 if self._epoch == _MAX_EPOCH else self._epoch + 1
        return True

    def lost(self) -> None:
        """No answer came, or one that fits no session: begin again."""
        self._epoch = _OPEN
        self._id = _NO_SESSION
        self._known = {}


def _is_news(what: Asked, known: Asked | None) -> bool:
    if known is None or known[1].fetch_offset != what[1].fetch_offset:
        return True  # mostly it is the offset, and to compare everything else takes its time
    return known != what


def _topics(told: Mapping[TopicPartition, Asked]) -> tuple[FetchTopic, ...]:
    grouped: dict[tuple[str, bytes], list[FetchPartition]] = {}
    for tp, (topic_id, asked) in told.items():
        grouped.setdefault((tp.topic, topic_id), []).append(asked)
    return tuple(
        [
            FetchTopic(topic=topic, topic_id=topic_id, partitions=tuple(partitions))
            for (topic, topic_id), partitions in grouped.items()
        ]
    )


def _forgotten(gone: Mapping[TopicPartition, bytes]) -> tuple[ForgottenTopic, ...]:
    if not gone:
        return ()  # nearly always
    grouped: dict[tuple[str, bytes], list[int]] = {}
    for tp, topic_id in gone.items():
        grouped.setdefault((tp.topic, topic_id), []).append(tp.partition)
    return tuple(
        ForgottenTopic(topic=topic, topic_id=topic_id, partitions=tuple(partitions))
        for (topic, topic_id), partitions in grouped.items()
    )


def partitions_of(
    answer: FetchResponse, names: Mapping[bytes, str]
) -> Iterator[tuple[TopicPartition, PartitionData]]:
    """Each partition of an answer under its name; of topics that nobody knows, nothing."""
    for topic in answer.responses:
        name = topic.topic or names.get(topic.topic_id)
        if name is not None:
            for data in topic.partitions:
                yield TopicPartition(name, data.partition_index), data
