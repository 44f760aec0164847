"""Committed offsets: who may commit, what is answered, how long they live, how they are stored."""

import pytest

from ottla.coordinator.effects import BATCH_BYTES, Persist, StoredRecord
from ottla.coordinator.group.records import (
    CommittedOffset,
    GroupChange,
    OffsetChange,
    OffsetKey,
    decode_record,
    group_tombstone,
    offset_record,
    offset_tombstone,
)
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from ottla.wire.schema import NO_UUID
from ottla.wire.stored.group_records import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from ottla.wire.stored.versioned import encode_key, encode_versioned
from tests.group_samples import GROUP, START_MS, TOPIC, Desk, in_state, pair, protocols

DAY_MS = 86_400_000
KEY = OffsetKey(GROUP, TOPIC, 0)


def test_an_offset_comes_back_as_it_was_committed() -> None:
    desk = Desk()

    assert desk.commit(42, metadata="checkpoint 7") == ErrorCode.NONE

    found = desk.fetch()
    assert (found.committed_offset, found.metadata, found.error_code) == (42, "checkpoint 7", 0)


def test_no_offset_is_minus_one_and_no_error() -> None:
    found = Desk().fetch()

    assert (found.committed_offset, found.metadata, found.error_code) == (-1, "", 0)


def test_a_note_may_be_as_long_as_the_limit_and_no_longer() -> None:
    desk = Desk(offset_metadata_max_bytes=4)

    assert desk.commit(metadata="four") == ErrorCode.NONE
    assert desk.commit(metadata="fives") == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert desk.commit(metadata="\N{OTTER}" * 3) == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_a_commit_in_which_everything_is_refused_writes_nothing() -> None:
    desk = Desk(offset_metadata_max_bytes=4)

    desk.commit(metadata="fives")

    assert desk.log == []


def test_a_group_that_only_commits_exists_without_members() -> None:
    desk = Desk()

    desk.commit()

    group = desk.describe()
    assert (group.group_state, group.protocol_type, group.members) == ("Empty", "", ())


def test_a_member_left_behind_cannot_move_the_group_back() -> None:
    desk, ada, bob = pair()
    desk.commit(100, member_id=bob, generation=2)
    desk.leave(ada)
    desk.join(bob)
    desk.sync(bob, 3, {bob: b"all"})

    assert desk.commit(50, member_id=ada, generation=2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.commit(60, member_id=bob, generation=2) == ErrorCode.ILLEGAL_GENERATION
    assert desk.fetch().committed_offset == 100


def test_every_partition_of_a_group_is_told_when_no_topic_is_named() -> None:
    desk = Desk()
    for topic, partition in (("b", 1), ("a", 0), ("b", 0)):
        desk.commit(5, topic=topic, partition=partition)

    new = desk.ask(
        "fetch",
        OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GROUP, topics=None),)),
        9,
    )
    old = desk.ask("fetch", OffsetFetchRequest(group_id=GROUP, topics=None), 7)

    expected = [("a", [0]), ("b", [0, 1])]
    for topics in (desk.answers[new].groups[0].topics, desk.answers[old].topics):
        found = [(t.name, [p.partition_index for p in t.partitions]) for t in topics]
        assert found == expected


@pytest.mark.parametrize("version", [1, 4, 5, 7])
def test_versions_with_one_group_answer_in_their_own_shape(version: int) -> None:
    desk = Desk()
    desk.commit(9)
    topics = (OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0, 1)),)

    ticket = desk.ask("fetch", OffsetFetchRequest(group_id=GROUP, topics=topics), version)

    partitions = desk.answers[ticket].topics[0].partitions
    assert [p.committed_offset for p in partitions] == [9, -1]


def test_offsets_of_a_topic_that_is_read_cannot_be_deleted() -> None:
    desk, ada = in_state("Stable")
    desk.commit(1, member_id=ada, generation=1)
    desk.commit(1, member_id=ada, generation=1, topic="old")

    read = desk.delete_offset(TOPIC).topics[0].partitions[0].error_code
    unread = desk.delete_offset("old").topics[0].partitions[0].error_code

    assert (read, unread) == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE)
    assert desk.fetch("old").committed_offset == -1


def test_offsets_of_connectors_cannot_be_deleted_while_they_run() -> None:
    desk = Desk()
    worker, _ = desk.enter(protocol_type="connect", spoken=protocols("sessioned"))
    desk.sync(worker, 1, {worker: b"tasks"})

    assert desk.delete_offset().error_code == ErrorCode.NON_EMPTY_GROUP


