"""The words of OpenTelemetry's conventions for messaging, in one place: they are still changing.

These are those of version 1.44 of the conventions, which the tracer names as its schema.
"""

from typing import Final

from opentelemetry import trace
from opentelemetry.trace import Tracer, TracerProvider

from ottla import __version__

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"

SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
GROUP: Final = "messaging.consumer.group.name"
COUNT: Final = "messaging.batch.message_count"
OFFSET: Final = "messaging.kafka.offset"
ERROR: Final = "error.type"

KAFKA: Final = "kafka"
"""The system: what counts is the protocol, and every tool knows this one."""

Attributes = dict[str, str | int]


def tracer_of(provider: TracerProvider | None) -> Tracer:
    """The tracer of a provider, or of the one that the program has set for all."""
    return trace.get_tracer("ottla", __version__, provider, SCHEMA_URL)


def operation(name: str, kind: str, topics: list[str]) -> Attributes:
    """What every span of ours says; of several topics, none is the destination."""
    about: Attributes = {SYSTEM: KAFKA, OPERATION_NAME: name, OPERATION_TYPE: kind}
    if len(topics) == 1:
        about[DESTINATION] = topics[0]
    return about


def named(operation_name: str, topics: list[str]) -> str:
    """`send orders`; the name alone where there are several topics."""
    return f"{operation_name} {topics[0]}" if len(topics) == 1 else operation_name
