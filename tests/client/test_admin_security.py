"""ACLs, passwords, quotas, features and replicas: what is sent, and what is made of the answer.

Ottla's broker has none of these yet, so brokers here are scripted; all goes through the codec.
"""

import hashlib
from typing import Any

import pytest

import ottla
from ottla.client.admin.acls import Acl, AclFilter, create_acls, delete_acls, describe_acls
from ottla.client.admin.calling import Caller
from ottla.client.admin.cluster import describe_cluster, describe_log_dirs, update_features
from ottla.client.admin.quotas import DEFAULT, Quota, alter_quotas, describe_quotas
from ottla.client.admin.replicas import (
    Reassignment,
    elect_leaders,
    list_reassignments,
    reassign_partitions,
)
from ottla.client.admin.scram import (
    ScramCredential,
    delete_scram_password,
    describe_scram_users,
    set_scram_password,
)
from ottla.errors import (
    ConflictError,
    ErrorCode,
    NotFoundError,
    RefreshError,
    RequestError,
    UnsupportedError,
)
from ottla.model import TopicPartition
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasResponse,
    EntryResult,
)
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ottla.wire.messages.create_acls import AclCreationResult, CreateAclsResponse
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.wire.messages.describe_client_quotas import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from ottla.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult
from ottla.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.wire.messages.elect_leaders import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.wire.messages.update_features import UpdateFeaturesResponse
from ottla.wire.registry import ApiKey
from tests.client.admin_world import ask, in_turn
from tests.client.scripted import ScriptedBroker

READ_ORDERS = Acl(principal="User:ada", operation="read", resource="topic", name="orders")
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def broker_that(key: ApiKey, *answers: Any) -> ScriptedBroker:
    broker = ScriptedBroker()
    broker.handlers[key] = in_turn(*answers)
    return broker


def heard(broker: ScriptedBroker) -> Any:
    """The last request."""
    return broker.heard[-1].body


def test_a_rule_is_sent_with_the_protocols_numbers() -> None:
    broker = broker_that(ApiKey.CREATE_ACLS, CreateAclsResponse(results=(AclCreationResult(),)))
    rule = Acl(
        principal="User:bob",
        operation="two_phase_commit",
        resource="transactional_id",
        name="pay-",
        permission="deny",
        pattern="prefixed",
        host="10.0.0.1",
    )

    ask(broker, work=lambda caller: create_acls(caller, rule))

    (sent,) = heard(broker).creations
    assert (sent.resource_type, sent.resource_name, sent.resource_pattern_type) == (5, "pay-", 4)
    assert (sent.principal, sent.host, sent.operation, sent.permission_type) == (
        "User:bob",
        "10.0.0.1",
        15,
        2,
    )


def test_a_rule_that_is_refused_is_raised_in_the_brokers_words() -> None:
    refused = AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message="no such host")
    answer = CreateAclsResponse(results=(AclCreationResult(), refused))
    other = Acl(principal="User:bob", operation="read", resource="topic", name="a", host="?")

    with pytest.raises(RequestError, match="no such host"):
        ask(
            broker_that(ApiKey.CREATE_ACLS, answer),
            work=lambda caller: create_acls(caller, READ_ORDERS, other),
        )


def test_words_that_mean_nothing_are_refused_before_anything_is_sent() -> None:
    rule = Acl(principal="User:ada", operation="raed", resource="topic", name="orders")
    broker = ScriptedBroker()

    with pytest.raises(RequestError, match="operation 'raed' is none of all, read"):
        ask(broker, work=lambda caller: create_acls(caller, rule))


def test_rules_are_found_by_a_filter_in_which_none_is_anything() -> None:
    found = AclDescription(principal="User:ada", host="*", operation=3, permission_type=3)
    strange = AclDescription(principal="User:ada", host="*", operation=99, permission_type=3)
    resource = DescribeAclsResource(
        resource_type=2, resource_name="orders", pattern_type=3, acls=(found, strange)
    )
    broker = broker_that(ApiKey.DESCRIBE_ACLS, DescribeAclsResponse(resources=(resource,)))

    rules = ask(
        broker,
        work=lambda caller: describe_acls(caller, AclFilter(resource="topic", name="orders")),
    )

    assert rules[0] == READ_ORDERS
    assert rules[1].operation == "unknown (99)"
    sent = heard(broker)
    assert (sent.resource_type_filter, sent.resource_name_filter, sent.pattern_type_filter) == (
        2,
        "orders",
        1,
    )
    assert (sent.principal_filter, sent.host_filter, sent.operation) == (None, None, 1)


