"""Topics at the target follow those at the source; what would mix or lose records is refused."""

from dataclasses import replace

import pytest

import ottla
from ottla.errors import ConflictError
from ottla.mirror.clients import is_same
from ottla.mirror.journal import Names
from ottla.mirror.topics import CopyRefusedError, check
from tests.mirror.world import Following, Pair, contents, create, until, values, write


def settings_of(bootstrap: str, topic: str) -> dict[str, str | None]:
    """What was set for a topic."""
    with ottla.Admin(bootstrap) as admin:
        found = admin.describe_config(topic=topic).values()
    return {entry.name: entry.value for entry in found if not entry.is_default}


def topics_of(bootstrap: str) -> list[str]:
    with ottla.Admin(bootstrap) as admin:
        return admin.list_topics()


def partition_count(bootstrap: str, topic: str) -> int:
    with ottla.Admin(bootstrap) as admin:
        return len(admin.list_partitions([topic], missing_ok=True))


def test_a_copy_has_the_partitions_and_settings_of_the_original(pair: Pair, topic: str) -> None:
    create(pair.source, topic, partitions=5, cleanup_policy="compact", retention_ms=123_456)

    pair.mirror(topic)

    assert partition_count(pair.target, topic) == 5
    assert settings_of(pair.target, topic) == {
        "cleanup.policy": "compact",
        "retention.ms": "123456",
    }


def test_a_record_keeps_its_time_although_the_original_was_stamped_by_its_broker(
    pair: Pair, topic: str
) -> None:
    create(pair.source, topic, message_timestamp_type="LogAppendTime")
    write(pair.source, topic, [b"1"])

    pair.mirror(topic)

    assert contents(pair.target, topic) == contents(pair.source, topic)


def test_a_copy_grows_with_the_original_and_a_new_topic_is_found(pair: Pair, topic: str) -> None:
    first, second = f"{topic}1", f"{topic}2"
    create(pair.source, first)
    write(pair.source, first, [b"old"])
    with pair.following(f"{topic}*"):
        until(lambda: partition_count(pair.target, first) == 1)
        with ottla.Admin(pair.source) as admin:
            admin.add_partitions(first, total=3)
        write(pair.source, first, [b"new"], partition=2)
        create(pair.source, second)
        write(pair.source, second, [b"other"])
        until(lambda: partition_count(pair.target, first) == 3)
        until(lambda: contents(pair.target, first) == contents(pair.source, first))
        until(lambda: partition_count(pair.target, second) == 1)
        until(lambda: values(pair.target, second) == [b"other"])


def test_only_topics_that_are_meant_are_copied(pair: Pair, topic: str) -> None:
    for name in ("a", "b", "b.tmp"):
        create(pair.source, f"{topic}{name}")

    pair.mirror(f"{topic}*", exclude=("*.tmp",), prefix="copy.", renames={f"{topic}a": f"{topic}x"})

    assert [name for name in topics_of(pair.target) if topic in name] == [
        f"__ottla_mirror-{topic}",
        f"copy.{topic}b",
        f"{topic}x",
    ]


def test_a_cluster_can_be_copied_into_itself_under_other_names_only(pair: Pair, topic: str) -> None:
    create(pair.source, topic)
    write(pair.source, topic, [b"1"])
    itself = Pair(pair.source, pair.source)

    with pytest.raises(ottla.ConfigError, match="would be copied into itself"):
        itself.mirror(f"{topic}*")
    itself.mirror(f"*{topic}", prefix="copy.")
    itself.mirror(f"*{topic}", prefix="copy.")

    assert values(pair.source, f"copy.{topic}") == [b"1"]
    assert [name for name in topics_of(pair.source) if name.startswith("copy.copy.")] == []


def test_records_of_others_are_not_mixed_with_a_copy_unasked(pair: Pair, topic: str) -> None:
    create(pair.source, topic)
    create(pair.target, topic)
    write(pair.source, topic, [b"copied"])
    write(pair.target, topic, [b"theirs"])

    with pytest.raises(CopyRefusedError, match="records that are not of this mirror"):
        pair.mirror(topic)
    pair.mirror(topic, appends=True)
    pair.mirror(topic)

    assert values(pair.target, topic) == [b"theirs", b"copied"]


def test_a_topic_that_was_created_again_is_not_taken_for_the_old_one(
    pair: Pair, topic: str
) -> None:
    create(pair.source, topic)
    write(pair.source, topic, [b"old"])
    pair.mirror(topic)
    with ottla.Admin(pair.source) as admin:
        admin.delete_topic(topic)
    create(pair.source, topic)
    write(pair.source, topic, [b"new 1", b"new 2"])

    with pytest.raises(CopyRefusedError, match="deleted and created again at the source"):
        pair.mirror(topic)
    assert values(pair.target, topic) == [b"old"]

    with ottla.Admin(pair.target) as admin:
        admin.delete_topic(topic)
    pair.mirror(topic)
    assert values(pair.target, topic) == [b"new 1", b"new 2"]


def test_a_copy_that_was_deleted_is_made_anew(pair: Pair, topic: str) -> None:
    create(pair.source, topic)
    write(pair.source, topic, [b"1", b"2"])
    pair.mirror(topic)
    with ottla.Admin(pair.target) as admin:
        admin.delete_topic(topic)

    assert any("is copied anew" in line for line in pair.told(topic))

    assert values(pair.target, topic) == [b"1", b"2"]
    assert pair.mirror(topic).copied == 0


