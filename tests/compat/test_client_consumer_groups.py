"""Groups of our consumers, of both protocols, and groups that they share with other libraries."""

import time
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import confluent_kafka
import pytest

import ottla
from ottla.errors import ErrorCode, UnsupportedError
from ottla.testing import TestBroker
from tests.kafka_cluster import OpenBroker, skip_before, until

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka

TIMEOUT_S = 90.0
FAST_HEARTBEATS = {
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 50,
}
_numbers = count(1)

Partitions = frozenset[ottla.TopicPartition]


@pytest.fixture(scope="module")
def shared(open_broker: OpenBroker) -> Iterator[TestBroker]:
    with open_broker(FAST_HEARTBEATS) as broker:
        yield broker


@pytest.fixture
def broker(shared: TestBroker) -> Iterator[TestBroker]:
    yield shared
    shared.reset()


@pytest.fixture
def topic(broker: TestBroker) -> str:
    """A topic with four partitions and three records in each."""
    name = f"grouped-{next(_numbers)}"
    broker.create_topic(name, partitions=4)
    for partition in range(4):
        broker.produce(name, "a", "b", "c", partition=partition)
    return name


class Diary(ottla.RebalanceListener):
    """Writes down what comes and goes."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, int]] = []

    def on_assigned(self, consumer: Any, partitions: Any) -> None:
        self.entries.append(("assigned", len(partitions)))

    def on_revoked(self, consumer: Any, partitions: Any) -> None:
        self.entries.append(("revoked", len(partitions)))

    def on_lost(self, consumer: Any, partitions: Any) -> None:
        self.entries.append(("lost", len(partitions)))

    def count(self, kind: str) -> int:
        return sum(number for entry, number in self.entries if entry == kind)


def member(broker: TestBroker, topic: str, **options: Any) -> "ottla.Consumer[Any, Any]":
    if options.get("group_protocol") == "consumer":
        skip_before("4.0", broker, "consumer groups (KIP-848) are a preview")
    given = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 20} | options
    return ottla.Consumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        **({"group_id": topic} | given),  # type: ignore[arg-type]
    )


def poll_until(condition: Callable[[], bool], *polls: Callable[[], object]) -> None:
    """Have everybody poll in turn until something is so."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it never came to be so"
        for poll in polls:
            poll()


def polls(*members: "ottla.Consumer[Any, Any]") -> list[Callable[[], object]]:
    return [lambda m=m: m.poll(0.02) for m in members]  # type: ignore[misc]


def shares(*members: Any) -> tuple[int, ...]:
    return tuple(
        len(m.assignment()) if callable(m.assignment) else len(m.assignment) for m in members
    )


def share(*members: "ottla.Consumer[Any, Any]") -> list[int]:
    return sorted(len(m.assignment) for m in members)


KINDS = [
    pytest.param({"assignors": ["range"]}, id="range"),
    pytest.param({"assignors": ["roundrobin"]}, id="roundrobin"),
    pytest.param({"assignors": ["sticky"]}, id="sticky"),
    pytest.param({"assignors": ["cooperative-sticky"]}, id="cooperative"),
    pytest.param({"group_protocol": "consumer"}, id="consumer"),
]


@pytest.mark.parametrize("options", KINDS)
def test_members_share_partitions_and_take_over_from_those_who_leave(
    broker: TestBroker, topic: str, options: dict[str, Any]
) -> None:
    with member(broker, topic, **options) as ada:
        poll_until(lambda: share(ada) == [4], *polls(ada))
        with member(broker, topic, **options) as bob:
            poll_until(lambda: share(ada, bob) == [2, 2], *polls(ada, bob))
            assert not ada.assignment & bob.assignment
        poll_until(lambda: share(ada) == [4], *polls(ada))


@pytest.mark.parametrize("options", KINDS)
def test_every_record_is_processed_once_while_members_come_and_go(
    broker: TestBroker, topic: str, options: dict[str, Any]
) -> None:
    seen: list[tuple[int, int]] = []

    def note(m: "ottla.Consumer[Any, Any]") -> Callable[[], object]:
        return lambda: seen.extend((r.partition, r.offset) for r in m.poll(0.02, max_records=1))

    with member(broker, topic, **options) as ada:
        poll_until(lambda: len(seen) >= 3, note(ada))
        with member(broker, topic, **options) as bob:
            poll_until(lambda: len(seen) >= 9, note(ada), note(bob))
        poll_until(lambda: len(seen) >= 12, note(ada))
    assert sorted(seen) == [(p, o) for p in range(4) for o in range(3)]


