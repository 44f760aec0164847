"""Whom the admin client asks, and how often, with brokers that say what a test wants."""

from typing import Any

import pytest

from ottla.client.admin.calling import Caller
from ottla.client.admin.configs import alter_config
from ottla.client.admin.groups import (
    GroupType,
    delete_group,
    describe_group,
    group_overview,
    list_groups,
)
from ottla.client.admin.topics import (
    TopicInfo,
    add_partitions,
    create_topic,
    delete_topic,
)
from ottla.errors import (
    DeadlineError,
    ErrorCode,
    NotFoundError,
    RequestError,
    RetriableError,
    TopicExistsError,
    UnknownTopicError,
    UnsupportedError,
)
from ottla.model import TopicPartition
from ottla.wire.messages.create_partitions import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
)
from ottla.wire.registry import ApiKey
from tests.client.admin_world import ask, broker_with, in_turn, two_brokers
from tests.client.scripted import (
    HANG_UP,
    ScriptedBroker,
    api_versions,
    topic,
)

ORDERS = TopicPartition("orders", 0)
CONSUMER_GROUPS: tuple[GroupType, ...] = ("consumer",)


def created(code: int = 0, message: str | None = None) -> CreateTopicsResponse:
    result = CreatableTopicResult(name="orders", error_code=code, error_message=message)
    return CreateTopicsResponse(topics=(result,))


def deleted(**codes: int) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=tuple(DeletableTopicResult(name=n, error_code=c) for n, c in codes.items())
    )


def test_a_controller_that_is_none_any_more_is_asked_again_later() -> None:
    handler = in_turn(created(ErrorCode.NOT_CONTROLLER), created())
    broker = broker_with(ApiKey.CREATE_TOPICS, handler)

    info: TopicInfo = ask(broker, work=lambda caller: create_topic(caller, "orders"))

    assert [(p.id, p.leader, p.end_offset) for p in info.partitions] == [(0, 1, 5)]


def test_a_broker_is_not_told_to_take_longer_than_we_wait_for_its_answer() -> None:
    broker = broker_with(ApiKey.CREATE_TOPICS, in_turn(created()))

    ask(broker, work=lambda c: create_topic(c, "orders"), request_timeout_ms=1000)

    (sent,) = [h.body for h in broker.heard if isinstance(h.body, CreateTopicsRequest)]
    assert sent.timeout_ms == 1000


