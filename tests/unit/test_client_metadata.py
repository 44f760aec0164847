"""When metadata is asked for, and which of two answers is believed."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.client.backoff import Backoff
from ottla.client.cluster_view import Leader, Node
from ottla.client.metadata import Metadata, MetadataPolicy
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from tests.client.scripted import topic

MIDDLE = 0.5
MAX_AGE_MS = 300_000
POLICY = MetadataPolicy(
    max_age_ms=MAX_AGE_MS, backoff=Backoff(100, 1000), rebootstrap_after_ms=60_000
)
ORDERS_0 = TopicPartition("orders", 0)


def response(*topics: MetadataResponseTopic, nodes: tuple[int, ...] = (1, 2)) -> MetadataResponse:
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(node_id=n, host=f"host-{n}", port=9092) for n in nodes
        ),
        cluster_id="c",
        controller_id=1,
        topics=topics,
    )


def update(metadata: Metadata, now_ms: int, *topics: MetadataResponseTopic, **how: Any) -> None:
    metadata.update(metadata.question(now_ms), response(*topics, **how), now_ms, MIDDLE)


def knowing(*topics: MetadataResponseTopic, policy: MetadataPolicy = POLICY) -> Metadata:
    """Metadata that was asked about these topics at 1000, and told."""
    metadata = Metadata(policy)
    metadata.want([t.name for t in topics if t.name], 1000)
    update(metadata, 1000, *topics)
    return metadata


def asked(request: MetadataRequest) -> list[str | None] | None:
    return None if request.topics is None else [t.name for t in request.topics]


def test_the_first_question_is_due_at_once_and_about_no_topic() -> None:
    metadata = Metadata(POLICY)
    assert metadata.due_ms(1000) == 1000
    question = metadata.question(1000)
    assert (asked(question.request), question.is_partial) == ([], False)


def test_what_is_known_is_asked_again_when_it_is_old() -> None:
    metadata = knowing(topic("orders", 1))
    assert metadata.due_ms(1000) == 1000 + MAX_AGE_MS
    assert asked(metadata.question(1000 + MAX_AGE_MS).request) == ["orders"]


def test_a_new_topic_is_asked_for_at_once_and_alone() -> None:
    metadata = knowing(topic("orders", 1))
    metadata.want(["orders", "bills"], 1010)
    question = metadata.question(1010)
    assert metadata.due_ms(1010) == 1010
    assert (asked(question.request), question.is_partial) == (["bills"], True)
    metadata.update(question, response(topic("bills", 2)), 1020, MIDDLE)
    assert sorted(metadata.cluster.topics) == ["bills", "orders"]
    assert metadata.due_ms(1020) == 1000 + MAX_AGE_MS


def test_a_topic_wanted_while_an_answer_is_under_way_is_not_forgotten() -> None:
    metadata = knowing()
    metadata.want(["orders"], 2000)
    question = metadata.question(2000)
    metadata.want(["bills"], 2001)
    metadata.update(question, response(topic("orders", 1)), 2002, MIDDLE)
    assert metadata.due_ms(2002) == 2002
    assert "bills" in (asked(metadata.question(2002).request) or [])


def test_an_error_of_some_broker_makes_us_ask_again_after_a_pause() -> None:
    metadata = knowing(topic("orders", 1))
    metadata.refresh()
    assert metadata.due_ms(1010) == 1100
    assert not metadata.question(1100).is_partial


def test_answers_that_bring_nothing_new_are_asked_for_less_and_less_often() -> None:
    metadata = knowing(topic("orders", 1))
    now_ms, pauses = 1000, []
    for _ in range(6):
        metadata.refresh()
        due_ms = metadata.due_ms(now_ms)
        pauses.append(due_ms - now_ms)
        update(metadata, now_ms := due_ms, topic("orders", 1))
    assert pauses == [100, 100, 200, 400, 800, 1000]
    metadata.refresh()
    update(metadata, now_ms, topic("orders", 2, epoch=1))
    metadata.refresh()
    assert metadata.due_ms(now_ms) == now_ms + 100


def test_failures_make_the_pauses_longer() -> None:
    metadata, now_ms, pauses = Metadata(POLICY), 0, []
    for _ in range(6):
        metadata.failed(now_ms, MIDDLE)
        pauses.append(metadata.due_ms(now_ms) - now_ms)
        now_ms = metadata.due_ms(now_ms)
    assert pauses == [100, 200, 400, 800, 1000, 1000]


def test_a_topic_is_told_as_it_is() -> None:
    cluster = knowing(topic("orders", 1, -1, 2, epoch=7)).cluster
    orders = cluster.topics["orders"]
    assert (orders.partition_count, orders.available) == (3, (0, 2))
    assert cluster.leader(ORDERS_0) == Leader(1, 7)
    assert cluster.leader(TopicPartition("orders", 1)) is None
    assert cluster.leader(TopicPartition("orders", 3)) is None
    assert cluster.leader(TopicPartition("bills", 0)) is None
    assert cluster.names == {orders.topic_id: "orders"}
    assert (cluster.cluster_id, cluster.controller_id) == ("c", 1)
    assert cluster.nodes[2] == Node(2, "host-2", 9092)


def test_a_leader_that_is_no_known_broker_is_no_leader() -> None:
    assert knowing(topic("orders", 9)).cluster.leader(ORDERS_0) is None


def test_an_older_epoch_is_not_believed_whoever_tells_it() -> None:
    metadata = knowing(topic("orders", 1, epoch=5))
    metadata.refresh()
    update(metadata, 2000, topic("orders", 2, epoch=4))
    assert metadata.cluster.leader(ORDERS_0) == Leader(1, 5)
    update(metadata, 3000, topic("orders", 2, epoch=6))
    assert metadata.cluster.leader(ORDERS_0) == Leader(2, 6)


def test_a_topic_that_was_created_anew_begins_with_its_own_epochs() -> None:
    metadata = knowing(topic("orders", 1, epoch=5))
    recreated = replace_id(topic("orders", 2, epoch=0), b"n" * 16)
    update(metadata, 2000, recreated)
    assert metadata.cluster.leader(ORDERS_0) == Leader(2, 0)


def replace_id(told: MetadataResponseTopic, topic_id: bytes) -> MetadataResponseTopic:
    return MetadataResponseTopic(name=told.name, topic_id=topic_id, partitions=told.partitions)


def test_a_topic_that_was_gone_for_a_while_begins_with_its_own_epochs() -> None:
    metadata = knowing(topic("orders", 1, epoch=5))
    update(metadata, 2000, topic("orders", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert metadata.cluster.topics == {}
    update(metadata, 3000, topic("orders", 2, epoch=0))
    assert metadata.cluster.leader(ORDERS_0) == Leader(2, 0)


def test_brokers_without_epochs_are_believed() -> None:
    metadata = knowing(topic("orders", 1, epoch=-1))
    update(metadata, 2000, topic("orders", 2, epoch=-1))
    assert metadata.cluster.leader(ORDERS_0) == Leader(2, -1)


def test_a_newer_epoch_seen_elsewhere_makes_us_ask() -> None:
    metadata = knowing(topic("orders", 1, epoch=5))
    metadata.saw_epoch(ORDERS_0, 5)
    assert metadata.due_ms(5000) == 1000 + MAX_AGE_MS
    metadata.saw_epoch(ORDERS_0, 6)
    assert metadata.due_ms(5000) == 5000
    update(metadata, 5000, topic("orders", 1, epoch=5))
    assert metadata.cluster.leader(ORDERS_0) == Leader(1, 5)


def test_a_leader_that_comes_with_a_refusal_is_believed_if_it_is_newer() -> None:
    metadata = knowing(topic("orders", 1, 1, epoch=5))
    before = metadata.cluster
    there = Node(9, "host-9", 9092)
    assert metadata.update_leaders({ORDERS_0: Leader(9, 5)}, [there]) == frozenset()
    assert metadata.cluster is before
    assert metadata.update_leaders({ORDERS_0: Leader(8, 6)}, [there]) == frozenset()
    assert metadata.update_leaders({ORDERS_0: Leader(9, 6)}, [there]) == {ORDERS_0}
    assert metadata.cluster.leader(ORDERS_0) == Leader(9, 6)
    assert before.leader(ORDERS_0) == Leader(1, 5)
    update(metadata, 2000, topic("orders", 1, 1, epoch=5), nodes=(1, 2, 9))
    assert metadata.cluster.leader(ORDERS_0) == Leader(9, 6)


def test_an_error_of_a_topic_is_kept_and_asked_about_again_where_that_helps() -> None:
    metadata = knowing(topic("orders", error=ErrorCode.LEADER_NOT_AVAILABLE))
    assert metadata.cluster.errors == {"orders": ErrorCode.LEADER_NOT_AVAILABLE}
    assert metadata.due_ms(1000) == 1100
    secret = knowing(topic("secret", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert secret.due_ms(1000) == 1000 + MAX_AGE_MS


def test_a_topic_in_trouble_that_is_wanted_again_is_asked_about_after_a_pause() -> None:
    metadata = knowing(topic("secret", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    metadata.want(["secret"], 1010)
    assert metadata.due_ms(1010) == 1100


def test_topics_that_nobody_used_for_long_are_forgotten() -> None:
    policy = replace(POLICY, idle_ms=60_000)
    metadata = knowing(topic("orders", 1), topic("bills", 1), policy=policy)
    metadata.touch("orders", 50_000)
    metadata.touch("unknown", 50_000)
    update(metadata, 70_000, topic("orders", 1), topic("bills", 1))
    assert metadata.wanted == {"orders"}
    assert list(metadata.cluster.topics) == ["orders"]


def test_without_such_a_limit_they_stay() -> None:
    metadata = knowing(topic("orders", 1))
    update(metadata, 10**9, topic("orders", 1))
    assert metadata.wanted == {"orders"}


def test_only_what_is_wanted_is_kept() -> None:
    metadata = knowing(topic("orders", 1), topic("bills", 1))
    metadata.want_only(["bills", "notes"], 2000)
    assert metadata.wanted == {"bills", "notes"}
    assert asked(metadata.question(2000).request) == ["notes"]


def test_all_topics_are_asked_for_where_all_are_wanted() -> None:
    metadata = knowing(topic("orders", 1))
    metadata.want_all(True, 2000)
    question = metadata.question(2000)
    assert (metadata.due_ms(2000), asked(question.request)) == (2000, None)
    metadata.update(question, response(topic("orders", 1), topic("bills", 1)), 2000, MIDDLE)
    assert sorted(metadata.cluster.topics) == ["bills", "orders"]
    metadata.want_all(False, 3000)
    metadata.refresh()
    update(metadata, 3000, topic("orders", 1))
    assert list(metadata.cluster.topics) == ["orders"]


def test_asking_creates_topics_only_where_that_is_wanted() -> None:
    assert not Metadata(POLICY).question(0).request.allow_auto_topic_creation
    creating = Metadata(replace(POLICY, creates_topics=True))
    assert creating.question(0).request.allow_auto_topic_creation


def test_brokers_that_fail_for_long_are_given_up() -> None:
    metadata = knowing(topic("orders", 1))
    metadata.failed(10_000, MIDDLE)
    metadata.failed(69_999, MIDDLE)
    assert not metadata.needs_bootstrap(69_999)
    assert metadata.needs_bootstrap(70_000)
    metadata.forget_brokers()
    assert not metadata.cluster.is_known
    assert "orders" in metadata.cluster.topics
    assert not metadata.needs_bootstrap(80_000)


@pytest.mark.parametrize("limit_ms", [None, 60_000])
def test_an_answer_ends_the_count_of_failures(limit_ms: int | None) -> None:
    metadata = knowing(topic("orders", 1), policy=replace(POLICY, rebootstrap_after_ms=limit_ms))
    metadata.failed(10_000, MIDDLE)
    update(metadata, 20_000, topic("orders", 1))
    metadata.failed(30_000, MIDDLE)
    assert not metadata.needs_bootstrap(89_999)


def test_a_view_that_is_held_does_not_change() -> None:
    metadata = knowing(topic("orders", 1))
    held = metadata.cluster
    update(metadata, 2000, topic("orders", 2, epoch=1))
    assert held.leader(ORDERS_0) == Leader(1, 0)
    assert metadata.cluster.version == held.version + 1
