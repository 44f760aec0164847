"""Consumer groups and their offsets: who may commit and fetch, and what deleting takes along."""

import pytest

from ottla.coordinator.effects import Persist
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.consumer_group_samples import Consumer, ConsumerDesk, two
from tests.group_samples import GROUP, TOPIC

WEEK_MS = 7 * 24 * 60 * 60_000


def fetch_code(desk: ConsumerDesk, member_id: str | None, epoch: int) -> int:
    group = OffsetFetchRequestGroup(
        group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=None
    )
    answer = desk.answers[desk.ask("fetch", OffsetFetchRequest(groups=(group,)), 9)]
    code: int = answer.groups[0].error_code
    return code


def txn_code(desk: ConsumerDesk, member_id: str, epoch: int, version: int = 6) -> int:
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_metadata=None
    )
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=GROUP,
        producer_id=1,
        producer_epoch=0,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=(TxnOffsetCommitRequestTopic(name=TOPIC, partitions=(partition,)),),
    )
    answer = desk.answers[desk.ask("txn_commit", request, version)]
    code: int = answer.topics[0].partitions[0].error_code
    return code


def test_a_member_commits_in_its_epoch() -> None:
    desk, ada, _ = two()

    assert desk.commit(5, member_id="ada", generation=ada.epoch) == ErrorCode.NONE

    assert desk.fetch().committed_offset == 5


def test_who_is_ahead_of_its_epoch_cannot_commit() -> None:
    desk, ada, _ = two()

    code = desk.commit(member_id="ada", generation=ada.epoch + 1)

    assert code == ErrorCode.STALE_MEMBER_EPOCH


def test_an_older_epoch_is_good_for_partitions_that_a_member_has_had_since_then() -> None:
    desk, ada, _ = two()
    (kept, _) = sorted(p for _, p in ada.owned)
    (_, moved) = sorted({0, 1, 2, 3} - {p for _, p in ada.owned})

    codes = [
        desk.commit(member_id="ada", generation=1, partition=kept),
        desk.commit(member_id="ada", generation=1, partition=moved),
        desk.commit(member_id="ada", generation=0, partition=kept),
    ]

    stale = ErrorCode.STALE_MEMBER_EPOCH
    assert codes == [ErrorCode.NONE, stale, stale]


def test_what_a_member_has_yet_to_give_up_it_can_still_commit() -> None:
    desk = ConsumerDesk()
    Consumer(desk, "ada").join()
    Consumer(desk, "bob").join()
    desk.beat("ada", 1)
    assert desk.consumer_group().members["ada"].revoking

    codes = [desk.commit(member_id="ada", generation=1, partition=p) for p in range(4)]

    assert codes == [ErrorCode.NONE] * 4


def test_a_stranger_cannot_commit_while_there_are_members() -> None:
    desk, _, _ = two()

    codes = [desk.commit(), desk.commit(member_id="eve", generation=1)]

    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


def test_a_tool_may_commit_while_nobody_is_there() -> None:
    desk = ConsumerDesk()
    Consumer(desk, "ada").join().leave()

    assert desk.commit(9) == ErrorCode.NONE
    assert desk.told().group_state == "Empty"


def test_members_of_the_new_protocol_need_a_version_that_knows_of_it() -> None:
    desk, ada, _ = two()

    code = desk.commit(member_id="ada", generation=ada.epoch, version=8)

    assert code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("member_id", "ahead", "code"),
    [
        (None, None, ErrorCode.NONE),
        ("ada", 0, ErrorCode.NONE),
        ("ada", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("ada", -1, ErrorCode.STALE_MEMBER_EPOCH),
        ("eve", 0, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_fetch_is_checked_if_it_says_who_asks(
    member_id: str | None, ahead: int | None, code: ErrorCode
) -> None:
    desk, ada, _ = two()

    assert fetch_code(desk, member_id, -1 if ahead is None else ada.epoch + ahead) == code


def test_a_transaction_commits_for_a_member_or_for_nobody() -> None:
    desk, ada, _ = two()

    codes = [
        txn_code(desk, "ada", ada.epoch),
        txn_code(desk, "", -1),
        txn_code(desk, "eve", 1),
        txn_code(desk, "ada", ada.epoch + 1),
        txn_code(desk, "ada", ada.epoch + 1, version=5),
    ]

    assert codes == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.ILLEGAL_GENERATION,
    ]


def test_offsets_of_topics_that_are_read_cannot_be_deleted() -> None:
    desk, ada, _ = two()
    desk.commit(member_id="ada", generation=ada.epoch)
    ada_reads = desk.delete_offset(TOPIC)
    nobody_reads = desk.delete_offset("other")

    codes = [a.topics[0].partitions[0].error_code for a in (ada_reads, nobody_reads)]
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]


def test_a_group_with_members_cannot_be_deleted() -> None:
    desk, _, _ = two()

    assert desk.delete_groups(GROUP) == [ErrorCode.NON_EMPTY_GROUP]


def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    desk = ConsumerDesk()
    ada = Consumer(desk, "ada").join()
    desk.commit(member_id="ada", generation=1)
    ada.leave()

    assert desk.delete_groups(GROUP) == [ErrorCode.NONE]

    assert desk.told().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.listed() == []
    assert desk.machine.hard_state().offsets == {}
    desk.restart()
    assert desk.listed() == []


def test_a_group_that_is_deleted_writes_a_tombstone_for_each_of_its_records() -> None:
    desk = ConsumerDesk()
    Consumer(desk, "ada", options={"subscribed_topic_regex": "o.*"}).join().leave()
    desk.delete_groups(GROUP)

    newest = {record.key: record.value for record in desk.log}

    assert set(newest.values()) == {None}


def test_offsets_expire_by_their_age_once_nobody_reads_their_topic() -> None:
    forever = {
        "consumer_session_timeout_ms": 2 * WEEK_MS,
        "consumer_max_session_timeout_ms": 2 * WEEK_MS,
    }
    desk = ConsumerDesk(None, **forever)
    ada = Consumer(desk, "ada").join()
    desk.commit(member_id="ada", generation=1)
    desk.pass_time(WEEK_MS + 1)
    assert desk.fetch().committed_offset == 1, "it is being read"

    ada.leave()
    desk.pass_time(desk.config.offsets_retention_check_interval_ms)

    assert desk.fetch().committed_offset == -1
    assert desk.listed() == [], "an empty group without offsets goes, too"


def test_lists_tell_the_kinds_apart() -> None:
    desk, _, _ = two()
    desk.enter(group_id="old")

    assert desk.listed() == ["old", GROUP]
    assert desk.listed(types=["consumer"]) == [GROUP]
    assert desk.listed(types=["Classic"]) == ["old"]
    assert desk.listed(states=["stable"]) == [GROUP]
    assert desk.listed(states=["assigning"]) == []


def test_each_description_knows_its_own_kind_alone() -> None:
    desk, _, _ = two()
    desk.enter(group_id="old")

    assert desk.describe(GROUP).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "not a classic group" in (desk.describe(GROUP).error_message or "")
    assert (desk.describe(GROUP, version=5).group_state, desk.describe(GROUP, 5).error_code) == (
        "Dead",
        ErrorCode.NONE,
    )
    assert desk.told("old").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_heartbeat_changes_one_record_for_what_changes() -> None:
    desk, ada, _ = two()

    desk.beat("ada", ada.epoch, rack_id="r2")

    (persist, _) = desk.effects
    assert isinstance(persist, Persist)
    assert len(persist.records) == 1
