"""Names, identifiers, and the hash that clients and brokers must agree on."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model import (
    TopicPartition,
    collision_key,
    coordinator_partition,
    java_string_hash,
    random_uuid_text,
    topic_name_error,
    uuid_from_text,
    uuid_text,
)


@pytest.mark.parametrize("name", ["a", "orders", "A.b_c-9", "...", "x" * 249])
def test_a_topic_name_is_made_of_letters_digits_dots_dashes_and_underscores(name: str) -> None:
    assert topic_name_error(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "a\n", "x" * 250])
def test_other_names_are_refused_with_a_reason(name: str) -> None:
    assert topic_name_error(name)


def test_names_that_differ_in_dot_and_underscore_collide() -> None:
    assert collision_key("a.b") == collision_key("a_b")
    assert collision_key("a.b") != collision_key("a-b")


def test_a_partition_is_written_as_its_folder_is_named() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"


def test_an_identifier_is_written_as_kafka_writes_it() -> None:
    assert uuid_text(bytes(16)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_text(b"\xff" * 16) == "_____________________w"


@given(st.binary(min_size=16, max_size=16))
def test_an_identifier_can_be_read_back(uuid: bytes) -> None:
    assert uuid_from_text(uuid_text(uuid)) == uuid


@given(st.binary(min_size=16, max_size=16))
def test_a_random_uuid_is_written_as_the_standard_library_writes_it(random: bytes) -> None:
    assert random_uuid_text(random) == str(UUID(bytes=random, version=4))


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 23, "A" * 21 + "B", "A" * 21 + "/", "ä" * 22])
def test_other_text_is_no_identifier(text: str) -> None:
    with pytest.raises(ValueError, match="is not an identifier"):
        uuid_from_text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # As java.lang.String documents it, the last three by hand over UTF-16 code units.
        ("", 0),
        ("a", 97),
        ("test", 3556498),
        ("polygenelubricants", -(2**31)),
        ("ä", 0xE4),
        ("😀", 31 * 0xD83D + 0xDE00),
        ("\ud800", 0xD800),
    ],
)
def test_strings_hash_as_in_java(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_a_group_belongs_to_the_partition_that_kafka_would_choose() -> None:
    assert coordinator_partition("test", 50) == 48
    # Its hash is the one number whose absolute value does not fit; Kafka clears the sign instead.
    assert coordinator_partition("polygenelubricants", 50) == 0
