"""Our bytes are the bytes of others: kafka-python, kio and aiokafka, message by message.

Each is compared on deterministic samples of every message and version that it has.  The lists of
what it has are derived from the libraries themselves, and have a floor each, so that a comparison
cannot become silently empty.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest

from ottla.wire.codec import decode, encode
from ottla.wire.registry import ApiKey
from ottla.wire.schema import api_of
from tests.conformance.oracles import aiokafka, kafka_python, kio, sent
from tests.declared import every_version, title
from tests.samples import Flavor, sample

WRONG_IN_AIOKAFKA: Final = {
    ("ListOffsetsRequest", 4): "has 8 bytes of current_leader_epoch, where 4 belong",
    ("ListOffsetsRequest", 5): "has 8 bytes of current_leader_epoch, where 4 belong",
    ("DescribeAclsRequest", 2): "is not flexible, as version 2 must be",
    ("DescribeAclsResponse", 2): "is not flexible, as version 2 must be",
    # The same bytes, but described so that values cannot be matched by their place.
    ("CreatePartitionsRequest", 0): "nests count and assignments in a struct",
    ("CreatePartitionsRequest", 1): "nests count and assignments in a struct",
}

IN_RANGE_OF_KIO: Final = (Flavor.MINIMAL, Flavor.FULL, Flavor.NULLS)
"""Extreme numbers are neither dates nor error codes, which kio insists on."""


def _known(knows: Callable[[type[Any], int], bool]) -> list[tuple[type[Any], int]]:
    return [(cls, version) for cls, version in every_version() if knows(cls, version)]


def _comparable_with_aiokafka(cls: type[Any], version: int) -> bool:
    is_right = (cls.__name__, version) not in WRONG_IN_AIOKAFKA
    return is_right and aiokafka.knows(cls, version)


IN_KAFKA_PYTHON: Final = _known(kafka_python.knows)
IN_KIO: Final = _known(kio.knows)
IN_AIOKAFKA: Final = _known(_comparable_with_aiokafka)


def over(pairs: list[tuple[type[Any], int]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("cls", "version"), [pytest.param(*pair, id=title(*pair)) for pair in pairs]
    )


@over(IN_KAFKA_PYTHON)
def test_kafka_python_writes_and_reads_the_same_bytes(cls: type[Any], version: int) -> None:
    for flavor in Flavor:
        message = sample(cls, version, flavor, of_kafka=True)
        data = encode(message, version)

        assert kafka_python.encoded(message, version) == data, flavor
        assert kafka_python.decoded(cls, version, data) == sent(message, version), flavor
        assert decode(cls, data, version) == message, flavor


@over(IN_KIO)
def test_kio_reads_our_bytes_and_writes_them_again(cls: type[Any], version: int) -> None:
    for flavor in IN_RANGE_OF_KIO:
        message = sample(cls, version, flavor, of_kafka=True)
        data = encode(message, version)

        read = kio.decoded(cls, version, data)

        assert kio.values_of(read) == sent(message, version, with_defaults=True), flavor
        assert kio.encoded(read) == data, flavor


@over(IN_AIOKAFKA)
def test_aiokafka_writes_and_reads_the_same_bytes(cls: type[Any], version: int) -> None:
    for flavor in Flavor:
        message = sample(cls, version, flavor, of_kafka=True)
        data = encode(message, version)

        assert aiokafka.encoded(message, version) == data, flavor
        theirs = aiokafka.decoded(cls, version, data)
        assert aiokafka.matches(theirs, sent(message, version)), flavor


@pytest.mark.parametrize(("name", "version"), WRONG_IN_AIOKAFKA)
def test_what_aiokafka_has_wrong_is_compared_with_another(name: str, version: int) -> None:
    assert (name, version) in {(cls.__name__, v) for cls, v in IN_KAFKA_PYTHON}


def test_comparisons_are_many() -> None:
    """Of 563 messages and versions; a newer library may have more of them."""
    assert len(IN_KAFKA_PYTHON) >= 490
    assert len(IN_KIO) >= 524
    assert len(IN_AIOKAFKA) >= 163


def test_only_the_newest_versions_and_records_of_logs_are_compared_with_nobody() -> None:
    compared = set(IN_KAFKA_PYTHON) | set(IN_KIO)

    left = set(every_version()) - compared

    assert {(api_of(cls).key, v) for cls, v in left if ".messages." in cls.__module__} <= {
        (ApiKey.API_VERSIONS, 5),
        (ApiKey.TXN_OFFSET_COMMIT, 6),
        (ApiKey.DELETE_GROUPS, 3),
    }
    assert {cls.__module__ for cls, _ in left if ".messages." not in cls.__module__} <= {
        "ottla.wire.stored.consumer_group_records",
        "ottla.wire.stored.group_records",
        "ottla.wire.stored.log_files",
        "ottla.wire.stored.transaction_records",
    }
