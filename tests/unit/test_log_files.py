"""The names of a log's files."""

import pytest

from ottla.log.files import LogFile, folder_of, parse_name, path_of


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("00000000000000000000.log", LogFile(0, ".log")),
        ("00000000000000000368.index", LogFile(368, ".index")),
        ("00000000000000000368.timeindex", LogFile(368, ".timeindex")),
        ("00000000000000000368.txnindex", LogFile(368, ".txnindex")),
        ("00000000000000000368.snapshot", LogFile(368, ".snapshot")),
        ("09223372036854775807.log", LogFile(2**63 - 1, ".log")),
        ("00000000000000000007.log.deleted", LogFile(7, ".log", ".deleted")),
        ("00000000000000000007.index.cleaned", LogFile(7, ".index", ".cleaned")),
        ("00000000000000000007.log.swap", LogFile(7, ".log", ".swap")),
    ],
)
def test_a_name_says_which_file_of_which_segment(name: str, file: LogFile) -> None:
    assert parse_name(name) == file
    assert file.name == name
    assert path_of("orders-0", *file) == f"orders-0/{name}"


@pytest.mark.parametrize(
    "name",
    [
        "leader-epoch-checkpoint",
        "partition.metadata",
        "7.log",
        "0000000000000000000x.log",
        "\u0660" * 20 + ".log",
        "00000000000000000000.txt",
        "00000000000000000000.log.bak",
        "00000000000000000000.log.swap.deleted",
        "00000000000000000000",
        "",
    ],
)
def test_other_names_say_nothing(name: str) -> None:
    assert parse_name(name) is None


def test_a_folder_is_named_after_topic_and_partition() -> None:
    assert folder_of("orders-eu", 12) == "orders-eu-12"
