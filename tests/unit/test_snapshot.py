"""A snapshot that is not whole is noticed, and then nothing is restored."""

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.embedded import Broker
from ottla.snapshot.archive import (
    CHUNK_BYTES,
    HEADER,
    MANIFEST,
    Header,
    Manifest,
    SnapshotError,
    inner_path,
)
from ottla.snapshot.restoring import Folder, check, read_header, restore
from ottla.snapshot.taking import LEFT_OUT, stopped_broker

Members = list[tuple[tarfile.TarInfo, bytes]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot of a broker with some room reserved, and a folder with nothing in it."""
    folder = tmp_path_factory.mktemp("snapshot")
    with Broker(folder / "data"):
        pass
    (folder / "data" / "empty-0").mkdir(mode=0o700)
    (folder / "data" / "room").write_bytes(b"begin" + bytes(3_000_000) + b"end" + bytes(2_000_000))
    with stopped_broker(folder / "data") as broker:
        broker.write(folder / "whole")
    return folder / "whole"


def members_of(file: Path) -> Members:
    with tarfile.open(file) as tar:
        return [(m, tar.extractfile(m).read() if m.isreg() else b"") for m in tar]  # type: ignore[union-attr]


def packed(members: Members, file: Path) -> Path:
    with tarfile.open(file, "w:gz") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file


def refused(file: Path, target: Path) -> str:
    """Why a snapshot is not restored; that nothing of it is."""
    beside = sorted(target.parent.iterdir())
    with pytest.raises(SnapshotError) as checked:
        check(file)
    with pytest.raises(SnapshotError) as raised:
        restore(file, target)
    assert str(checked.value) == str(raised.value)
    assert sorted(target.parent.iterdir()) == beside
    return str(raised.value)


def test_a_file_is_whole_when_it_is_synced(tmp_path: Path) -> None:
    content = [b"begin", bytes(CHUNK_BYTES), b"end", bytes(7)]
    info = tarfile.TarInfo("file")
    info.size = sum(map(len, content))
    synced: list[bytes] = []
    folder = Folder(tmp_path, lambda _: synced.append((tmp_path / "file").read_bytes()))

    folder.write("file", iter(content), info)

    assert synced == [b"".join(content)]


def test_everything_is_as_it_was(whole: Path, tmp_path: Path) -> None:
    counted: list[int] = []
    header = restore(whole, tmp_path / "data", counted.append)

    original = whole.parent / "data"
    assert sum(counted) == header.size_bytes
    for path in original.rglob("*"):
        again = tmp_path / "data" / path.relative_to(original)
        if path.name in LEFT_OUT:
            assert not again.exists()
        elif path.is_file():
            assert again.read_bytes() == path.read_bytes()
            assert again.stat().st_mode == path.stat().st_mode
        else:
            assert again.stat().st_mode == path.stat().st_mode
    room = tmp_path / "data" / "room"
    assert room.stat().st_blocks * 512 < room.stat().st_size, "zeros take no room"


def test_a_file_tells_what_it_is_a_snapshot_of(whole: Path) -> None:
    header = read_header(whole)
    assert header == Header.of_text(header.text())
    assert header.was_clean
    assert header.file_count == len([m for m, _ in members_of(whole) if m.isreg()]) - 2


def test_a_file_that_was_cut_off_is_noticed_wherever_it_was(whole: Path, tmp_path: Path) -> None:
    data = whole.read_bytes()
    for length in (0, 1, 9, 100, len(data) // 2, len(data) - 300, len(data) - 9, len(data) - 1):
        cut = tmp_path / "cut"
        cut.write_bytes(data[:length])
        assert "cut: " in refused(cut, tmp_path / "data"), length


def test_a_byte_that_changed_is_noticed_wherever_it_is(whole: Path, tmp_path: Path) -> None:
    plain = gzip.decompress(whole.read_bytes())
    changed = tmp_path / "changed"
    first_file = plain.index(b"begin")
    for place in (plain.index(b'"cluster_id"') + 18, first_file, first_file + 4_000_000):
        data = bytearray(plain)
        data[place] ^= 1
        changed.write_bytes(gzip.compress(data, 1))
        assert "changed: " in refused(changed, tmp_path / "data"), place


@pytest.mark.parametrize(
    ("reason", "spoil"),
    [
        ("does not begin with snapshot.json", lambda members: members[1:]),
        ("ends after", lambda members: members[:-1]),
        ("room is missing", lambda members: [m for m in members if m[0].name != "data/room"]),
        ("not what a snapshot has there", lambda members: [*members[:-1], *members[-2:]]),
    ],
)
def test_a_member_too_few_or_too_many_is_noticed(
    whole: Path, tmp_path: Path, reason: str, spoil: Callable[[Members], Members]
) -> None:
    file = packed(spoil(members_of(whole)), tmp_path / "spoiled")
    assert reason in refused(file, tmp_path / "data")


@pytest.mark.parametrize("name", ["../evil", "/evil", "data/../../evil", "evil", "data\\evil"])
def test_no_name_leads_out_of_the_folder(whole: Path, tmp_path: Path, name: str) -> None:
    members = members_of(whole)
    members.insert(2, (tarfile.TarInfo(name), b""))

    file = packed(members, tmp_path / "evil")

    assert "does not belong into a data directory" in refused(file, tmp_path / "data")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_only_files_and_folders_are_restored(whole: Path, tmp_path: Path, kind: bytes) -> None:
    link = tarfile.TarInfo("data/link")
    link.type, link.linkname = kind, "/etc/passwd"
    members = members_of(whole)
    members.insert(2, (link, b""))

    file = packed(members, tmp_path / "evil")

    assert "not what a snapshot has there" in refused(file, tmp_path / "data")


def test_more_than_was_announced_is_not_unpacked(whole: Path, tmp_path: Path) -> None:
    bomb = tarfile.TarInfo("data/bomb")
    members = members_of(whole)
    members.insert(2, (bomb, bytes(10_000_000)))

    file = packed(members, tmp_path / "bomb")

    assert "not what a snapshot has there" in refused(file, tmp_path / "data")


def test_a_snapshot_that_does_not_fit_on_the_disk_is_refused_before_it_is_unpacked(
    whole: Path, tmp_path: Path
) -> None:
    (info, text), *others = members_of(whole)
    facts = Header.of_text(text)
    huge = text.replace(b'"bytes": %d' % facts.size_bytes, b'"bytes": %d' % 10**18)
    file = packed([(info, huge), *others], tmp_path / "huge")

    with pytest.raises(SnapshotError, match=" free"):
        restore(file, tmp_path / "data")


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"version": 2}', b'{"version": 1, "topics": 5}', b"\xff"]
)
def test_what_is_no_header_and_no_manifest_is_refused(text: bytes) -> None:
    with pytest.raises(SnapshotError, match=f"{HEADER}|version"):
        Header.of_text(text)
    with pytest.raises(SnapshotError, match=MANIFEST):
        Manifest.of_text(text)


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    with Broker(tmp_path / "data"):
        pass
    (tmp_path / "data" / "orders-0").symlink_to(tmp_path)

    with pytest.raises(SnapshotError, match="symbolic link"), stopped_broker(tmp_path / "data"):
        pass


def test_a_path_within_the_archive_is_one_within_the_data_directory() -> None:
    assert inner_path("data") == ""
    assert inner_path("data/orders-0/00000000000000000000.log") == (
        "orders-0/00000000000000000000.log"
    )
