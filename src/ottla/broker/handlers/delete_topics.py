"""DeleteTopics (key 20): delete topics and all that is in them.

Since v6 a topic is asked for by name or by id.  One that is asked for twice, in whatever way, is
not deleted: the request is not what its sender believes it is.
"""

from collections import Counter
from typing import Final

from ottla.broker.context import Context
from ottla.cluster.decision import Refusal, unknown_topic
from ottla.cluster.image import ClusterImage, TopicImage
from ottla.errors import ErrorCode
from ottla.model import uuid_text
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from ottla.wire.schema import NO_UUID

_FIRST_VERSION_WITH_IDS: Final = 6
_FIRST_VERSION_WITH_DISABLED: Final = 3
_NEITHER: Final = Refusal(ErrorCode.INVALID_REQUEST, "there is neither a name nor an id")
_BOTH: Final = Refusal(ErrorCode.INVALID_REQUEST, "there is both a name and an id")
_TWICE: Final = Refusal(ErrorCode.INVALID_REQUEST, "the topic occurs twice")

Asked = tuple[str | None, bytes]
"""The name and the id of a topic; one of them should be missing."""


async def delete_topics(request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    """Answer with one result for each name or id."""
    counts = Counter(_asked(request, context.version))
    if not context.node.config.delete_topic_enable:
        disabled = _disabled(context.version)
        return DeleteTopicsResponse(responses=tuple(_refused(*asked, disabled) for asked in counts))
    topics = {asked: _find(*asked, context.node.controller.image) for asked in counts}
    times = _times_found(topics, counts)
    wanted = [name for name, count in times.items() if count == 1]
    outcomes = {
        outcome.name: outcome for outcome in await context.node.controller.delete_topics(wanted)
    }
    results: dict[Asked, DeletableTopicResult] = {}
    for asked, topic in topics.items():
        if isinstance(topic, Refusal):
            is_twice = counts[asked] > 1 and topic not in (_NEITHER, _BOTH)
            results[asked] = _refused(*asked, _TWICE if is_twice else topic)
        elif counts[asked] > 1:
            results[asked] = _refused(*asked, _TWICE)
        elif (outcome := outcomes.get(topic.name)) is None:
            known = (topic.name, topic.topic_id)
            results[known] = _refused(*known, _TWICE)
        else:
            results[asked] = DeletableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=outcome.error,
                error_message=outcome.message,
            )
    return DeleteTopicsResponse(responses=tuple(results.values()))


def _asked(request: DeleteTopicsRequest, version: int) -> list[Asked]:
    if version < _FIRST_VERSION_WITH_IDS:
        return [(name, NO_UUID) for name in request.topic_names]
    return [(topic.name, topic.topic_id) for topic in request.topics]


def _disabled(version: int) -> Refusal:
    has_code = version >= _FIRST_VERSION_WITH_DISABLED
    code = ErrorCode.TOPIC_DELETION_DISABLED if has_code else ErrorCode.INVALID_REQUEST
    return Refusal(code, "delete.topic.enable = false")


def _find(name: str | None, topic_id: bytes, image: ClusterImage) -> TopicImage | Refusal:
    if name is not None and topic_id != NO_UUID:
        return _BOTH
    if name is not None:
        return image.topics.get(name) or unknown_topic(name)
    if topic_id == NO_UUID:
        return _NEITHER
    unknown = Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {uuid_text(topic_id)}")
    return image.topic_by_id(topic_id) or unknown


def _times_found(topics: dict[Asked, TopicImage | Refusal], counts: Counter[Asked]) -> Counter[str]:
    """How often each topic that exists was asked for, by name and by id together."""
    times: Counter[str] = Counter()
    for asked, topic in topics.items():
        if isinstance(topic, TopicImage):
            times[topic.name] += counts[asked]
    return times


def _refused(name: str | None, topic_id: bytes, refusal: Refusal) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=refusal.error, error_message=refusal.message
    )
