"""The dashboard and the alerts ask for metrics that exist, with labels that these have."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.measures import ALL
from tests.compat.alarms import RINGS

FOLDER = Path(__file__).parents[2] / "dashboards"

NAMES = {name: metric for metric in ALL for name in metric.sample_names}
LABELS_OF_SCRAPES = {"instance", "job", "le"}
PROMETHEUS_OWN = {"up"}

METRIC = re.compile(r"\b((?:kafka|ottla)_\w+)(?:\{([^}]*)\})?")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPING = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")


def expressions_of_the_dashboard() -> Iterator[str]:
    dashboard = json.loads((FOLDER / "ottla.json").read_text("utf-8"))
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["definition"]


def expressions_of_the_rules() -> Iterator[str]:
    """The file is simple enough to be read without a parser of YAML: one we do not depend on."""
    text = (FOLDER / "rules.yml").read_text("utf-8")
    for found in re.finditer(r"^        expr: (?:>-\n((?: {10}.*\n)+)|(.*)\n)", text, re.MULTILINE):
        yield " ".join((found[1] or found[2]).split())


EXPRESSIONS = [*expressions_of_the_dashboard(), *expressions_of_the_rules()]


def test_every_alert_has_an_expression_that_was_read() -> None:
    text = (FOLDER / "rules.yml").read_text("utf-8")
    assert len(list(expressions_of_the_rules())) == text.count("- alert:") > 10


def test_every_alert_is_tried_by_something_that_rings_it() -> None:
    """Where Prometheus is installed, that is: see `tests/compat/test_prometheus.py`."""
    text = (FOLDER / "rules.yml").read_text("utf-8")
    assert sorted(RINGS) == sorted(re.findall(r"- alert: (\w+)", text))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_exists_and_has_the_labels_that_are_asked_for(expression: str) -> None:
    used = METRIC.findall(expression)
    assert used or re.search(r"\bup\b", expression), "it asks for nothing that we know"
    assert {name for name, _ in used} <= set(NAMES)
    for name, selector in used:
        assert set(LABEL.findall(selector)) <= {*NAMES[name].labels, *LABELS_OF_SCRAPES}
    grouped = {
        label.strip() for found in GROUPING.findall(expression) for label in found.split(",")
    }
    known = {label for name, _ in used for label in NAMES[name].labels}
    assert grouped <= known | LABELS_OF_SCRAPES


def test_a_counter_is_never_shown_as_it_is() -> None:
    """It grows for ever and falls with every restart: only its rate says something."""
    for expression in EXPRESSIONS:
        for name, _ in METRIC.findall(expression):
            if NAMES[name].kind != "gauge":
                assert re.search(rf"\b(?:rate|increase)\({name}", expression), expression


def test_panels_lie_beside_each_other_and_have_numbers_of_their_own() -> None:
    panels: list[dict[str, Any]] = json.loads((FOLDER / "ottla.json").read_text("utf-8"))["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (place["x"] + column, place["y"] + line)
            for column in range(place["w"])
            for line in range(place["h"])
        }
        assert taken.isdisjoint(cells), panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)
