"""Declarations are what Apache Kafka's own schema files say, field by field, version by version."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from ottla.wire.compiler import plan
from ottla.wire.registry import ApiKey, api
from ottla.wire.schema import OWN_TAGS, Versions, api_of
from tests.conformance.kafka_schemas import (
    FOLDER_VARIABLE,
    Layout,
    schema_folder,
    schemas,
    snake_case,
)
from tests.conformance.schema_checker import Difference, differences, own_fields
from tests.declared import EVERY_MESSAGE, every_message, every_version, structs_of

needs_the_schemas = pytest.mark.skipif(
    not schema_folder().is_dir(),
    reason=f"Kafka's schema files are not in {schema_folder()}; set {FOLDER_VARIABLE} to them",
)

CONVENIENT_DEFAULTS: Final = {
    # Kafka's error messages that may be null are empty unless set, ours are null.  Nobody is told
    # the difference between the two, and most answers have no error.
    ("error_message", "default None here, '' in Kafka"),
    ("error_message", "absent, with default None here, '' in Kafka"),
    # The caller always gives records: they are in every version, and have no default here.
    ("records", "default b'' here, None in Kafka"),
}
"""Field and difference: the only ones that we chose.  None of them is visible on the wire."""

OWN_FIELDS: Final = {
    ("ConsumerGroupDescribeRequest", "include_story"),
    ("ConsumerGroupDescribeResponse", "groups.story"),
    ("DescribeGroupsRequest", "include_story"),
    ("DescribeGroupsResponse", "groups.story"),
}
"""What we say beyond Kafka (ADR 0016), in tags that it skips and that are not sent unasked."""

PROMISED: Final = {
    # What the clients of the last years send first, and what Kafka's newest sends.
    ApiKey.PRODUCE: "3-13",
    ApiKey.FETCH: "4-18",
    ApiKey.LIST_OFFSETS: "1-10",
    ApiKey.METADATA: "0-13",
    ApiKey.OFFSET_COMMIT: "2-9",
    ApiKey.OFFSET_FETCH: "1-9",
    ApiKey.FIND_COORDINATOR: "0-6",
    ApiKey.JOIN_GROUP: "0-9",
    ApiKey.HEARTBEAT: "0-4",
    ApiKey.LEAVE_GROUP: "0-5",
    ApiKey.SYNC_GROUP: "0-5",
    ApiKey.DESCRIBE_GROUPS: "0-6",
    ApiKey.LIST_GROUPS: "0-5",
    ApiKey.SASL_HANDSHAKE: "0-1",
    ApiKey.API_VERSIONS: "0-4",
    ApiKey.CREATE_TOPICS: "2-7",
    ApiKey.DELETE_TOPICS: "1-6",
    ApiKey.INIT_PRODUCER_ID: "0-6",  # 6: two-phase commit (KIP-939)
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "2-4",
    ApiKey.ADD_PARTITIONS_TO_TXN: "0-5",
    ApiKey.ADD_OFFSETS_TO_TXN: "0-4",
    ApiKey.END_TXN: "0-5",
    ApiKey.WRITE_TXN_MARKERS: "1-2",
    ApiKey.TXN_OFFSET_COMMIT: "0-5",
    ApiKey.SASL_AUTHENTICATE: "0-2",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "0-1",
}


def _tags(layout: Layout) -> Iterator[int]:
    for fact in layout.present:
        if fact.tag is not None:
            yield fact.tag
        if fact.struct is not None:
            yield from _tags(fact.struct)


def _is_convenient(difference: Difference) -> bool:
    return (difference.field.rpartition(".")[2], difference.what) in CONVENIENT_DEFAULTS


@needs_the_schemas
@EVERY_MESSAGE
def test_a_declaration_is_what_kafka_says(cls: type[Any]) -> None:
    found = differences(cls, schemas()[cls.__name__])

    assert [str(d) for d in found if not _is_convenient(d)] == []


@needs_the_schemas
def test_only_defaults_of_error_messages_and_records_are_our_own() -> None:
    found = [d for cls in every_message() for d in differences(cls, schemas()[cls.__name__])]

    assert {(d.field.rpartition(".")[2], d.what) for d in found} == CONVENIENT_DEFAULTS
    assert {(d.message, d.field) for d in found if d.field.endswith("records")} == {
        ("FetchResponse", "responses.partitions.records"),
        ("ProduceRequest", "topic_data.partition_data.records"),
        ("ShareFetchResponse", "responses.partitions.records"),
    }


def test_only_these_fields_are_beyond_kafka() -> None:
    found = {(cls.__name__, path) for cls in every_message() for path in own_fields(cls)}

    assert found == OWN_FIELDS


@needs_the_schemas
def test_kafka_counts_its_tags_from_zero_and_is_nowhere_near_ours() -> None:
    newest = [schema.layout(schema.versions.high, schema.versions) for schema in schemas().values()]
    tags = {tag for layout in newest for tag in _tags(layout)}

    assert {0, 1} <= tags
    assert max(tags) < OWN_TAGS // 100


@needs_the_schemas
@pytest.mark.parametrize("key", list(ApiKey))
def test_an_api_key_is_that_of_kafka(key: ApiKey) -> None:
    declared = api(key)

    kafka = schemas()[declared.request.__name__]

    assert kafka.key == key
    assert snake_case(kafka.name) == f"{key.name.lower()}_request"


def test_the_registry_knows_every_declared_request_and_response() -> None:
    declared = {cls for cls in every_message() if ".messages." in cls.__module__}

    registered = {m for key in ApiKey for m in (api(key).request, api(key).response)}

    assert declared == registered


@pytest.mark.parametrize("key", PROMISED)
def test_the_versions_that_clients_send_are_declared(key: ApiKey) -> None:
    promised = Versions.parse(PROMISED[key])

    declared = api(key).versions

    assert declared.low <= promised.low
    assert promised.high <= declared.high


@pytest.mark.parametrize("key", list(ApiKey))
def test_request_and_response_become_flexible_together(key: ApiKey) -> None:
    assert api_of(api(key).request).flexible == api_of(api(key).response).flexible


def test_no_element_of_an_array_is_empty() -> None:
    """Or else an array's length could not be checked against the bytes that are left."""
    structs = [s for cls, version in every_version() for s in structs_of(plan(cls, version))]
    arrays = [f for s in structs for f in (*s.fields, *s.tagged) if f.element is not None]

    least = [field.element.least_bytes for field in arrays if field.element is not None]

    assert len(arrays) > 500
    assert min(least) >= 1


def test_all_messages_are_found() -> None:
    """So that none of the tests over all messages can be silently empty."""
    assert len(every_message()) >= 2 * len(ApiKey) + 30
    assert len(every_version()) >= 560