def test_a_copy_that_is_deleted_under_the_eyes_of_a_mirror_is_made_anew(
    pair: Pair, topic: str
) -> None:
    create(pair.source, topic)
    write(pair.source, topic, [b"1", b"2"])
    with pair.following(topic) as following:
        until(lambda: partition_count(pair.target, topic) == 1)
        until(lambda: values(pair.target, topic) == [b"1", b"2"])
        with ottla.Admin(pair.target) as admin:
            admin.delete_topic(topic)

        until(lambda: any("is copied anew" in line for line in following.said))

        until(lambda: partition_count(pair.target, topic) == 1)
        until(lambda: following.is_over or values(pair.target, topic) == [b"1", b"2"])
        write(pair.source, topic, [b"3"])
        until(lambda: following.is_over or values(pair.target, topic) == [b"1", b"2", b"3"])


def test_a_copy_that_is_deleted_while_records_come_is_made_anew_with_all_that_was_in_it(
    pair: Pair, topic: str
) -> None:
    create(pair.source, topic, retention_ms=123_456_000)
    write(pair.source, topic, [b"1"])
    pair.mirror(topic)  # with all the patience that disks may need
    with pair.following(topic, look_interval_s=3600, timeout_s=5) as following:  # no look finds out
        until(lambda: bool(following.seen))
        with ottla.Admin(pair.target) as admin:
            admin.delete_topic(topic)
        write(pair.source, topic, [b"2"])

        until(lambda: partition_count(pair.target, topic) == 1)

        until(lambda: values(pair.target, topic) == [b"1", b"2"])
        assert settings_of(pair.target, topic) == {"retention.ms": "123456000"}


def test_a_journal_that_would_be_deleted_in_time_is_compacted_from_now_on(
    pair: Pair, topic: str
) -> None:
    create(pair.source, topic)
    journal = Names(topic).topic
    create(pair.target, journal, cleanup_policy="compact,delete", retention_ms=1_000)

    told = pair.told(topic)

    assert [line for line in told if f"{journal} had cleanup.policy=compact,delete" in line]
    there = settings_of(pair.target, journal)
    assert (there["cleanup.policy"], there["retention.ms"]) == ("compact", "-1")
    assert pair.told(topic) == []


def test_a_mirror_remembers_which_cluster_it_copies(pair: Pair, topic: str) -> None:
    create(pair.source, topic)
    pair.mirror(topic)

    with pytest.raises(ConflictError, match="copies cluster"):
        Pair(pair.target, pair.target).mirror(topic, prefix="x.")


def test_a_second_mirror_of_a_name_takes_over_from_the_first(pair: Pair, topic: str) -> None:
    create(pair.source, topic)
    write(pair.source, topic, [b"1"])
    first = Following(pair.settings(topic, is_once=False))
    until(lambda: partition_count(pair.target, topic) == 1)
    until(lambda: values(pair.target, topic) == [b"1"])
    with pair.following(topic) as second:
        until(lambda: bool(second.seen))
        write(pair.source, topic, [b"2"])
        until(lambda: first.is_over)
        until(lambda: values(pair.target, topic) == [b"1", b"2"])

    with pytest.raises(ottla.FencedError, match="another mirror of this name has taken over"):
        first.join()


def test_a_setting_that_changes_at_the_source_changes_at_the_target(pair: Pair, topic: str) -> None:
    create(pair.source, topic, retention_ms=1000_000, max_message_bytes=100_000)
    pair.mirror(topic)
    with ottla.Admin(pair.source) as admin:
        admin.alter_config(topic=topic, set={"retention.ms": 2000_000}, unset=["max.message.bytes"])
    with ottla.Admin(pair.target) as admin:
        admin.alter_config(topic=topic, set={"segment.ms": 3000_000})

    pair.mirror(topic)

    # What was set by hand at the target stays.
    assert settings_of(pair.target, topic) == {"retention.ms": "2000000", "segment.ms": "3000000"}


def test_a_topic_that_is_deleted_at_the_source_leaves_its_copy(pair: Pair, topic: str) -> None:
    gone, stays = f"{topic}gone", f"{topic}stays"
    for name in (gone, stays):
        create(pair.source, name)
        write(pair.source, name, [b"1"])
    with pair.following(f"{topic}*"):
        until(lambda: partition_count(pair.target, gone) == 1)
        until(lambda: values(pair.target, gone) == [b"1"])
        with ottla.Admin(pair.source) as admin:
            admin.delete_topic(gone)
        write(pair.source, stays, [b"2"])
        until(lambda: values(pair.target, stays) == [b"1", b"2"])

    assert values(pair.target, gone) == [b"1"]


def test_a_pattern_that_means_nothing_is_told(pair: Pair, topic: str) -> None:
    assert pair.told(topic) == ["warning: no topic of the source is meant"]


def test_a_topic_is_never_copied_into_itself_by_another_address(pair: Pair, topic: str) -> None:
    create(pair.source, topic)
    with ottla.Admin(pair.source) as admin:
        info = admin.describe_topic(topic)

    with pytest.raises(CopyRefusedError, match="is the topic that is to be copied"):
        check(info, info, None, topic, appends=True)


def test_an_id_alone_does_not_make_two_clusters_one(pair: Pair) -> None:
    with ottla.Admin(pair.source) as source, ottla.Admin(pair.target) as target:
        here, there = source.describe_cluster(), target.describe_cluster()

    assert is_same(here, here)
    assert not is_same(here, there)
    assert not is_same(here, replace(there, cluster_id=here.cluster_id))
