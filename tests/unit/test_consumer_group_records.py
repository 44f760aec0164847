"""Consumer groups in the log: Kafka's record types, and logs that others have written."""

from ottla.coordinator.effects import StoredRecord
from ottla.coordinator.group.consumer.records import (
    Kind,
    Resolved,
    decode_change,
    epoch_record,
    pattern_record,
    target_record,
    tombstone,
)
from ottla.wire.stored.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    TopicPartitions,
)
from ottla.wire.stored.versioned import encode_key, encode_versioned, record_type_of
from tests.consumer_group_samples import Consumer, ConsumerDesk, places, topic_id, two
from tests.group_samples import GROUP, TOPIC


def old_topics_record() -> StoredRecord:
    """What Kafka 4.0 wrote of the topics of a group."""
    return StoredRecord(
        encode_key(ConsumerGroupPartitionMetadataKey(group_id=GROUP)),
        encode_versioned(ConsumerGroupPartitionMetadataValue(topics=()), 0),
    )


def newest(desk: ConsumerDesk) -> dict[int, int]:
    """How many keys of each type the log has that are not tombstones."""
    values = {record.key: record.value for record in desk.log}
    types = [record_type_of(key) for key, value in values.items() if value is not None]
    return {kind: types.count(kind) for kind in set(types)}


def test_a_group_is_spread_over_kafkas_types_of_records() -> None:
    desk = ConsumerDesk()
    Consumer(desk, "ada", options={"subscribed_topic_regex": "o.*"}).join()
    Consumer(desk, "bob").join()

    assert newest(desk) == {3: 1, 5: 2, 6: 1, 7: 2, 8: 2, 16: 1}


def test_the_bytes_of_a_record_are_kafkas() -> None:
    record = epoch_record("g", 5, 0)

    assert (record.key, record.value) == (b"\0\3\0\1g", b"\0\0\0\0\0\5\0")


def test_records_of_other_kinds_are_not_ours() -> None:
    assert decode_change(StoredRecord(b"\0\2\0\1g", None)) is None
    assert decode_change(StoredRecord(b"\0\x0b\0\1g", b"whatever")) is None


def test_tombstones_of_what_never_was_do_no_harm() -> None:
    desk = ConsumerDesk()

    for kind in Kind:
        desk.machine.apply(tombstone(kind, GROUP, "ada" if kind in (5, 7, 8, 16) else ""))

    assert desk.listed() == []


def test_an_assignment_that_does_not_say_since_when_is_as_old_as_its_member() -> None:
    desk, _, _ = two()
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=4,
        previous_member_epoch=3,
        state=0,
        assigned_partitions=(TopicPartitions(topic_id=topic_id(TOPIC), partitions=(0,)),),
        partitions_pending_revocation=(),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="ada")

    desk.machine.apply(StoredRecord(encode_key(key), encode_versioned(value, 0)))

    assert desk.consumer_group().members["ada"].assigned == dict.fromkeys(places(0), 4)


def test_a_record_that_is_no_longer_written_is_taken_back() -> None:
    desk, ada, _ = two()
    desk.log.append(old_topics_record())
    desk.restart()

    ada.report()

    assert 4 not in newest(desk)
    assert desk.consumer_group().has_old_topics is False


def test_a_hash_of_another_coordinator_is_replaced_once() -> None:
    desk, ada, bob = two()
    epoch = ada.epoch
    desk.log.append(epoch_record(GROUP, epoch, 12345))
    desk.restart()

    desk.settle(ada, bob)

    assert (ada.epoch, bob.epoch) == (epoch + 1, epoch + 1)


def test_an_expression_that_we_do_not_take_keeps_what_it_matched() -> None:
    """Whoever wrote the log understood it, and the member is none the wiser."""
    desk = ConsumerDesk()
    Consumer(desk, "ada", options={"subscribed_topic_regex": "or.*"}).join()
    (member,) = [r for r in desk.log if r.key.startswith(b"\0\5")]
    theirs = r"\bor.*"
    assert member.value is not None
    foreign = member.value.replace(b"\x05or.*", bytes([len(theirs) + 1]) + theirs.encode())
    desk.log += [
        StoredRecord(member.key, foreign),
        pattern_record(GROUP, theirs, Resolved(topics=frozenset({TOPIC}), resolved_ms=1)),
        tombstone(Kind.PATTERN, GROUP, "or.*"),
    ]
    desk.restart()

    answer = desk.beat("ada", 1)

    assert answer.error_code == 0
    assert desk.consumer_group().members["ada"].pattern == theirs
    assert desk.consumer_group().is_subscribed_to(TOPIC)


def test_a_target_is_read_back_as_it_was_written() -> None:
    change = decode_change(target_record(GROUP, "ada", places(2, 0)))

    assert change is not None
    assert change.value is not None
    (topic,) = change.value.topic_partitions
    assert (change.subject, topic.topic_id, topic.partitions) == ("ada", topic_id(TOPIC), (0, 2))