def test_creating_waits_until_the_brokers_know_the_topic() -> None:
    broker = broker_with(ApiKey.CREATE_TOPICS, in_turn(created()))
    unknown = topic("orders", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    told = [(unknown,), (topic("orders", -1),), (topic("orders", 1),)]
    plain = broker.handlers[ApiKey.METADATA]

    def metadata(request: MetadataRequest, version: int) -> Any:
        if request.topics:
            broker.topics = told.pop(0) if len(told) > 1 else told[0]
        return plain(request, version)

    broker.handlers[ApiKey.METADATA] = metadata

    info: TopicInfo = ask(broker, work=lambda caller: create_topic(caller, "orders"))

    assert [p.leader for p in info.partitions] == [1]


def test_a_topic_that_exists_is_an_error_in_the_brokers_words() -> None:
    handler = in_turn(created(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists."))
    broker = broker_with(ApiKey.CREATE_TOPICS, handler)

    with pytest.raises(TopicExistsError, match="already exists") as caught:
        ask(broker, work=lambda caller: create_topic(caller, "orders"))
    assert not hasattr(caught.value, "__notes__")

    info: TopicInfo = ask(
        broker_with(ApiKey.CREATE_TOPICS, handler),
        work=lambda caller: create_topic(caller, "orders", exists_ok=True),
    )
    assert info.name == "orders"


def test_after_a_lost_answer_an_existing_topic_may_be_our_own() -> None:
    handler = in_turn(HANG_UP, created(ErrorCode.TOPIC_ALREADY_EXISTS))
    broker = broker_with(ApiKey.CREATE_TOPICS, handler)

    with pytest.raises(TopicExistsError) as caught:
        ask(broker, work=lambda caller: create_topic(caller, "orders"))

    (note,) = caught.value.__notes__
    assert "got no answer" in note


def test_after_a_lost_answer_a_topic_that_is_gone_was_deleted() -> None:
    handler = in_turn(HANG_UP, deleted(orders=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    broker = broker_with(ApiKey.DELETE_TOPICS, handler)

    ask(broker, work=lambda caller: delete_topic(caller, "orders"))

    assert broker.count(DeleteTopicsRequest) == 2


def test_after_a_lost_answer_a_group_that_is_gone_was_deleted() -> None:
    gone = DeletableGroupResult(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    answer = DeleteGroupsResponse(results=(gone,))
    lost = broker_with(ApiKey.DELETE_GROUPS, in_turn(HANG_UP, answer))

    ask(lost, work=lambda caller: delete_group(caller, "g"))

    with pytest.raises(NotFoundError):
        ask(
            broker_with(ApiKey.DELETE_GROUPS, in_turn(answer)),
            work=lambda caller: delete_group(caller, "g"),
        )


def test_a_coordinator_that_was_not_found_has_deleted_nothing() -> None:
    gone = DeletableGroupResult(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    broker = broker_with(ApiKey.DELETE_GROUPS, in_turn(DeleteGroupsResponse(results=(gone,))))
    plain, lost = broker.handlers[ApiKey.FIND_COORDINATOR], [HANG_UP]
    broker.handlers[ApiKey.FIND_COORDINATOR] = lambda request, version: (
        lost.pop() if lost else plain(request, version)
    )

    with pytest.raises(NotFoundError):
        ask(broker, work=lambda caller: delete_group(caller, "g"))


def test_a_topic_that_timed_out_may_be_our_own() -> None:
    handler = in_turn(created(ErrorCode.REQUEST_TIMED_OUT), created(ErrorCode.TOPIC_ALREADY_EXISTS))

    with pytest.raises(TopicExistsError) as caught:
        ask(
            broker_with(ApiKey.CREATE_TOPICS, handler),
            work=lambda caller: create_topic(caller, "orders"),
        )

    assert "got no answer" in caught.value.__notes__[0]


def test_after_a_lost_answer_partitions_may_have_been_added() -> None:
    refused = CreatePartitionsTopicResult(name="orders", error_code=ErrorCode.INVALID_PARTITIONS)
    handler = in_turn(HANG_UP, CreatePartitionsResponse(results=(refused,)))
    broker = broker_with(ApiKey.CREATE_PARTITIONS, handler)

    with pytest.raises(RequestError) as caught:
        ask(broker, work=lambda caller: add_partitions(caller, "orders", total=3))

    assert "got no answer" in caught.value.__notes__[0]


def test_a_topic_that_does_not_exist_is_told_at_once() -> None:
    broker = broker_with(
        ApiKey.DELETE_TOPICS, in_turn(deleted(orders=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    )

    with pytest.raises(UnknownTopicError):
        ask(broker, work=lambda caller: delete_topic(caller, "orders"))

    assert broker.count(DeleteTopicsRequest) == 1


def test_of_many_only_those_are_asked_again_whose_error_may_pass() -> None:
    first = deleted(a=0, b=ErrorCode.THROTTLING_QUOTA_EXCEEDED, c=ErrorCode.INVALID_REQUEST)
    broker = broker_with(ApiKey.DELETE_TOPICS, in_turn(first, deleted(b=0)))

    with pytest.raises(RequestError) as caught:
        ask(broker, work=lambda caller: delete_topic(caller, "a", "b", "c"))

    assert caught.value.__notes__ == ["done: a, b"]
    heard = [h.body for h in broker.heard if isinstance(h.body, DeleteTopicsRequest)]
    assert [[state.name for state in body.topics] for body in heard] == [["a", "b", "c"], ["b"]]


def test_an_answer_that_leaves_something_out_is_an_error() -> None:
    broker = broker_with(ApiKey.DELETE_TOPICS, in_turn(deleted(a=0)))

    with pytest.raises(Exception, match="says nothing of b"):
        ask(broker, work=lambda caller: delete_topic(caller, "a", "b"))


def test_everything_in_a_call_shares_one_deadline() -> None:
    busy = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=())
    broker = broker_with(ApiKey.LIST_GROUPS, in_turn(busy))

    async def work(caller: Caller) -> int:
        began_ms = caller.engine.now_ms()
        with pytest.raises(DeadlineError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            await list_groups(caller)
        assert caller.left_ms == 0
        with pytest.raises(DeadlineError):
            await list_groups(caller)
        return caller.engine.now_ms() - began_ms

    took_ms = ask(broker, work=work, default_api_timeout_ms=5000)

    assert 5000 <= took_ms < 5100


def test_retries_can_be_limited() -> None:
    busy = deleted(a=ErrorCode.THROTTLING_QUOTA_EXCEEDED, b=0)
    broker = broker_with(ApiKey.DELETE_TOPICS, in_turn(busy))

    with pytest.raises(RetriableError, match="THROTTLING_QUOTA_EXCEEDED") as caught:
        ask(broker, work=lambda caller: delete_topic(caller, "a", "b"), max_retries=2)

    assert broker.count(DeleteTopicsRequest) == 3
    assert caught.value.__notes__ == ["done: b"]


def test_what_is_left_when_time_is_up_has_its_last_error_as_the_cause() -> None:
    busy = deleted(a=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    broker = broker_with(ApiKey.DELETE_TOPICS, in_turn(busy))

    with pytest.raises(DeadlineError) as caught:
        ask(broker, work=lambda caller: delete_topic(caller, "a"), default_api_timeout_ms=1000)

    assert "THROTTLING_QUOTA_EXCEEDED" in str(caught.value.__cause__)


def test_every_broker_tells_of_its_own_groups() -> None:
    one, two = two_brokers(())
    for broker, name in ((one, "b"), (two, "a")):
        listed = ListedGroup(group_id=name, protocol_type="consumer", group_state="Stable")
        broker.handlers[ApiKey.LIST_GROUPS] = in_turn(ListGroupsResponse(groups=(listed,)))

    assert ask(one, two, work=list_groups) == ["a", "b"]


def test_a_filter_that_a_broker_does_not_know_is_not_left_out_silently() -> None:
    broker = broker_with(ApiKey.LIST_GROUPS, in_turn(ListGroupsResponse(groups=())))
    broker.handlers[ApiKey.API_VERSIONS] = api_versions(highest={ApiKey.LIST_GROUPS: 4})

    ask(broker, work=lambda caller: group_overview(caller, states=("Stable",)))
    with pytest.raises(UnsupportedError, match="ListGroups"):
        ask(
            broker_without_types(),
            work=lambda caller: group_overview(caller, types=CONSUMER_GROUPS),
        )
    assert broker.count(ListGroupsRequest) == 1


def broker_without_types() -> ScriptedBroker:
    broker = broker_with(ApiKey.LIST_GROUPS, in_turn(ListGroupsResponse(groups=())))
    broker.handlers[ApiKey.API_VERSIONS] = api_versions(highest={ApiKey.LIST_GROUPS: 4})
    return broker


def test_a_group_that_an_old_broker_calls_dead_does_not_exist() -> None:
    dead = DescribedGroup(
        group_id="g", group_state="Dead", protocol_type="", protocol_data="", members=()
    )
    broker = broker_with(ApiKey.DESCRIBE_GROUPS, in_turn(DescribeGroupsResponse(groups=(dead,))))
    broker.handlers[ApiKey.API_VERSIONS] = api_versions(
        without=frozenset({ApiKey.CONSUMER_GROUP_DESCRIBE})
    )

    with pytest.raises(NotFoundError, match="'g'"):
        ask(broker, work=lambda caller: describe_group(caller, "g"))


def test_settings_of_a_broker_are_changed_there() -> None:
    one, two = two_brokers(())
    done = AlterConfigsResourceResponse(resource_type=4, resource_name="2")
    two.handlers[ApiKey.INCREMENTAL_ALTER_CONFIGS] = in_turn(
        IncrementalAlterConfigsResponse(responses=(done,))
    )

    ask(
        one,
        two,
        work=lambda caller: alter_config(
            caller, broker=2, set={"a": 1}, unset=["b"], append={"c": "x"}, subtract={"d": "y"}
        ),
    )

    (heard,) = [h.body for h in two.heard if isinstance(h.body, IncrementalAlterConfigsRequest)]
    (resource,) = heard.resources
    assert (resource.resource_type, resource.resource_name) == (4, "2")
    assert {(c.name, c.config_operation, c.value) for c in resource.configs} == {
        ("a", 0, "1"),
        ("b", 1, None),
        ("c", 2, "x"),
        ("d", 3, "y"),
    }
