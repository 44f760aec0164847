"""What only a broker with users has, through our admin client: rules, passwords, quotas."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla
from ottla.client.admin.acls import Acl, AclFilter
from ottla.client.admin.quotas import DEFAULT, Quota
from ottla.client.admin.scram import ScramCredential
from ottla.errors import CredentialsError, DeniedError, NotFoundError
from tests.kafka.guarded import USER, Door, credentials
from tests.kafka_cluster import PATIENCE_S, until

SECRET = "countess"


@pytest.fixture
def ada(door: Door) -> Any:
    """Options of a client that is Ada."""
    return door.options("SASL", **credentials("SCRAM-SHA-256"))


@pytest.fixture
def nobody_but_bob(admin: ottla.Admin, topic: str) -> Iterator[Acl]:
    """A rule that shuts everybody else out of the topic."""
    rule = Acl(principal="User:bob", operation="all", resource="topic", name=topic)
    admin.create_acls(rule)
    until(lambda: rule in admin.describe_acls())
    yield rule
    admin.delete_acls(AclFilter(resource="topic", name=topic))


def is_denied(act: Callable[[], object]) -> bool:
    """Whether Ada is not allowed to do it."""
    try:
        act()
    except DeniedError:
        return True
    except ottla.DeliveryError as error:
        if not isinstance(error.cause, DeniedError):
            raise
        return True
    return False


def for_ada(operation: str, resource: str, name: str, permission: str = "allow") -> Acl:
    return Acl(
        principal=f"User:{USER}",
        operation=operation,
        resource=resource,
        name=name,
        permission=permission,
    )


def test_rules_are_made_found_and_deleted(admin: ottla.Admin, topic: str) -> None:
    rules = [for_ada("read", "topic", topic), for_ada("write", "topic", topic, "deny")]
    admin.create_acls(*rules)
    admin.create_acls(rules[0])

    mine = AclFilter(resource="topic", name=topic)
    until(lambda: sorted(admin.describe_acls(mine), key=str) == sorted(rules, key=str))
    assert admin.describe_acls(AclFilter(name=topic, permission="deny")) == [rules[1]]
    assert admin.delete_acls(AclFilter(name=topic, operation="read")) == [rules[0]]
    until(lambda: admin.describe_acls(AclFilter(name=topic, pattern="match")) == [rules[1]])
    admin.delete_acls(mine)
    until(lambda: admin.describe_acls(mine) == [])


def test_who_may_not_write_is_told_and_may_when_it_is_allowed(
    admin: ottla.Admin, ada: Any, topic: str, nobody_but_bob: Acl
) -> None:
    with ottla.Producer(**ada) as producer:
        with pytest.raises(DeniedError, match=topic):
            producer.send(topic, b"x").result(PATIENCE_S)
        admin.create_acls(for_ada("describe", "topic", topic))
        until(lambda: not is_denied(lambda: producer.partitions_for(topic)))
        with pytest.raises(ottla.DeliveryError) as caught:
            producer.send(topic, b"x").result(PATIENCE_S)
        assert isinstance(caught.value.cause, DeniedError)
        admin.create_acls(for_ada("write", "topic", topic))
        until(lambda: not is_denied(lambda: producer.send(topic, b"x").result(PATIENCE_S)))


def test_who_may_not_read_is_told_and_may_when_it_is_allowed(
    door: Door, admin: ottla.Admin, ada: Any, topic: str, nobody_but_bob: Acl
) -> None:
    with ottla.Producer(door.kafka.bootstrap_servers) as producer:
        producer.send(topic, b"x")
    admin.create_acls(for_ada("describe", "topic", topic))
    until(lambda: len(admin.describe_acls(AclFilter(name=topic))) == 2)
    with ottla.Consumer(**ada, auto_offset_reset="earliest") as consumer:
        consumer.assign([ottla.TopicPartition(topic, 0)])
        with pytest.raises(DeniedError):
            consumer.poll(PATIENCE_S)
        admin.create_acls(for_ada("read", "topic", topic))
        until(lambda: not is_denied(lambda: consumer.poll(PATIENCE_S)))
        assert consumer.position(ottla.TopicPartition(topic, 0)) == 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_who_may_not_join_a_group_is_told(
    admin: ottla.Admin, ada: Any, topic: str, protocol: Any
) -> None:
    admin.create_acls(rule := for_ada("read", "group", f"of-{topic}", "deny"))
    until(lambda: rule in admin.describe_acls())
    with (
        ottla.Consumer(topic, group_id=f"of-{topic}", group_protocol=protocol, **ada) as consumer,
        pytest.raises(DeniedError, match=f"of-{topic}"),
    ):
        consumer.poll(PATIENCE_S)
    admin.delete_acls(AclFilter(name=f"of-{topic}"))


def test_who_may_not_use_a_transactional_id_is_told(
    admin: ottla.Admin, ada: Any, topic: str
) -> None:
    admin.create_acls(rule := for_ada("write", "transactional_id", f"of-{topic}", "deny"))
    until(lambda: rule in admin.describe_acls())
    with (
        ottla.Producer(transactional_id=f"of-{topic}", **ada) as producer,
        pytest.raises(DeniedError),
        producer.transaction(),
    ):
        raise AssertionError("it may not be begun")
    admin.delete_acls(AclFilter(name=f"of-{topic}"))


def test_who_may_not_change_a_topic_is_told(
    admin: ottla.Admin, ada: Any, topic: str, nobody_but_bob: Acl
) -> None:
    # Whoever may delete in the cluster may delete every topic.
    admin.create_acls(for_ada("delete", "cluster", "kafka-cluster", "deny"))
    settings = {"retention.ms": 1000}
    with ottla.Admin(**ada) as mine:
        until(lambda: topic not in mine.list_topics())
        until(lambda: is_denied(lambda: mine.alter_config(topic=topic, set=settings, dry_run=True)))
        with pytest.raises(DeniedError):
            mine.delete_topic(topic)
        with pytest.raises(DeniedError):
            mine.add_partitions(topic, total=2)
    admin.delete_acls(AclFilter(resource="cluster"))


def test_a_password_is_set_changed_and_taken_away(door: Door, admin: ottla.Admin) -> None:
    options = door.options(
        "SASL", sasl_mechanism="SCRAM-SHA-512", sasl_username="bob", sasl_password=SECRET
    )
    with pytest.raises(NotFoundError):
        admin.describe_scram_users(["bob"])

    admin.set_scram_password("bob", SECRET, iterations=4096)
    bob = ScramCredential(mechanism="SCRAM-SHA-512", iterations=4096)
    until(lambda: admin.describe_scram_users().get("bob") == (bob,))
    with ottla.Admin(**options) as bobs:
        bobs.list_topics()

    admin.set_scram_password("bob", "another")
    until(lambda: is_unknown(options))

    admin.delete_scram_password("bob")
    with pytest.raises(NotFoundError):
        admin.delete_scram_password("bob")
    until(lambda: "bob" not in admin.describe_scram_users())


def is_unknown(options: Any) -> bool:
    """Whether nobody with these credentials is let in."""
    try:
        with ottla.Admin(**options):
            return False
    except CredentialsError:
        return True


def test_quotas_are_set_found_and_taken_away(admin: ottla.Admin) -> None:
    limits = {"producer_byte_rate": 1e6, "request_percentage": 50.0}
    admin.alter_quotas(user="bob", limits=limits)
    admin.alter_quotas(user="bob", client_id=DEFAULT, limits={"consumer_byte_rate": 5.0})
    admin.alter_quotas(user="bob", limits={"consumer_byte_rate": 1.0}, dry_run=True)

    plain = Quota(user="bob", client_id=None, ip=None, limits=limits)
    both = Quota(user="bob", client_id=DEFAULT, ip=None, limits={"consumer_byte_rate": 5.0})
    until(lambda: admin.describe_quotas(user="bob", client_id=DEFAULT) == [both])
    assert admin.describe_quotas(user="bob", strict=True) == [plain]

    admin.alter_quotas(user="bob", limits=dict.fromkeys(limits))
    admin.alter_quotas(user="bob", client_id=DEFAULT, limits={"consumer_byte_rate": None})
    until(lambda: admin.describe_quotas(user="bob") == [])
