"""What `ottla log dump` says of files, good ones and damaged ones."""

import json
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from ottla.cli import main as cli
from ottla.log.producer_state import ProducerStates
from ottla.records.batch import Batch
from ottla.records.builder import BatchOptions, build
from ottla.records.compression import Compression
from ottla.records.control import Marker, build_marker
from ottla.wire.stored.log_files import AbortedTxn
from ottla.wire.stored.versioned import encode_versioned

AT_MS = 1_700_000_000_000
SEGMENT = "00000000000000000100.log"


def batch(base_offset: int, count: int, **options: Any) -> bytes:
    records = [(AT_MS + n, b"k%d" % n, b"v%d" % n, (("h", b"1"),)) for n in range(count)]
    return bytes(build(records, BatchOptions(base_offset=base_offset, **options)))


def two_batches() -> bytes:
    return batch(100, 3) + batch(103, 2, compression=Compression.ZSTD)


def write(folder: Path, name: str, data: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(data)
    return path


def dump(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[dict[str, object]]:
    assert cli.run(["log", "dump", "-o", "json", *map(str, arguments)]) == cli.OK
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def problems(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """What is said on stderr about files that are not as they should be."""
    assert cli.run(["log", "dump", *map(str, arguments)]) == cli.UNEXPECTED
    return capsys.readouterr().err


def test_a_segment_is_shown_batch_by_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = dump(capsys, write(tmp_path, SEGMENT, two_batches()), "--verify")
    assert (first["position"], first["base_offset"], first["last_offset"]) == (0, 100, 102)
    assert (second["records"], second["compression"], second["crc"]) == (2, "zstd", "ok")


def test_records_are_shown_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = dump(capsys, write(tmp_path, SEGMENT, two_batches()), "--records")
    assert [row["offset"] for row in shown] == [100, 101, 102, 103, 104]
    assert (shown[4]["key"], shown[4]["value"]) == ("k1", "v1")
    assert shown[4]["headers"] == [["h", "1"]]


def test_a_marker_is_shown_as_what_it_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marker = Marker(
        is_commit=False, producer_id=7, producer_epoch=1, coordinator_epoch=3, timestamp_ms=AT_MS
    )
    path = write(tmp_path, SEGMENT, bytes(build_marker(marker, base_offset=100)))
    (row,) = dump(capsys, path)
    assert (row["producer_id"], row["flags"]) == (7, "transactional,control")
    (record,) = dump(capsys, path, "--records")
    assert record["type"] == "abort"


def test_room_that_was_reserved_is_no_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, SEGMENT, two_batches() + bytes(100_000))
    assert len(dump(capsys, path, "--verify")) == 2


def test_a_flipped_bit_is_found_where_one_looks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(two_batches())
    data[data.index(b"v1")] ^= 1  # in a value, where nothing but the checksum can tell
    path = write(tmp_path, SEGMENT, bytes(data))
    assert len(dump(capsys, path)) == 2  # headers are fine, and nobody asked for more
    assert "the batch at byte 0 is damaged" in problems(capsys, path, "--verify")


@pytest.mark.parametrize("rest", [b"\0" * 70_000 + b"\1", b"torn", two_batches()[:90]])
def test_what_is_no_batch_ends_the_walk_with_its_place(
    rest: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = two_batches()
    shown = problems(capsys, write(tmp_path, SEGMENT, good + rest))
    assert f"byte {len(good)}" in shown
    assert "error: 1 problem found" in shown


def test_offsets_that_go_back_are_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, SEGMENT, batch(100, 3) + batch(102, 1))
    assert "begins at offset 102" in problems(capsys, path)


def test_an_index_is_compared_with_the_log_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, SEGMENT, two_batches())
    position = len(batch(100, 3))
    index = write(tmp_path, "00000000000000000100.index", pack(">ii", 4, position) + bytes(800))
    assert dump(capsys, index, "--verify") == [
        {"file": str(index), "last_offset": 104, "position": position}
    ]
    index.write_bytes(pack(">ii", 4, position + 1))
    assert f"at byte {position + 1}" in problems(capsys, index, "--verify")


def test_a_time_index_that_goes_back_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = write(tmp_path, "00000000000000000100.timeindex", pack(">qi", AT_MS, 2))
    assert dump(capsys, index)[0]["offset"] == 102
    index.write_bytes(pack(">qi", AT_MS, 2) + pack(">qi", AT_MS - 1, 3))
    assert "comes after" in problems(capsys, index)


def test_aborted_transactions_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = AbortedTxn(producer_id=7, first_offset=100, last_offset=104, last_stable_offset=105)
    index = write(tmp_path, "00000000000000000100.txnindex", encode_versioned(entry, 0))
    (row,) = dump(capsys, index)
    assert (row["producer_id"], row["first_offset"], row["last_offset"]) == (7, 100, 104)
    index.write_bytes(encode_versioned(entry, 0)[:-1])
    assert "cannot be read" in problems(capsys, index)


def test_a_snapshot_shows_its_producers_and_a_damaged_one_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    states = ProducerStates()
    states.apply(Batch.parse(batch(100, 3, producer_id=9, producer_epoch=2, base_sequence=5)))
    path = write(tmp_path, "00000000000000000103.snapshot", states.snapshot())
    (row,) = dump(capsys, path)
    assert (row["producer_id"], row["producer_epoch"], row["last_sequence"]) == (9, 2, 7)
    path.write_bytes(states.snapshot()[:-1] + b"\1")
    assert "checksum" in problems(capsys, path)


def test_a_folder_is_shown_file_by_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "recovery-point-offset-checkpoint", b"0\n1\norders 0 105\n")
    write(tmp_path, "metadata.sqlite", b"not ours to show")
    write(tmp_path / "orders-0", SEGMENT, two_batches())
    write(tmp_path / "orders-0", "leader-epoch-checkpoint", b"0\n1\n3 100\n")
    write(tmp_path / "orders-0", "partition.metadata", b"version: 0\ntopic_id: abc")

    assert cli.run(["log", "dump", str(tmp_path)]) == cli.OK

    shown = capsys.readouterr().out
    assert "orders          0     105" in shown
    assert "topic_id  abc" in shown
    assert shown.count(str(tmp_path)) == 4


def test_a_checkpoint_that_counts_wrong_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "log-start-offset-checkpoint", b"0\n2\norders 0 105\n")
    assert "2' lines announced, 1 are there" in problems(capsys, path)


def test_a_file_of_something_else_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "notes.txt", b"hello")
    assert cli.run(["log", "dump", str(path)]) == cli.USAGE
    assert "is not a file of a log" in capsys.readouterr().err


def test_control_characters_do_not_break_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, SEGMENT, bytes(build([(AT_MS, b"\xff", b"two\nlines", ())])))
    assert cli.run(["log", "dump", "--records", str(path)]) == cli.OK
    _, row = capsys.readouterr().out.splitlines()
    assert r"two\nlines" in row
    assert "base64:/w==" in row
