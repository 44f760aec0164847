"""The documents tell the truth: their code runs, their links lead somewhere, their tables match."""

import re
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, place
from tools.derive import outdated

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("changes/*.md")])
WITH_CODE = [path for path in DOCUMENTS if "```python" in path.read_text("utf-8")]

CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)")
TARGET = re.compile(r"^([a-z-]+):.*## ", re.MULTILINE)
COMMAND = re.compile(r"make ([a-z-]+)\b")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_first_page_shows_code() -> None:
    assert ROOT / "README.md" in WITH_CODE


# Of kafka-python, when it is imported; a page shows it.
@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
@pytest.mark.parametrize("path", WITH_CODE, ids=named)
def test_the_code_on_the_page_runs(path: Path) -> None:
    text = path.read_text("utf-8")
    scope: dict[str, object] = {}
    for block in CODE.finditer(text):
        # Empty lines before the block make a traceback point at the line of the page.
        padding = "\n" * text[: block.start(1)].count("\n")
        exec(compile(padding + block[1], path, "exec"), scope)


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_every_link_leads_somewhere(path: Path) -> None:
    dead = [
        link for link in LINK.findall(path.read_text("utf-8")) if not (path.parent / link).exists()
    ]
    assert not dead, f"{place(path)}: {dead}"


def test_derived_pages_are_current() -> None:
    assert not [f"{place(path)}: run `make fix`" for path in outdated(ROOT)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_every_make_target_that_a_page_names_exists(path: Path) -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text("utf-8")))
    in_code = re.findall(r"`[^`\n]+`|^\$ .*$", path.read_text("utf-8"), re.MULTILINE)
    assert {name for code in in_code for name in COMMAND.findall(code)} <= targets


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "adr").glob("0*.md")), ids=named)
def test_a_decision_says_what_was_given_up(path: Path) -> None:
    headings = re.findall(r"^## (.+)$", path.read_text("utf-8"), re.MULTILINE)
    assert headings == [
        "Context",
        "Decision",
        "What we gave up",
        "What would make us revisit it",
    ]


def test_fragments_of_the_changelog_are_named_for_what_they_say() -> None:
    names = [path.name for path in ROOT.glob("changes/*") if path.name != "README.md"]
    allowed = re.compile(r"(\d+|\+[a-z0-9-]+)\.(added|changed|fixed|removed)\.md")
    assert [name for name in names if not allowed.fullmatch(name)] == []
