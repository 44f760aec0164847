"""Decisions, the names of a sink, and what is read of a checkpoint."""

from pathlib import Path

import pytest

from ottla.errors import ConfigError
from ottla.model import TopicPartition
from ottla.spark.offsets import CheckpointError, SourceOffset
from ottla.spark.sink import checkpoint
from ottla.spark.sink.decisions import (
    HISTORY,
    Decision,
    DecisionError,
    Identity,
    Names,
    Participant,
    digest,
)

ROUND = Identity("ottla-eos.s", 7, 3)


def decision(batch_id: int = 0, *, task_count: int = 2) -> Decision:
    return Decision(
        sink_id="s",
        query_id="q",
        batch_id=batch_id,
        round=ROUND,
        participants=tuple(
            Participant(Identity(f"ottla-eos.s/w.{task}", 8 + task, 0), task, 5)
            for task in range(task_count)
        ),
        offsets_digest="d",
        groups={"g": {TopicPartition("t", 1): 4, TopicPartition("t", 0): 3}},
        decided_ms=12,
        duration_ms=5,
    )


def test_a_decision_is_read_as_it_was_written() -> None:
    assert Decision.decode(decision(17).encode()) == decision(17)


@pytest.mark.parametrize("value", [b"", b"{}", b"[1]", b'{"v": 1}', b"\xff"])
def test_what_is_no_decision_is_refused(value: bytes) -> None:
    with pytest.raises(DecisionError):
        Decision.decode(value)


def test_a_decision_of_a_newer_version_is_told_apart() -> None:
    with pytest.raises(DecisionError, match="version 2, and this is version 1"):
        Decision.decode(decision().encode().replace(b'"v":1', b'"v":2'))


def test_the_last_decisions_have_keys_of_their_own_and_older_ones_make_room() -> None:
    keys = [decision(batch_id).key for batch_id in range(HISTORY + 1)]

    assert len(set(keys)) == HISTORY
    assert keys[0] == keys[-1]


@pytest.mark.parametrize(
    ("task_count", "is_one_phase", "settles_itself"),
    [(0, False, True), (1, True, True), (2, False, False)],
)
def test_one_transaction_needs_one_phase_and_none_nothing_more(
    task_count: int, is_one_phase: bool, settles_itself: bool
) -> None:
    made = decision(task_count=task_count)

    assert (made.is_one_phase, made.settles_itself) == (is_one_phase, settles_itself)
    assert made.row_count == 5 * task_count


def test_ids_of_one_sink_are_never_those_of_another() -> None:
    mine, other = Names("a"), Names("a.b")

    assert mine.is_participant(mine.participant("w", 0))
    assert not mine.is_participant(other.participant("w", 0))
    assert not mine.is_participant(other.coordinator)
    assert Names.of_coordinator(other.coordinator) == other
    assert other.journal == TopicPartition("__ottla_sink_decisions-a.b", 0)


@pytest.mark.parametrize("sink_id", ["", "a/b", "a b", "ä", "x" * 300])
def test_a_sink_is_named_so_that_its_topic_can_be(sink_id: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a topic"):
        Names(sink_id)


def written(folder: Path, *lines: str) -> str:
    (folder / "offsets").mkdir()
    (folder / "offsets" / "3").write_text("\n".join(["v1", "{}", *lines]), "utf-8")
    (folder / "metadata").write_text('{"id":"abc"}', "utf-8")
    return str(folder)


def source_line(group: str | None, cluster: str, offset: int) -> str:
    return SourceOffset(
        topic_ids={"t": "id"},
        positions={TopicPartition("t", 0): offset},
        cluster=cluster,
        group=group,
    ).text


def test_offsets_of_this_cluster_belong_to_the_batch_and_others_do_not(tmp_path: Path) -> None:
    location = written(
        tmp_path,
        source_line("mine", "here", 5),
        source_line("far", "elsewhere", 6),
        source_line(None, "here", 7),
        '{"rate": 1}',
        "-",
    )

    found = checkpoint.batch_offsets(location, 3)

    assert found.groups("here") == {"mine": {TopicPartition("t", 0): 5}}


def test_equal_offsets_have_equal_digests(tmp_path: Path) -> None:
    location = written(tmp_path, "a", "b")

    assert checkpoint.batch_offsets(location, 3).digest == digest(["a", "b"])
    assert digest(["a", "b"]) != digest(["a", "c"])


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}", "{}/"])
def test_a_checkpoint_is_found_however_its_place_is_written(tmp_path: Path, form: str) -> None:
    location = written(tmp_path)

    assert checkpoint.query_id(form.format(location)) == "abc"


def test_a_place_that_only_java_can_read_is_told_apart() -> None:
    with pytest.raises(checkpoint.UnreadableError, match="cannot be read from Python"):
        checkpoint.query_id("dbfs:/checkpoints/a")


def test_what_is_missing_in_a_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint of a query"):
        checkpoint.query_id(str(tmp_path))
    with pytest.raises(CheckpointError, match="has no offsets/4"):
        checkpoint.batch_offsets(written(tmp_path), 4)


def test_an_offset_log_of_another_version_is_refused(tmp_path: Path) -> None:
    location = written(tmp_path)
    (tmp_path / "offsets" / "3").write_text("v2\n{}\n", "utf-8")

    with pytest.raises(CheckpointError, match="does not know"):
        checkpoint.batch_offsets(location, 3)