def test_deleted_rules_are_returned() -> None:
    gone = DeleteAclsMatchingAcl(
        resource_type=2,
        resource_name="orders",
        pattern_type=3,
        principal="User:ada",
        host="*",
        operation=3,
        permission_type=3,
    )
    answer = DeleteAclsResponse(filter_results=(DeleteAclsFilterResult(matching_acls=(gone,)),))
    broker = broker_that(ApiKey.DELETE_ACLS, answer)

    rules = ask(broker, work=lambda caller: delete_acls(caller, AclFilter(principal="User:ada")))

    assert rules == [READ_ORDERS]


def test_without_an_authorizer_it_says_so() -> None:
    answer = DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer", resources=()
    )

    with pytest.raises(UnsupportedError, match="No Authorizer"):
        ask(broker_that(ApiKey.DESCRIBE_ACLS, answer), work=describe_acls)


def test_a_password_is_sent_salted_and_hashed() -> None:
    done = AlterUserScramCredentialsResult(user="ada")
    broker = broker_that(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS, AlterUserScramCredentialsResponse(results=(done,))
    )

    ask(broker, work=lambda c: set_scram_password(c, "ada", "sésame", mechanism="SCRAM-SHA-256"))

    (sent,) = heard(broker).upsertions
    assert (sent.name, sent.mechanism, sent.iterations) == ("ada", 1, 8192)
    expected = hashlib.pbkdf2_hmac("sha256", "sésame".encode(), sent.salt, 8192)
    assert sent.salted_password == expected
    assert len(sent.salt) == 24


def test_a_password_is_taken_away() -> None:
    missing = AlterUserScramCredentialsResult(
        user="ada", error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message="no such credential"
    )
    broker = broker_that(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS, AlterUserScramCredentialsResponse(results=(missing,))
    )

    with pytest.raises(NotFoundError, match="no such credential"):
        ask(broker, work=lambda caller: delete_scram_password(caller, "ada"))

    (sent,) = heard(broker).deletions
    assert (sent.name, sent.mechanism) == ("ada", 2)


@pytest.mark.parametrize(
    ("user", "password", "iterations"), [("ada", "x", 10), ("ada", "", 8192), ("", "x", 8192)]
)
def test_weak_passwords_are_refused(user: str, password: str, iterations: int) -> None:
    with pytest.raises(RequestError, match="UNACCEPTABLE_CREDENTIAL"):
        ask(
            ScriptedBroker(),
            work=lambda c: set_scram_password(c, user, password, iterations=iterations),
        )


def test_users_and_their_mechanisms_are_listed() -> None:
    told = DescribeUserScramCredentialsResult(
        user="ada", credential_infos=(CredentialInfo(mechanism=2, iterations=8192),)
    )
    broker = broker_that(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        DescribeUserScramCredentialsResponse(results=(told,)),
    )

    users = ask(broker, work=describe_scram_users)

    assert users == {"ada": (ScramCredential(mechanism="SCRAM-SHA-512", iterations=8192),)}
    assert heard(broker).users is None


def test_quotas_are_found_by_their_parts() -> None:
    entry = EntryData(
        entity=(EntityData(entity_type="user", entity_name=None),),
        values=(ValueData(key="producer_byte_rate", value=1e6),),
    )
    broker = broker_that(
        ApiKey.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasResponse(entries=(entry,))
    )

    found = ask(
        broker,
        work=lambda c: describe_quotas(c, user=DEFAULT, client_id="*", ip="10.0.0.1", strict=True),
    )

    limits = {"producer_byte_rate": 1e6}
    assert found == [Quota(user=DEFAULT, client_id=None, ip=None, limits=limits)]
    sent = heard(broker)
    assert [(c.entity_type, c.match_type, c.match) for c in sent.components] == [
        ("user", 1, None),
        ("client-id", 2, None),
        ("ip", 0, "10.0.0.1"),
    ]
    assert sent.strict


def test_limits_are_set_and_taken_away() -> None:
    broker = broker_that(
        ApiKey.ALTER_CLIENT_QUOTAS,
        AlterClientQuotasResponse(entries=(EntryResult(entity=()),)),
    )

    ask(broker, work=lambda c: alter_quotas(c, user=DEFAULT, limits={"a": 5, "b": None}))

    (sent,) = heard(broker).entries
    assert [(part.entity_type, part.entity_name) for part in sent.entity] == [("user", None)]
    assert [(op.key, op.value, op.remove) for op in sent.ops] == [("a", 5, False), ("b", 0, True)]


