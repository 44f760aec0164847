"""The reference page of messages is current, and the docstrings it is made from are complete."""

from pathlib import Path
from typing import Any

import pytest

from ottla.wire.registry import ApiKey, api
from ottla.wire.schema import NO_UUID, Int16, Int32, String, Uuid, Versions, at, message, struct
from tools.message_reference import explanation, main, page, parse_explanation, rows

EVERY_API = pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name)


@struct
class Leader:
    node_id: Int32 = -1


@struct
class Topic:
    name: String | None = at("0+", nullable="3+")
    topic_id: Uuid = at("3+", default=NO_UUID)


@message(key=7, versions="1-4", flexible="3+")
class Request:
    old: Int16 = at("0-2", default=5)
    gone: Int16 = at("0", default=0)
    topics: tuple[Topic, ...] | None
    leader: Leader = at("4+", default=Leader(), tag=0)


DOCSTRING = """Join (key 7): enter, and wait.

v1    the first
v2-3  as v1
v10   adds members; drops (some) of them  (KIP-1, KIP-22)

A trap.

Another.
"""


def names_in(cls: type[Any], version: int) -> set[str]:
    return {row.path for row in rows(cls, Versions(version, version))}


def test_the_page_in_the_docs_is_current() -> None:
    assert main(["--check"]) == 0


def test_a_stale_page_is_reported_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = tmp_path / "messages.md"
    stale.write_text("yesterday", "utf-8")

    assert main(["--check"], stale) == 1

    assert f"{stale} is outdated" in capsys.readouterr().out
    assert stale.read_text("utf-8") == "yesterday"


def test_a_missing_page_is_stale_until_it_is_written(tmp_path: Path) -> None:
    missing = tmp_path / "reference" / "messages.md"
    assert main(["--check"], missing) == 1

    assert main([], missing) == 0

    assert main(["--check"], missing) == 0
    assert missing.read_text("utf-8") == page()


@EVERY_API
def test_each_version_after_the_first_has_one_note(key: ApiKey) -> None:
    of = api(key)
    noted = [version for note in explanation(of).notes for version in note.versions]

    assert noted == sorted(set(noted))
    assert set(noted) | {of.versions.low} == set(of.versions)


@EVERY_API
def test_the_note_on_a_version_names_a_field_that_it_changed(key: ApiKey) -> None:
    of = api(key)
    for note in explanation(of).notes:
        version = note.versions.low
        if version == of.versions.low:
            continue
        changed = set[str]()
        for cls in (of.request, of.response):
            changed |= names_in(cls, version) ^ names_in(cls, version - 1)
        names = {path.rpartition(".")[2] for path in changed}
        assert not names or any(name in note.text for name in names), (version, names)


@EVERY_API
def test_the_note_on_the_first_flexible_version_says_so(key: ApiKey) -> None:
    of = api(key)
    said = [n.versions.low for n in explanation(of).notes if "first flexible" in n.text]
    first = [version for version in of.versions if version in of.flexible][:1]

    # Where all versions are flexible, there is nothing to say, but it may be said.
    assert said == first or (first == [of.versions.low] and not said)


def test_a_docstring_is_taken_apart() -> None:
    said = parse_explanation(DOCSTRING, "Join", 7)

    assert said.summary == "enter, and wait."
    assert [str(note.versions) for note in said.notes] == ["1", "2-3", "10"]
    assert said.notes[2].text == "adds members; drops (some) of them"
    assert [note.kips for note in said.notes] == ["", "", "KIP-1, KIP-22"]
    assert said.prose.split() == ["A", "trap.", "Another."]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Join (key 8): enter.",
        "Leave (key 7): go.",
        "Join (key 7):",
        "Join (key 7): two\nlines.",
    ],
)
def test_a_docstring_that_introduces_something_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"does not begin with `Join \(key 7\): ...`"):
        parse_explanation(text, "Join", 7)


def test_a_line_that_is_no_note_is_refused() -> None:
    with pytest.raises(ValueError, match="not a note on a version: 'version 4 is new'"):
        parse_explanation("Join (key 7): enter.\n\nversion 4 is new\n", "Join", 7)


def test_fields_are_listed_in_the_versions_that_we_speak() -> None:
    assert [str(row) for row in rows(Request, Versions(1, 4))] == [
        "| `old` | int16 | 1-2 |  |  | 5 |",
        "| `topics` | []Topic |  | yes |  |  |",
        "| `topics.name` | string |  | 3+ |  |  |",
        "| `topics.topic_id` | uuid | 3+ |  |  | zero |",
        "| `leader` | Leader | 4 |  | 0 | of its fields |",
        "| `leader.node_id` | int32 |  |  |  | -1 |",
    ]