def test_eager_members_give_up_everything_and_cooperative_ones_what_they_must(
    broker: TestBroker, topic: str
) -> None:
    revoked = {}
    for name in ("range", "cooperative-sticky"):
        diary = Diary()
        group = {"group_id": f"{topic}-{name}", "assignors": [name]}
        with member(broker, topic, listener=diary, **group) as ada:
            poll_until(lambda: share(ada) == [4], *polls(ada))
            with member(broker, topic, **group) as bob:
                poll_until(lambda: share(ada, bob) == [2, 2], *polls(ada, bob))
                revoked[name] = diary.count("revoked")
    assert revoked == {"range": 4, "cooperative-sticky": 2}


def test_a_member_that_does_not_poll_loses_its_partitions_and_comes_back(
    broker: TestBroker, topic: str
) -> None:
    diary = Diary()
    with (
        ottla.Admin(broker.bootstrap_servers) as admin,
        member(
            broker, topic, listener=diary, max_poll_interval_ms=300, enable_auto_commit=False
        ) as ada,
    ):
        poll_until(lambda: share(ada) == [4], *polls(ada))
        until(lambda: not admin.describe_group(topic).members)
        with pytest.raises(ottla.CommitFailedError, match="is not in group"):
            ada.commit({ottla.TopicPartition(topic, 0): 1})
        poll_until(lambda: diary.count("assigned") == 8, *polls(ada))
    assert diary.entries[:3] == [("assigned", 4), ("lost", 4), ("assigned", 4)]


def test_a_static_member_comes_back_without_a_rebalance(broker: TestBroker, topic: str) -> None:
    diary = Diary()
    with member(broker, topic, listener=diary, group_instance_id="ada") as ada:
        bob = member(broker, topic, group_instance_id="bob").__enter__()
        poll_until(lambda: share(ada, bob) == [2, 2], *polls(ada, bob))
        generation, had = ada.group_metadata.generation_id, bob.assignment
        bob.close()
        entries = list(diary.entries)
        with member(broker, topic, group_instance_id="bob") as again:
            poll_until(lambda: len(again.assignment) == 2, *polls(again, ada))
            assert again.assignment == had
            assert again.group_metadata.generation_id == generation
        assert diary.entries == entries


def test_a_second_consumer_with_the_same_instance_id_fences_the_first(
    broker: TestBroker, topic: str
) -> None:
    diary = Diary()
    first = member(broker, topic, group_instance_id="me", listener=diary).__enter__()
    poll_until(lambda: share(first) == [4], *polls(first))
    with member(broker, topic, group_instance_id="me") as second:
        poll_until(lambda: share(second) == [4], *polls(second))
        with pytest.raises(ottla.FencedError):
            poll_until(lambda: False, *polls(first))

        def fenced() -> None:
            with pytest.raises(ottla.FencedError):
                first.poll(0.02)

        poll_until(lambda: share(first) == [0], fenced)
        fenced()
    assert diary.entries == [("assigned", 4), ("lost", 4)]
    first.close()


@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup", "OffsetFetch", "ListOffsets", "Fetch"])
def test_a_lost_reply_costs_time_and_nothing_else(broker: TestBroker, topic: str, api: str) -> None:
    broker.faults.drop_reply(api)
    seen: list[Any] = []
    with member(broker, topic) as ada:
        poll_until(lambda: len(seen) >= 12, lambda: seen.extend(ada.poll(0.05)))
    assert sorted((r.partition, r.offset) for r in seen) == [
        (p, o) for p in range(4) for o in range(3)
    ]


def test_a_broker_without_consumer_groups_is_told_from_others(
    broker: TestBroker, topic: str
) -> None:
    broker.faults.fail("ConsumerGroupHeartbeat", ErrorCode.UNSUPPORTED_VERSION)
    with (
        member(broker, topic, group_protocol="consumer") as ada,
        pytest.raises(UnsupportedError) as caught,
    ):
        poll_until(lambda: False, *polls(ada))
    assert "group_protocol='classic'" in caught.value.__notes__[0]


@pytest.mark.parametrize("options", [KINDS[0], KINDS[4]])
def test_a_member_survives_a_restart_of_the_broker(
    broker: TestBroker, topic: str, options: dict[str, Any]
) -> None:
    seen: list[tuple[int, int]] = []
    with member(broker, topic, **options) as ada:

        def note() -> None:
            seen.extend((r.partition, r.offset) for r in ada.poll(0.05))

        poll_until(lambda: len(seen) >= 12, note)
        broker.restart()
        broker.produce(topic, "d", partition=0)
        poll_until(lambda: (0, 3) in seen, note)
        ada.commit()
        committed = ada.committed()[ottla.TopicPartition(topic, 0)]
        assert committed is not None
        assert committed.offset == 4
    assert set(seen) == {(p, o) for p in range(4) for o in range(3)} | {(0, 3)}


