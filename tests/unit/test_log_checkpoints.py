"""The small text files beside the logs."""

import pytest

from ottla.errors import StorageError
from ottla.log import checkpoints, files
from ottla.testing.disk import Operation, SimDisk
from ottla.testing.inodes import Survival

FOLDER = "orders-0"
TOPIC_ID = bytes(range(16))


def disk_with(path: str, content: bytes) -> SimDisk:
    disk = SimDisk()
    disk.make_folder(FOLDER)
    disk.open(path, create=True).write(0, content)
    return disk


def content_of(disk: SimDisk, path: str) -> bytes:
    content = checkpoints.read_file(disk, path)
    assert content is not None
    return content


def test_offsets_are_written_as_kafka_does() -> None:
    disk = SimDisk()

    checkpoints.write_offsets(disk, files.RECOVERY_POINTS, {("orders", 0): 7, ("a.b", 12): 10**12})

    assert content_of(disk, files.RECOVERY_POINTS) == b"0\n2\norders 0 7\na.b 12 1000000000000\n"


@pytest.mark.parametrize("survival", Survival)
def test_offsets_are_on_disk_when_they_are_written(survival: Survival) -> None:
    disk = SimDisk()
    for offset in (7, 8):
        checkpoints.write_offsets(disk, files.RECOVERY_POINTS, {("orders", 0): offset})
        disk.lose_power(survival=survival)
        assert checkpoints.read_offsets(disk, files.RECOVERY_POINTS) == {("orders", 0): offset}


def test_offsets_are_read_as_they_were_written() -> None:
    disk = SimDisk()
    offsets = {("orders", 0): 7, ("orders", 1): 0}

    checkpoints.write_offsets(disk, files.START_OFFSETS, offsets)

    assert checkpoints.read_offsets(disk, files.START_OFFSETS) == offsets


def test_a_checkpoint_that_was_never_written_is_empty() -> None:
    assert checkpoints.read_offsets(SimDisk(), files.START_OFFSETS) == {}
    assert checkpoints.read_offsets(disk_with(files.START_OFFSETS, b""), files.START_OFFSETS) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"0\n2\norders 0 7\n",
        b"0\nmany\norders 0 7\n",
        b"0\n1\norders 7\n",
        b"0\n1\norders 0 -7\n",
        b"0\n1\norders zero 7\n",
        b"\xff\xfe\n",
    ],
)
def test_a_checkpoint_that_nobody_wrote_like_that_is_refused(content: bytes) -> None:
    disk = disk_with(files.START_OFFSETS, content)

    with pytest.raises(StorageError, match=files.START_OFFSETS):
        checkpoints.read_offsets(disk, files.START_OFFSETS)


def test_leader_epochs_are_written_as_kafka_does() -> None:
    disk = SimDisk()
    disk.make_folder(FOLDER)

    checkpoints.write_epochs(disk, FOLDER, [(0, 0), (4, 1200)])

    assert content_of(disk, f"{FOLDER}/leader-epoch-checkpoint") == b"0\n2\n0 0\n4 1200\n"
    assert checkpoints.read_epochs(disk, FOLDER) == [(0, 0), (4, 1200)]


def test_an_epoch_without_offset_is_refused() -> None:
    disk = disk_with(f"{FOLDER}/{files.LEADER_EPOCHS}", b"0\n1\n4\n")

    with pytest.raises(StorageError, match="not an epoch and an offset"):
        checkpoints.read_epochs(disk, FOLDER)


def test_a_topic_id_is_written_as_kafka_does() -> None:
    disk = SimDisk()
    disk.make_folder(FOLDER)

    checkpoints.write_topic_id(disk, FOLDER, TOPIC_ID)

    content = content_of(disk, f"{FOLDER}/partition.metadata")
    assert content == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert checkpoints.read_topic_id(disk, FOLDER) == TOPIC_ID


def test_a_folder_may_have_no_topic_id() -> None:
    assert checkpoints.read_topic_id(SimDisk(), FOLDER) is None


@pytest.mark.parametrize(
    "content",
    [
        b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
        b"topic_id: AAECAwQFBgcICQoLDA0ODw",
        b"version: 0\ntopic_id: AAEC",
        b"version: 0\ntopic_id: A/ECAwQFBgcICQoLDA0O!w",
        b"version: 0",
    ],
)
def test_a_topic_id_that_is_none_is_refused(content: bytes) -> None:
    disk = disk_with(f"{FOLDER}/{files.PARTITION_METADATA}", content)

    with pytest.raises(StorageError, match=r"partition\.metadata"):
        checkpoints.read_topic_id(disk, FOLDER)


def test_the_mark_of_a_clean_stop_is_written_as_kafka_does() -> None:
    disk = SimDisk()
    assert not checkpoints.had_clean_shutdown(disk)

    checkpoints.mark_clean_shutdown(disk, broker_epoch=17)

    assert content_of(disk, ".kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":17}'
    assert checkpoints.had_clean_shutdown(disk)


def test_properties_are_read_as_they_were_written() -> None:
    disk = SimDisk()
    properties = {"version": "1", "cluster.id": "kVSgfurUQFGGpHMTBqBPiw"}

    checkpoints.write_properties(disk, files.META_PROPERTIES, properties)

    assert content_of(disk, "meta.properties") == b"cluster.id=kVSgfurUQFGGpHMTBqBPiw\nversion=1\n"
    assert checkpoints.read_properties(disk, files.META_PROPERTIES) == properties


def test_comments_and_empty_lines_are_no_properties() -> None:
    disk = disk_with(files.META_PROPERTIES, b"#Sun Nov 15\n\nnode.id = 1\n")

    assert checkpoints.read_properties(disk, files.META_PROPERTIES) == {"node.id": "1"}


def test_a_line_that_is_no_property_is_refused() -> None:
    disk = disk_with(files.META_PROPERTIES, b"node.id\n")

    with pytest.raises(StorageError, match="no property"):
        checkpoints.read_properties(disk, files.META_PROPERTIES)


def test_a_property_that_cannot_be_read_back_is_not_written() -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        checkpoints.write_properties(SimDisk(), files.META_PROPERTIES, {"a": "b\nc=d"})


def test_a_failed_write_leaves_the_old_content() -> None:
    disk = SimDisk()
    checkpoints.write_offsets(disk, files.START_OFFSETS, {("orders", 0): 7})
    disk.fail(28, Operation.WRITE)

    with pytest.raises(OSError, match="No space"):
        checkpoints.write_offsets(disk, files.START_OFFSETS, {("orders", 0): 8})

    assert checkpoints.read_offsets(disk, files.START_OFFSETS) == {("orders", 0): 7}