def test_features_are_raised_to_a_level() -> None:
    broker = broker_that(ApiKey.UPDATE_FEATURES, UpdateFeaturesResponse())

    ask(broker, work=lambda c: update_features(c, {"metadata.version": 25}, dry_run=True))

    (sent,) = heard(broker).feature_updates
    assert (sent.feature, sent.max_version_level, sent.upgrade_type) == ("metadata.version", 25, 1)
    assert heard(broker).validate_only


def test_brokers_out_of_reach_are_told_of_if_wanted() -> None:
    fenced = DescribeClusterBroker(broker_id=2, host="two", port=9092, rack="r", is_fenced=True)
    broker = broker_that(
        ApiKey.DESCRIBE_CLUSTER, DescribeClusterResponse(cluster_id="c", brokers=(fenced,))
    )

    info = ask(broker, work=lambda c: describe_cluster(c, include_fenced=True))

    assert (info.controller, info.brokers[0].is_fenced) == (None, True)
    assert heard(broker).include_fenced_brokers


def test_a_folder_that_is_broken_says_why() -> None:
    broken = DescribeLogDirsResult(
        error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir="/data", topics=()
    )
    broker = broker_that(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsResponse(results=(broken,)))

    (folder,) = ask(broker, work=describe_log_dirs)[1]

    assert isinstance(folder.error, RefreshError)
    assert (folder.path, folder.total_bytes) == ("/data", None)


def elected(*codes: int) -> ElectLeadersResponse:
    results = tuple(PartitionResult(partition_id=i, error_code=c) for i, c in enumerate(codes))
    return ElectLeadersResponse(
        replica_election_results=(ReplicaElectionResult(topic="orders", partition_result=results),)
    )


def test_an_election_that_was_not_needed_is_no_error() -> None:
    broker = broker_that(ApiKey.ELECT_LEADERS, elected(0, ErrorCode.ELECTION_NOT_NEEDED))

    assert ask(broker, work=lambda c: elect_leaders(c, [P0, P1])) == [P0]


def test_an_election_without_a_candidate_is_one() -> None:
    broker = broker_that(ApiKey.ELECT_LEADERS, elected(0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE))

    with pytest.raises(RefreshError) as caught:
        ask(broker, work=elect_leaders)

    assert caught.value.__notes__ == ["done: orders-0"]
    assert heard(broker).topic_partitions is None


def test_reassignments_are_begun_and_stopped() -> None:
    told = tuple(
        ReassignablePartitionResponse(partition_index=index, error_code=code)
        for index, code in ((0, 0), (1, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS))
    )
    answer = AlterPartitionReassignmentsResponse(
        responses=(ReassignableTopicResponse(name="orders", partitions=told),)
    )
    broker = broker_that(ApiKey.ALTER_PARTITION_REASSIGNMENTS, answer)

    with pytest.raises(ConflictError):
        ask(broker, work=lambda c: reassign_partitions(c, {P0: [2, 3], P1: None}))

    (sent,) = heard(broker).topics
    assert [(p.partition_index, p.replicas) for p in sent.partitions] == [(0, (2, 3)), (1, None)]


def test_reassignments_under_way_are_listed() -> None:
    moving = OngoingPartitionReassignment(
        partition_index=0, replicas=(1, 2), adding_replicas=(2,), removing_replicas=(1,)
    )
    answer = ListPartitionReassignmentsResponse(
        topics=(OngoingTopicReassignment(name="orders", partitions=(moving,)),)
    )
    broker = broker_that(ApiKey.LIST_PARTITION_REASSIGNMENTS, answer)

    found = ask(broker, work=list_reassignments)

    assert found == {P0: Reassignment(replicas=(1, 2), adding=(2,), removing=(1,))}


def test_ottlas_broker_says_that_it_has_no_access_control() -> None:
    with ottla.Broker() as broker, ottla.Admin(broker.bootstrap_servers) as admin:
        with pytest.raises(UnsupportedError, match="no version of DescribeAcls"):
            admin.describe_acls()
        with pytest.raises(UnsupportedError, match="no version of AlterUserScramCredentials"):
            admin.set_scram_password("ada", "sesame")
        with pytest.raises(UnsupportedError, match="no version of DescribeClientQuotas"):
            admin.describe_quotas()


def test_nothing_to_do_asks_nobody() -> None:
    broker = ScriptedBroker()

    async def work(caller: Caller) -> list[Acl]:
        await create_acls(caller)
        return await delete_acls(caller)

    assert ask(broker, work=work) == []
