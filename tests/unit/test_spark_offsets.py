"""What stands in a checkpoint."""

import json

import pytest

from ottla.model import TopicPartition
from ottla.spark.offsets import CheckpointError, SourceOffset, is_source_offset

ORDERS_0, ORDERS_1, BILLS_0 = (
    TopicPartition("orders", 0),
    TopicPartition("orders", 10),
    TopicPartition("bills", 0),
)


def offset() -> SourceOffset:
    return SourceOffset(
        topic_ids={"orders": "id-of-orders", "bills": "id-of-bills"},
        positions={ORDERS_1: 7, ORDERS_0: 5, BILLS_0: 0},
        cluster="cluster-1",
        group="billing",
        init={ORDERS_0: 1},
        new={BILLS_0: 0},
    )


def test_what_is_printed_can_be_parsed() -> None:
    assert SourceOffset.parse(offset().text) == offset()
    assert SourceOffset.parse(offset().as_json()) == offset()


def test_it_is_printed_in_the_order_of_names_and_numbers() -> None:
    assert offset().text == (
        '{"v": 1, "cluster": "cluster-1", "group": "billing", "topics": '
        '{"bills": {"id": "id-of-bills", "p": {"0": 0}}, '
        '"orders": {"id": "id-of-orders", "p": {"0": 5, "10": 7}}}, '
        '"init": {"orders": {"0": 1}}, "new": {"bills": {"0": 0}}}'
    )


def test_equal_positions_are_printed_alike_however_they_were_put_together() -> None:
    other = SourceOffset(
        topic_ids={"bills": "id-of-bills", "orders": "id-of-orders"},
        positions={BILLS_0: 0, ORDERS_0: 5, ORDERS_1: 7},
        cluster="cluster-1",
        group="billing",
        init={ORDERS_0: 1},
        new={BILLS_0: 0},
    )

    assert other.text == offset().text


@pytest.mark.parametrize("text", ["{}", "[]", "5", "no", '{"v": 1, "topics": {"t": 3}}'])
def test_anything_else_in_a_checkpoint_is_named(text: str) -> None:
    with pytest.raises(CheckpointError, match="no offsets of this source"):
        SourceOffset.parse(text)


def test_a_newer_version_is_named() -> None:
    told = {**offset().as_json(), "v": 2}
    with pytest.raises(CheckpointError, match="offsets of version 2"):
        SourceOffset.parse(told)


def test_offsets_of_other_sources_can_be_told_apart() -> None:
    assert is_source_offset(json.loads(offset().text))
    assert not is_source_offset({"orders": {"0": 5}})
    assert not is_source_offset(5)
