"""Which topics a mirror copies, and what the copies are called."""

import pytest

from ottla.errors import ConfigError
from ottla.mirror.selection import Selection

NAMES = ["orders", "orders.tmp", "payments", "__consumer_offsets", "__ottla_mirror-x", "__mine"]


def chosen(selection: Selection, *, is_same_cluster: bool = False) -> dict[str, str]:
    return selection.chosen(NAMES, is_same_cluster=is_same_cluster)


def test_everything_is_all_that_is_not_hidden() -> None:
    assert chosen(Selection(renames={})) == {
        "orders": "orders",
        "orders.tmp": "orders.tmp",
        "payments": "payments",
    }


def test_what_is_hidden_must_be_meant() -> None:
    assert chosen(Selection(topics=("__*",), renames={})) == {
        "__mine": "__mine",
        "__ottla_mirror-x": "__ottla_mirror-x",
    }


def test_what_is_left_out_is_left_out_last() -> None:
    selection = Selection(topics=("orders*",), exclude=("*.tmp",), renames={})
    assert list(chosen(selection)) == ["orders"]


def test_a_topic_that_is_renamed_gets_no_prefix() -> None:
    selection = Selection(topics=("orders", "payments"), prefix="a.", renames={"orders": "b"})
    assert chosen(selection) == {"orders": "b", "payments": "a.payments"}


def test_two_topics_cannot_become_one() -> None:
    with pytest.raises(ConfigError, match="'orders' and 'payments' would both become 'payments'"):
        chosen(Selection(renames={"orders": "payments"}))


def test_the_name_of_a_copy_must_be_one() -> None:
    with pytest.raises(ConfigError, match="'orders' cannot be called so: 'a b'"):
        chosen(Selection(renames={"orders": "a b"}))


def test_within_one_cluster_a_topic_needs_another_name() -> None:
    with pytest.raises(ConfigError, match="'payments' would be copied into itself"):
        chosen(Selection(topics=("payments",), renames={}), is_same_cluster=True)


def test_within_one_cluster_copies_are_not_copied() -> None:
    selection = Selection(topics=("orders*",), renames={"orders": "orders.tmp"}, prefix="x.")
    assert chosen(selection, is_same_cluster=True) == {"orders": "orders.tmp"}
