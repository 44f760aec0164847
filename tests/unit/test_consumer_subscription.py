"""Subscriptions: names, patterns, and what cannot be one; options and settings agree."""

from types import MappingProxyType

import pytest

from ottla.client.cluster_view import ClusterView, TopicView
from ottla.client.config import plugs_of
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.options import ConsumerOptions
from ottla.client.consumer.subscription import Subscription, subscription_of
from ottla.config import settings_of
from ottla.errors import ConfigError


def cluster(*names: str, internal: str = "__consumer_offsets") -> ClusterView:
    topics = {name: TopicView(name=name, is_internal=name == internal) for name in names}
    return ClusterView(topics=MappingProxyType(topics))


def test_names_are_wanted_whether_they_exist_or_not() -> None:
    chosen = subscription_of(["a", "b"], is_pattern=False)
    assert chosen.matching(cluster("a"), excludes_internal=True) == {"a", "b"}
    assert subscription_of("a", is_pattern=False).topics == {"a"}


def test_a_pattern_matches_whole_names_of_topics_that_exist() -> None:
    chosen = subscription_of("order.*", is_pattern=True)
    known = cluster("orders", "orders.dlq", "reorders")
    assert chosen.matching(known, excludes_internal=True) == {"orders", "orders.dlq"}
    several = subscription_of(["a+", "b+"], is_pattern=True)
    assert several.matching(cluster("aa", "bb", "ab"), excludes_internal=True) == {"aa", "bb"}


def test_a_pattern_finds_internal_topics_only_if_asked_to() -> None:
    chosen = subscription_of(".*", is_pattern=True)
    known = cluster("a", "__consumer_offsets")
    assert chosen.matching(known, excludes_internal=True) == {"a"}
    assert chosen.matching(known, excludes_internal=False) == {"a", "__consumer_offsets"}


@pytest.mark.parametrize(("topics", "is_pattern"), [("a/b", False), ("(", True), ([""], False)])
def test_what_no_topic_can_be_called_is_refused(topics: str, is_pattern: bool) -> None:
    with pytest.raises(ConfigError):
        subscription_of(topics, is_pattern=is_pattern)


def test_without_topics_nothing_is_shared() -> None:
    assert not Subscription().is_shared
    assert Subscription(pattern="x").is_shared


def test_the_options_for_type_checkers_are_the_settings() -> None:
    declared = {s.attribute for s in settings_of(ConsumerConfig).values()}
    declared |= set(plugs_of(ConsumerConfig))
    arguments = {"bootstrap_servers", "group_id"}
    assert set(ConsumerOptions.__annotations__) == (declared - arguments) | {"config"}
