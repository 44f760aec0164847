"""Fetch sessions (KIP-227): a client names its partitions once, then only what changed.

The broker remembers which partitions a session has and what it last said about each, and leaves
out those with nothing new.  A request carries the session's id and epoch:

    epoch -1   a full request without a session; closes the one it names
    epoch  0   a full request that opens a session
    epoch >0   an incremental request; the number must follow the last one

A machine: no clock, no socket.  Sessions are a cache of bounded size, and a client that lost its
session is told so and starts again.
"""

from collections import OrderedDict
from dataclasses import field
from typing import Final

from ottla.errors import ErrorCode
from ottla.ports import Entropy
from ottla.values import NamedTuple, dataclass
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.schema import NO_UUID

NO_SESSION: Final = 0
FULL_WITHOUT_SESSION: Final = -1
FULL_OPENS_SESSION: Final = 0

_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
_MAX_EPOCH: Final = 2**31 - 1
_UNSAID: Final = -2
"""What the client knows of a partition that was not mentioned yet."""

_NONE: Final = ErrorCode.NONE
"""To ask an enum for a member costs more than a call, and this is the way of every request."""


class Wanted(NamedTuple):
    """One partition of a fetch: its topic, by name or by id, and where to read.

    A tuple, because one is made for each: a frozen dataclass sets its fields one by one.
    """

    topic: str
    topic_id: bytes
    partition: FetchPartition

    @property
    def key(self) -> tuple[str, bytes, int]:
        return self.topic, self.topic_id, self.partition.partition


@dataclass(slots=True)
class _Remembered:
    """A partition of a session, and what its client was last told."""

    wanted: Wanted
    high_watermark: int = _UNSAID
    start_offset: int = _UNSAID

    def is_news(self, data: PartitionData) -> bool:
        """Whether `data` says something new; takes note of it if so."""
        failed = data.error_code != _NONE
        changed = (
            failed
            or bool(data.records)
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.start_offset
        )
        self.high_watermark = _UNSAID if failed else data.high_watermark
        self.start_offset = _UNSAID if failed else data.log_start_offset
        return changed


@dataclass(slots=True)
class FetchSession:
    """What one client fetches.  `partitions` is in the order of reading."""

    session_id: int
    uses_topic_ids: bool
    last_used_ms: int
    epoch: int = 1
    partitions: OrderedDict[tuple[str, bytes, int], _Remembered] = field(
        default_factory=OrderedDict
    )

    def update(self, request: FetchRequest) -> None:
        """Take in an incremental request."""
        for wanted in _named_in(request):
            known = self.partitions.get(wanted.key)
            if known is None:
                self.partitions[wanted.key] = _Remembered(wanted)
            else:
                known.wanted = wanted
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                self.partitions.pop((topic.topic, topic.topic_id, index), None)


@dataclass(slots=True)
class Fetch:
    """One fetch request, with what its session remembers filled in."""

    wanted: list[Wanted]
    session: FetchSession | None = None
    is_incremental: bool = False
    error: ErrorCode = _NONE

    def response(self, results: list[tuple[Wanted, PartitionData]]) -> FetchResponse:
        """The response: everything, or only the news if the session knows the rest."""
        if self.session is not None:
            results = self._news(self.session, results)
        return FetchResponse(
            session_id=self.session.session_id if self.session else NO_SESSION,
            responses=_by_topic(results),
        )

    def _news(
        self, session: FetchSession, results: list[tuple[Wanted, PartitionData]]
    ) -> list[tuple[Wanted, PartitionData]]:
        news = []
        for wanted, data in results:
            remembered = session.partitions.get(wanted.key)
            if remembered is None:
                continue
            if remembered.is_news(data) or not self.is_incremental:
                news.append((wanted, data))
            if data.records:
                # Who got data goes to the end, so that a full response starves nobody.
                session.partitions.move_to_end(wanted.key)
        return news


class FetchSessions:
    """All fetch sessions of a broker."""

    def __init__(self, *, max_sessions: int, min_idle_ms: int, entropy: Entropy) -> None:
        self._max_sessions = max_sessions
        self._min_idle_ms = min_idle_ms
        self._entropy = entropy
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest, *, version: int, now_ms: int) -> Fetch:
        """Find, make or close the session that `request` speaks of."""
        if request.session_epoch in (FULL_WITHOUT_SESSION, FULL_OPENS_SESSION):
            self._sessions.pop(request.session_id, None)
            wanted = _named_in(request)
            session = None
            if request.session_epoch == FULL_OPENS_SESSION and wanted:
                session = self._opened(wanted, version, now_ms)
            return Fetch(wanted, session)
        session = self._sessions.get(request.session_id)
        if session is None:
            return Fetch([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return Fetch([], error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != (version >= _FIRST_VERSION_WITH_TOPIC_IDS):
            return Fetch([], error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(request)
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        wanted = [remembered.wanted for remembered in session.partitions.values()]
        if not wanted:
            del self._sessions[session.session_id]
            return Fetch([])
        return Fetch(wanted, session, is_incremental=True)

    def _opened(self, wanted: list[Wanted], version: int, now_ms: int) -> FetchSession | None:
        """A new session, or None if all places are taken by clients that are active."""
        if len(self._sessions) >= self._max_sessions:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.last_used_ms < self._min_idle_ms:
                return None
            del self._sessions[oldest.session_id]
        session = FetchSession(self._unused_id(), version >= _FIRST_VERSION_WITH_TOPIC_IDS, now_ms)
        for item in wanted:
            session.partitions[item.key] = _Remembered(item)
        self._sessions[session.session_id] = session
        return session

    def _unused_id(self) -> int:
        while True:
            candidate = int.from_bytes(self._entropy.random_bytes(4), "big") & _MAX_EPOCH
            if candidate != NO_SESSION and candidate not in self._sessions:
                return candidate


def _named_in(request: FetchRequest) -> list[Wanted]:
    return [
        Wanted(topic.topic, topic.topic_id, partition)
        for topic in request.topics
        for partition in topic.partitions
    ]


def _by_topic(
    results: list[tuple[Wanted, PartitionData]],
) -> tuple[FetchableTopicResponse, ...]:
    """Group by topic, keeping the order in which topics first appear."""
    groups: dict[tuple[str, bytes], list[PartitionData]] = {}
    for wanted, data in results:
        groups.setdefault((wanted.topic, wanted.topic_id), []).append(data)
    return tuple(
        FetchableTopicResponse(topic=name, topic_id=topic_id or NO_UUID, partitions=tuple(data))
        for (name, topic_id), data in groups.items()
    )
