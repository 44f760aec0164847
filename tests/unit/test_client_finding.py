"""Coordinators that move, versions that both sides speak, addresses, counters."""

import pytest

from ottla.client.addresses import Address, parse_bootstrap
from ottla.client.cluster_view import Node
from ottla.client.coordinators import Coordinators
from ottla.client.metrics import Metrics
from ottla.client.targets import ANY, CONTROLLER, LeaderOf, group, transaction
from ottla.client.versions import BrokerVersions, fallback_version
from ottla.errors import ConfigError, ErrorCode, OttlaError, RefreshError, UnsupportedError
from ottla.model import TopicPartition
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.wire.registry import ApiKey, api

HERE = Node(3, "host", 9092)
BILLING = group("billing")


def told(key: str, error: int = 0) -> FindCoordinatorResponse:
    found = Coordinator(key=key, node_id=3, host="host", port=9092, error_code=error)
    return FindCoordinatorResponse(coordinators=(found,))


def knowing() -> Coordinators:
    coordinators = Coordinators()
    assert coordinators.update(BILLING, told("billing")) == HERE
    return coordinators


def test_a_coordinator_is_asked_for_by_kind_and_key() -> None:
    assert Coordinators().question(BILLING).coordinator_keys == ("billing",)
    assert Coordinators().question(BILLING).key_type == 0
    assert Coordinators().question(transaction("t")).key_type == 1


def test_a_coordinator_that_was_found_is_kept() -> None:
    coordinators = knowing()
    assert coordinators.node(BILLING) == HERE
    assert coordinators.node(transaction("billing")) is None


def test_a_group_without_a_coordinator_is_an_error_to_try_again_after() -> None:
    for answer in (
        told("billing", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        told("another"),
        FindCoordinatorResponse(),
    ):
        error = Coordinators().update(BILLING, answer)
        assert isinstance(error, RefreshError)


def test_a_refusal_to_tell_is_an_error_that_stays() -> None:
    coordinators = knowing()
    error = coordinators.update(BILLING, told("billing", ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert isinstance(error, OttlaError)
    assert not error.retriable
    assert coordinators.node(BILLING) is None


@pytest.mark.parametrize(
    ("code", "is_forgotten"),
    [
        (ErrorCode.NOT_COORDINATOR, True),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False),
        (ErrorCode.REBALANCE_IN_PROGRESS, False),
        (ErrorCode.NONE, False),
    ],
)
def test_a_coordinator_is_forgotten_when_it_denies_it(code: ErrorCode, is_forgotten: bool) -> None:
    coordinators = knowing()
    assert coordinators.hears(BILLING, code) is is_forgotten
    assert (coordinators.node(BILLING) is None) is is_forgotten


def test_a_lost_node_coordinates_nothing() -> None:
    coordinators = knowing()
    coordinators.node_lost(4)
    assert coordinators.node(BILLING) == HERE
    coordinators.node_lost(3)
    assert coordinators.node(BILLING) is None


def test_targets_say_who_is_meant() -> None:
    targets = [ANY, CONTROLLER, BILLING, transaction("t"), LeaderOf(TopicPartition("orders", 1))]
    assert [str(target) for target in targets] == [
        "any broker",
        "the controller",
        "group 'billing'",
        "transactional id 't'",
        "the leader of orders-1",
    ]


def speaking(low: int, high: int) -> BrokerVersions:
    return BrokerVersions.of(
        ApiVersionsResponse(
            api_keys=(ApiVersion(api_key=ApiKey.METADATA, min_version=low, max_version=high),),
            finalized_features=(
                FinalizedFeatureKey(
                    name="transaction.version", max_version_level=2, min_version_level=2
                ),
            ),
            finalized_features_epoch=12,
        )
    )


@pytest.mark.parametrize(
    ("theirs", "limits", "version"),
    [((0, 8), (None, None), 8), ((4, 99), (None, None), 13), ((0, 13), (4, 5), 5)],
)
def test_the_newest_version_that_suits_everybody_is_picked(
    theirs: tuple[int, int], limits: tuple[int | None, int | None], version: int
) -> None:
    low, high = limits
    picked = speaking(*theirs).pick(api(ApiKey.METADATA), min_version=low, max_version=high)
    assert picked == version


@pytest.mark.parametrize(
    ("theirs", "limits", "reason"),
    [
        ((90, 99), (None, None), "the broker speaks v90-99 of Metadata, not v0-13"),
        ((0, 3), (4, None), "the broker speaks v0-3 of Metadata, not v4-13"),
        ((9, 9), (None, 8), "the broker speaks v9 of Metadata, not v0-8"),
    ],
)
def test_without_a_common_version_the_error_says_who_speaks_what(
    theirs: tuple[int, int], limits: tuple[int | None, int | None], reason: str
) -> None:
    low, high = limits
    with pytest.raises(UnsupportedError, match=reason):
        speaking(*theirs).pick(api(ApiKey.METADATA), min_version=low, max_version=high)


def test_an_api_that_the_broker_lacks_has_no_version() -> None:
    with pytest.raises(UnsupportedError, match="speaks no version of Produce"):
        speaking(0, 1).pick(api(ApiKey.PRODUCE))
    assert not speaking(0, 1).supports(ApiKey.PRODUCE)
    assert speaking(0, 4).supports(ApiKey.METADATA, 4)
    assert not speaking(0, 4).supports(ApiKey.METADATA, 5)


def test_features_are_kept() -> None:
    assert speaking(0, 1).features == {"transaction.version": 2}
    assert speaking(0, 1).features_epoch == 12


def test_an_old_broker_says_in_which_version_to_ask_it() -> None:
    old = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=3)
    assert fallback_version(ApiVersionsResponse(error_code=35, api_keys=(old,))) == 3
    assert fallback_version(ApiVersionsResponse(error_code=35, api_keys=())) == 0


@pytest.mark.parametrize(
    ("servers", "addresses"),
    [
        (["localhost"], [("localhost", 9092)]),
        (["a:1", " b:2 ", ""], [("a", 1), ("b", 2)]),
        (["[::1]:9093", "[::1]", "::1"], [("::1", 9093), ("::1", 9092), ("::1", 9092)]),
    ],
)
def test_brokers_are_named_by_host_and_port(
    servers: list[str], addresses: list[tuple[str, int]]
) -> None:
    assert parse_bootstrap(servers) == addresses


@pytest.mark.parametrize("text", ["", ":9092", "a:b", "a:70000", "[::1", "[::1]x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="like"):
        parse_bootstrap([text])


def test_addresses_and_nodes_are_shown_as_they_are_written() -> None:
    assert [str(Address("::1", 1)), str(Address("a", 2))] == ["[::1]:1", "a:2"]
    assert [str(Node(-1, "a", 2)), str(Node(7, "a", 2))] == ["a:2", "broker 7 (a:2)"]


def test_counters_count_and_a_snapshot_stands_still() -> None:
    metrics = Metrics()
    metrics.count("request-total")
    metrics.count("request-total", 2)
    metrics.set("connection-count", 4)
    before = metrics.snapshot()
    for latency_ms in (1.0, 3.0):
        metrics.answered(latency_ms)
    metrics.count("request-total")
    assert before == {"connection-count": 4, "request-total": 3}
    assert metrics.snapshot() == {
        "connection-count": 4,
        "request-latency-avg": 2.0,
        "request-latency-max": 3.0,
        "request-total": 4,
        "response-total": 2,
    }
