"""The response of an API that says nothing but an error, for any API.

Where a response speaks of several things (topics, partitions, groups), each thing that the request
names gets the code, at the outermost level that has one; where it has one code for everything, that
is it.  Which field of the request a field of the response repeats is told by its name, so an API
that is declared tomorrow works, too.  Three are made by hand: Fetch, whose session knows what is
wanted; Metadata, without whose brokers no client can go on; AlterReplicaLogDirs, whose response has
another structure than its request.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from ottla.broker.context import Context
from ottla.broker.dispatch import Route
from ottla.errors import ErrorCode
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.schema import Field, Kind, default_of, fields, replace

REASON: Final = "a fault that a test asked for"

_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""What can be wrong with a fetch as a whole; anything else is said of each partition."""

_FIRST_VERSION_WITH_SESSIONS: Final = 7

_NUMBERS_THAT_NAME: Final = frozenset(
    {"index", "partition", "partition_id", "partition_index", "producer_id", "resource_type"}
)
"""Fields that say what a code is about, though they are no text.  All other numbers are results."""

_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "partition_index": ("partition",),
    "topic_name": ("name",),
    "user": ("name",),
}
"""Field of a response -> what requests call the same thing."""


async def refuse(route: Route, request: Any, context: Context, error: ErrorCode) -> Any:
    """What `route` would answer to `request` if all it had to say was `error`.

    Nothing is carried out: no record is written, no topic created.
    """
    match request:
        case FetchRequest():
            return _refused_fetch(request, context, error)
        case MetadataRequest():
            return await _refused_metadata(route.handler, request, context, error)
        case AlterReplicaLogDirsRequest():
            return _refused_log_dirs(request, context.version, error)
        case _:
            return refusal(route.api.response, request, context.version, error)


def refusal(response: type[Any], request: Any, version: int, error: ErrorCode) -> Any:
    """A response that says `error` of everything that `request` names."""
    return _Mirror(version, error).struct(response, request)


def can_say(cls: type[Any], version: int) -> bool:
    """Whether a response, or a part of one, has a place for an error code in `version`."""
    present = _present(cls, version)
    if any(_is_code(field) for field in present):
        return True
    return any(can_say(inner, version) for field in present if (inner := _inner(field)))


class _Mirror:
    """Makes the parts of a response from the parts of a request."""

    def __init__(self, version: int, error: ErrorCode) -> None:
        self._version = version
        self._error = error

    def struct(self, cls: type[Any], source: Any) -> Any:
        """One structure of the response, about `source` in the request."""
        present = _present(cls, self._version)
        has_code = any(_is_code(field) for field in present)
        values = {field.name: default_of(field) for field in fields(cls)} | self._names(cls, source)
        for field in present:
            if _is_code(field):
                values[field.name] = self._error
            elif field.name == "error_message":
                values[field.name] = REASON
            elif not has_code and (inner := _inner(field)) and can_say(inner, self._version):
                values[field.name] = self.each(inner, self._entries(field, source))
        return cls(**values)

    def each(self, cls: type[Any], sources: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(self.struct(cls, source) for source in sources)

    def _entries(self, field: Field, source: Any) -> Iterator[Any]:
        """What the array of the request has: that of the same name, or else all there are."""
        arrays = [f for f in _present(type(source), self._version) if f.shape.kind is Kind.ARRAY]
        for array in [f for f in arrays if f.name == field.name] or arrays:
            yield from getattr(source, array.name) or ()

    def _names(self, cls: type[Any], source: Any) -> dict[str, Any]:
        """The fields that say what the code is about."""
        naming = [field for field in _present(cls, self._version) if _is_name(field)]
        if isinstance(source, str | int):
            # The request has plain names or numbers where the response has structures.
            fitting = [field.name for field in naming if isinstance(source, type(field.shape.zero))]
            return {fitting[0]: source}
        there = {field.name for field in _present(type(source), self._version)}
        return {
            field.name: getattr(source, name)
            for field in naming
            for name in (field.name, *_OTHER_NAMES.get(field.name, ()))
            if name in there
        }


def _present(cls: type[Any], version: int) -> list[Field]:
    return [field for field in fields(cls) if version in field.versions]


def _inner(field: Field) -> type[Any] | None:
    """The structure of which `field` is an array."""
    return field.shape.element.struct if field.shape.element is not None else None


def _is_code(field: Field) -> bool:
    return field.name in ("error_code", "partition_error_code")


def _is_name(field: Field) -> bool:
    if field.name == "error_message":
        return False
    return field.shape.kind in (Kind.STRING, Kind.UUID) or field.name in _NUMBERS_THAT_NAME


def _refused_fetch(request: FetchRequest, context: Context, error: ErrorCode) -> FetchResponse:
    if error in _SESSION_ERRORS and context.version >= _FIRST_VERSION_WITH_SESSIONS:
        return FetchResponse(error_code=error, responses=())
    now_ms = context.node.ports.clock.now_ms()
    opened = context.node.fetch_sessions.open(request, version=context.version, now_ms=now_ms)
    if opened.error is not ErrorCode.NONE:
        return FetchResponse(error_code=opened.error, responses=())
    failed = [
        (
            wanted,
            PartitionData(
                partition_index=wanted.partition.partition,
                error_code=error,
                high_watermark=-1,
                aborted_transactions=None,
                records=b"",
            ),
        )
        for wanted in opened.wanted
    ]
    return opened.response(failed)


async def _refused_metadata(
    handler: Callable[[Any, Any], Any], request: MetadataRequest, context: Context, error: ErrorCode
) -> MetadataResponse:
    answer = handler(replace(request, allow_auto_topic_creation=False), context)
    described: MetadataResponse = await answer if inspect.isawaitable(answer) else answer
    topics = tuple(replace(t, error_code=error, partitions=()) for t in described.topics)
    return replace(described, topics=topics, error_code=ErrorCode.NONE if topics else error)


def _refused_log_dirs(
    request: AlterReplicaLogDirsRequest, version: int, error: ErrorCode
) -> AlterReplicaLogDirsResponse:
    topics = [topic for folder in request.dirs for topic in folder.topics]
    results = _Mirror(version, error).each(AlterReplicaLogDirTopicResult, topics)
    return AlterReplicaLogDirsResponse(results=results)