def test_a_pattern_finds_topics_that_come_later(broker: TestBroker, topic: str) -> None:
    reader = ottla.Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id=topic,
        auto_offset_reset="earliest",
        metadata_max_age_ms=50,
    )
    with reader:
        reader.subscribe(f"{topic}(-more)?", pattern=True)
        poll_until(lambda: share(reader) == [4], *polls(reader))
        broker.create_topic(f"{topic}-more")
        poll_until(lambda: share(reader) == [5], *polls(reader))


def test_without_a_group_every_partition_is_read_also_those_that_come_later(
    broker: TestBroker, topic: str
) -> None:
    with (
        member(broker, topic, group_id=None, metadata_max_age_ms=50) as reader,
        ottla.Admin(broker.bootstrap_servers) as admin,
    ):
        poll_until(lambda: share(reader) == [4], *polls(reader))
        admin.add_partitions(topic, total=6)
        poll_until(lambda: share(reader) == [6], *polls(reader))


def test_new_partitions_are_shared_out_by_the_leader(broker: TestBroker, topic: str) -> None:
    with (
        member(broker, topic, metadata_max_age_ms=50) as ada,
        ottla.Admin(broker.bootstrap_servers) as admin,
    ):
        poll_until(lambda: share(ada) == [4], *polls(ada))
        admin.add_partitions(topic, total=6)
        poll_until(lambda: share(ada) == [6], *polls(ada))


def test_unsubscribing_and_subscribing_anew(broker: TestBroker, topic: str) -> None:
    diary = Diary()
    broker.create_topic(f"{topic}-other")
    with member(broker, topic, listener=diary) as ada:
        poll_until(lambda: share(ada) == [4], *polls(ada))
        ada.unsubscribe()
        assert ada.assignment == frozenset()
        assert diary.entries[-1] == ("revoked", 4)
        ada.subscribe([topic, f"{topic}-other"])
        poll_until(lambda: share(ada) == [5], *polls(ada))
        ada.subscribe(f"{topic}-other")
        poll_until(lambda: share(ada) == [1], *polls(ada))


class Weighted(ottla.Assignor):
    """Shares by weight, which members tell in their user data."""

    name = "weighted"

    def __init__(self, weight: int) -> None:
        self.weight = weight

    def user_data(self) -> bytes:
        return b"%d" % self.weight

    def assign(self, members: Any, partitions: Any) -> Any:
        slots = [m for m in sorted(members) for _ in range(int(members[m].user_data))]
        tps = [ottla.TopicPartition(t, p) for t, n in partitions.items() for p in range(n)]
        plan: dict[str, list[ottla.TopicPartition]] = {m: [] for m in members}
        for number, tp in enumerate(tps):
            plan[slots[number % len(slots)]].append(tp)
        return plan


class Broken(ottla.Assignor):
    name = "broken"

    def assign(self, members: Any, partitions: Any) -> Any:
        raise ZeroDivisionError


def test_an_assignor_of_the_users_own_sees_everybodys_user_data(
    broker: TestBroker, topic: str
) -> None:
    with (
        member(broker, topic, assignors=[Weighted(3)]) as ada,
        member(broker, topic, assignors=[Weighted(1)]) as bob,
    ):
        poll_until(lambda: shares(ada, bob) == (3, 1), *polls(ada, bob))


def test_an_assignor_that_fails_is_told_to_the_caller(broker: TestBroker, topic: str) -> None:
    with (
        member(broker, topic, assignors=[Broken()]) as ada,
        pytest.raises(ottla.MisuseError, match="assignor 'broken' failed: ZeroDivisionError"),
    ):
        poll_until(lambda: False, *polls(ada))


# With others.


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_a_group_with_a_member_of_confluent_kafka(
    broker: TestBroker, topic: str, assignor: str
) -> None:
    other = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": topic,
            "partition.assignment.strategy": assignor,
            "heartbeat.interval.ms": 100,
            "auto.offset.reset": "earliest",
        }
    )
    with member(broker, topic, assignors=[assignor]) as ada:
        other.subscribe([topic])
        poll_until(lambda: shares(ada, other) == (2, 2), *polls(ada), lambda: other.poll(0.02))
        other.close()
        poll_until(lambda: share(ada) == [4], *polls(ada))


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_a_group_with_a_member_of_kafka_python(
    broker: TestBroker, topic: str, assignor: str
) -> None:
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    kinds = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    other = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=topic,
        partition_assignment_strategy=[kinds[assignor]],
        heartbeat_interval_ms=100,
    )
    other.partitions_for_topic(topic)  # or it joins twice

    def poll_other() -> None:
        other.poll(20)
        if other._coordinator.rejoining:
            other._coordinator.request_rejoin()  # or it may forget that: see group_member

    with member(broker, topic, assignors=[assignor]) as ada:
        poll_until(lambda: shares(ada, other) == (2, 2), *polls(ada), poll_other)
        other.close()
        poll_until(lambda: share(ada) == [4], *polls(ada))
