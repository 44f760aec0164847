"""The site has every page, its links lead to headings, and its pictures are those of the tables."""

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.coordinator.group.classic import MOVES
from tests.docs.pages import DOCS, ROOT
from tools import diagrams
from tools.diagrams import Drawing, svg

PAGES = sorted(DOCS.rglob("*.md"))
LINK = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def in_navigation(entries: Any) -> Iterator[str]:
    """Every page in a part of the navigation, however deep."""
    if isinstance(entries, str):
        yield entries
        return
    for entry in entries.values() if isinstance(entries, dict) else entries:
        yield from in_navigation(entry)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading).strip().lower() for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


def test_every_page_is_in_the_navigation_once() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))
    listed = list(in_navigation(site["project"]["nav"]))
    pages = [str(page.relative_to(DOCS)) for page in PAGES]
    assert set(pages) - set(listed) == set(), "add them to `nav` in zensical.toml"
    assert sorted(listed) == sorted(pages)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_lead_to_headings_that_are_there(page: Any) -> None:
    text = page.read_text("utf-8")
    dead = [
        f"{target}#{anchor}"
        for target, anchor in LINK.findall(text)
        if not target.startswith("http")
        and anchor not in anchors((page.parent / target).read_text("utf-8") if target else text)
    ]
    assert dead == []


def test_nothing_is_fetched_when_the_site_is_read() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    assert site["theme"]["font"] is False
    assert not {"extra_javascript", "extra_css", "plugins"} & set(site)
    assert not [page for page in PAGES if "```mermaid" in page.read_text("utf-8")]


def test_every_move_of_a_table_is_an_arrow() -> None:
    picture = diagrams.group_states()
    assert picture.count('class="move"') == sum(len(after) for after in MOVES.values())
    assert all(f">{state.value}</text>" in picture for state in MOVES)


@pytest.mark.parametrize(
    "change",
    [
        {"moves": {"on": frozenset({"off"}), "off": frozenset({"on"})}},
        {"moves": {"on": frozenset({"off"}), "off": frozenset(), "gone": frozenset()}},
        {"words": {("on", "off"): "switch", ("off", "on"): "switch"}},
        {"words": {}},
        {"frame": ("on", "off")},
    ],
    ids=["a new move", "a new state", "words for no move", "a move without words", "odd frame"],
)
def test_a_picture_that_is_not_of_its_table_is_not_drawn(change: dict[str, Any]) -> None:
    true: dict[str, Any] = {
        "title": "A switch",
        "moves": {"on": frozenset({"off"}), "off": frozenset()},
        "places": {"on": (0, 0), "off": (1, 0)},
        "words": {("on", "off"): "switch"},
    }
    assert "switch" in svg(Drawing(**true))
    with pytest.raises(AssertionError):
        svg(Drawing(**{**true, **change}))