def test_deleting_a_group_deletes_its_offsets_and_survives_a_restart() -> None:
    desk, _ = in_state("Empty")
    desk.commit(1)

    assert desk.delete_groups(GROUP, "other", GROUP) == [0, ErrorCode.GROUP_ID_NOT_FOUND]

    for _ in range(2):
        assert desk.listed() == []
        assert desk.fetch().committed_offset == -1
        desk.restart()


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    desk = Desk()
    desk.commit(1)
    desk.commit(2, topic="kept")

    desk.perform(desk.machine.on_topics_deleted(frozenset({TOPIC})))

    assert desk.fetch().committed_offset == -1
    assert desk.fetch("kept").committed_offset == 2


OLD_ID, NEW_ID = b"o" * 16, b"n" * 16


def offset_of(offset: int, topic_id: bytes) -> CommittedOffset:
    return CommittedOffset(offset=offset, committed_ms=START_MS, topic_id=topic_id)


def test_offsets_of_topics_that_are_gone_or_others_by_now_are_forgotten_after_the_load() -> None:
    desk = Desk()
    for topic, topic_id in (("gone", NO_UUID), ("other", OLD_ID), ("same", OLD_ID), ("?", NO_UUID)):
        key, offset = OffsetKey(GROUP, topic, 0), offset_of(3, topic_id)
        desk.perform([Persist((offset_record(key, offset),))])

    known = {"other": NEW_ID, "same": OLD_ID, "?": NEW_ID}
    desk.perform(desk.machine.on_topics_known(known))

    for _ in range(2):
        found = {topic: desk.fetch(topic).committed_offset for topic in ("gone", *known)}
        assert found == {"gone": -1, "other": -1, "same": 3, "?": 3}
        desk.restart()


def test_an_old_offset_stays_while_a_transaction_is_about_to_replace_it() -> None:
    desk = Desk()
    old, new = offset_of(3, OLD_ID), offset_of(9, NEW_ID)
    desk.perform([Persist((offset_record(KEY, old),))])
    desk.machine.apply(offset_record(KEY, new), producer_id=7)

    desk.perform(desk.machine.on_topics_known({TOPIC: NEW_ID}))
    desk.machine.apply_marker(7, committed=True)

    assert desk.fetch().committed_offset == 9


def test_a_large_commit_is_written_in_several_batches() -> None:
    desk = Desk()
    places = tuple(
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=index, committed_metadata="x" * 4_000
        )
        for index in range(200)
    )
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=places)

    desk.ask("commit", OffsetCommitRequest(group_id=GROUP, member_id="", topics=(topic,)), 9)

    sizes = [
        sum(len(record.key) + len(record.value or b"") for record in effect.records)
        for effect in desk.effects
        if isinstance(effect, Persist)
    ]
    assert len(sizes) == 4
    assert max(sizes) <= BATCH_BYTES
    assert {desk.fetch(partition=index).committed_offset for index in range(200)} == {*range(200)}


def test_offsets_go_when_the_group_was_empty_for_the_retention() -> None:
    desk, ada = in_state("Stable")
    desk.commit(1, member_id=ada, generation=1)
    for _ in range(8 * 24 * 60):
        desk.heartbeat(ada, 1)
        desk.pass_time(9_000)
    desk.leave(ada)

    desk.pass_time(7 * DAY_MS - 1)
    assert desk.fetch().committed_offset == 1
    desk.pass_time(desk.config.offsets_retention_check_interval_ms)

    assert desk.fetch().committed_offset == -1
    assert desk.listed() == []
    desk.restart()
    assert desk.listed() == []


def test_offsets_of_a_topic_that_nobody_reads_any_more_go_while_the_group_lives() -> None:
    desk, ada = in_state("Stable", offsets_retention_minutes=1)
    desk.commit(1, member_id=ada, generation=1)
    desk.commit(1, member_id=ada, generation=1, topic="old")

    for _ in range(120):
        desk.heartbeat(ada, 1)
        desk.pass_time(9_000)

    assert desk.fetch().committed_offset == 1
    assert desk.fetch("old").committed_offset == -1


def test_a_simple_groups_offsets_go_when_they_were_not_committed_for_the_retention() -> None:
    desk = Desk(offsets_retention_minutes=60)
    desk.commit(1)
    desk.pass_time(40 * 60_000)
    desk.commit(2, partition=1)

    desk.pass_time(30 * 60_000)

    assert desk.fetch().committed_offset == -1
    assert desk.fetch(partition=1).committed_offset == 2
    desk.pass_time(60 * 60_000)
    assert desk.listed() == []


def test_a_commit_may_set_its_own_retention_before_v5() -> None:
    desk = Desk()
    desk.commit(1, version=4, retention_ms=1000)
    desk.restart()

    desk.pass_time(desk.config.offsets_retention_check_interval_ms)

    assert desk.fetch().committed_offset == -1


