"""DeleteShareGroupOffsets (key 92): forget what a share group did with some topics.

v0  the only version                                      (KIP-932)

The group must have no members.
"""

from ottla.wire.schema import Int16, Int32, String, Uuid, message, struct


@struct
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: String


@message(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest:
    group_id: String
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...]


@struct
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: String
    topic_id: Uuid
    error_code: Int16 = 0
    error_message: String | None = None


@message(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...]
