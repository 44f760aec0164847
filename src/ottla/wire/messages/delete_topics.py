"""DeleteTopics (key 20): delete topics and all that is in them.

v1  the oldest version since Kafka 4.0                        (KIP-896)
v2  the client waits out throttle_time_ms, not the broker     (KIP-219)
v3  may answer TOPIC_DELETION_DISABLED                        (KIP-322)
v4  first flexible version
v5  adds error_message; may answer THROTTLING_QUOTA_EXCEEDED  (KIP-599)
v6  topics replaces topic_names: by name or by topic_id       (KIP-516)
"""

from ottla.wire.schema import NO_UUID, Int16, Int32, String, Uuid, at, message, struct


@struct
class DeleteTopicState:
    name: String | None = None
    topic_id: Uuid


@message(key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest:
    topics: tuple[DeleteTopicState, ...] = at("6+", default=())
    topic_names: tuple[String, ...] = at("0-5", default=(), ignorable=True)
    timeout_ms: Int32


@struct
class DeletableTopicResult:
    name: String | None = at("0+", nullable="6+")
    topic_id: Uuid = at("6+", default=NO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = at("5+", default=None, ignorable=True)


@message(key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse:
    throttle_time_ms: Int32 = 0
    responses: tuple[DeletableTopicResult, ...]