def test_an_offset_of_an_open_transaction_is_held_back_until_it_ends() -> None:
    desk = Desk()
    desk.commit(1)
    record = offset_record(KEY, CommittedOffset(offset=9, committed_ms=desk.now_ms))

    desk.machine.apply(record, producer_id=7)

    assert desk.fetch().committed_offset == 1
    assert desk.fetch(require_stable=True).error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    desk.machine.apply_marker(7, committed=True)
    assert desk.fetch(require_stable=True).committed_offset == 9


def test_an_aborted_transaction_leaves_no_offset_and_no_group() -> None:
    desk = Desk()
    record = offset_record(KEY, CommittedOffset(offset=9, committed_ms=desk.now_ms))
    desk.machine.apply(record, producer_id=7)

    desk.machine.apply_marker(7, committed=False)

    assert desk.fetch(require_stable=True).committed_offset == -1
    assert desk.listed() == []


def test_a_commit_during_a_transaction_is_newer_than_the_transactions_own() -> None:
    desk = Desk()
    record = offset_record(KEY, CommittedOffset(offset=9, committed_ms=desk.now_ms))
    desk.machine.apply(record, producer_id=7)
    desk.commit(20)

    desk.machine.apply_marker(7, committed=True)

    assert desk.fetch().committed_offset == 20


def test_an_offset_that_a_transaction_may_change_does_not_expire() -> None:
    desk = Desk(offsets_retention_minutes=1)
    desk.commit(1)
    record = offset_record(KEY, CommittedOffset(offset=9, committed_ms=desk.now_ms))
    desk.machine.apply(record, producer_id=7)

    desk.pass_time(DAY_MS)

    assert desk.fetch().committed_offset == 1


def test_records_are_the_bytes_that_kafka_writes() -> None:
    committed = CommittedOffset(offset=5, leader_epoch=2, metadata="m", committed_ms=1000)

    record = offset_record(OffsetKey("g", "t", 3), committed)

    assert record.key == b"\0\1\0\1g\0\1t\0\0\0\3"
    assert record.value == (
        b"\0\4" + (5).to_bytes(8) + (2).to_bytes(4) + b"\2m" + (1000).to_bytes(8) + b"\0"
    )


def test_a_generation_is_stored_in_the_version_that_kafka_writes() -> None:
    desk, ada = in_state("Stable")

    change = decode_record(desk.log[-1])

    assert desk.log[-1].key == b"\0\2\0\x0aorders-app"
    assert desk.log[-1].value is not None
    assert desk.log[-1].value[:2] == b"\0\4"
    assert isinstance(change, GroupChange)
    assert change.value is not None
    assert (change.value.generation, change.value.leader) == (1, ada)
    assert change.value.members[0].assignment == b"all"


@pytest.mark.parametrize(
    "committed",
    [
        CommittedOffset(offset=0, committed_ms=0),
        CommittedOffset(offset=2**62, leader_epoch=7, metadata="naïve 😀", committed_ms=START_MS),
        CommittedOffset(offset=5, committed_ms=1, topic_id=bytes(range(16))),
        CommittedOffset(offset=5, leader_epoch=7, committed_ms=1, expires_ms=START_MS),
    ],
)
def test_what_a_new_record_means_is_what_a_restart_reads(committed: CommittedOffset) -> None:
    written = offset_record(KEY, committed)
    assert decode_record(written) == decode_record(StoredRecord(written.key, written.value))


def test_offsets_of_long_ago_are_read() -> None:
    record = StoredRecord(
        encode_key(LegacyOffsetCommitKey(group=GROUP, topic=TOPIC, partition=0)),
        encode_versioned(LegacyOffsetCommitValue(offset=3, metadata="", commit_timestamp=1), 0),
    )
    desk = Desk()

    desk.machine.apply(record)

    assert desk.fetch().committed_offset == 3


def test_records_of_other_kinds_of_groups_are_skipped() -> None:
    desk = Desk()

    desk.machine.apply(StoredRecord(b"\0\x0a\0\1g", b"\0\0a share group"))

    assert desk.listed() == []


def test_tombstones_of_what_never_was_do_no_harm() -> None:
    desk = Desk()

    desk.machine.apply(group_tombstone(GROUP))
    desk.machine.apply(offset_tombstone(KEY))

    assert decode_record(offset_tombstone(KEY)) == OffsetChange(KEY, None)
    assert desk.listed() == []


def test_a_group_whose_metadata_is_gone_lives_on_with_its_offsets() -> None:
    desk, _ = in_state("Empty")
    desk.commit(4)

    desk.machine.apply(group_tombstone(GROUP))

    assert desk.fetch().committed_offset == 4
    assert desk.listed() == [GROUP]
