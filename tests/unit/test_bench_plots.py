"""Pictures of results: drawn from the page, the same bytes each time, nothing without figures."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import growth
from bench.markdown import number, tables_of
from bench.plots import PLOTS, draw, links, pictures
from bench.report import HEADINGS, aligned
from bench.results import Ran, page

GROWN = growth.table(
    "partitions",
    [(count, {"start, s": 0.1 + count / 1e4, "memory, MB": 35.0}) for count in (1, 10, 100, 1_000)],
)
COMPARED = aligned(
    [
        ("what", "Ottla", "Apache Kafka", "Ottla / Kafka", "bar", ""),
        ("produce, MB/s", "400.00", "200.00", "**2.00** (1.9 to 2.1)", "≥ 1.2", "met"),
        ("start, s", "0.50", "5.00", "**0.10**", "≤ 0.05", "missed"),
        ("synced", "", "", "", "", "not finished: TimeoutError: <late>"),
    ]
)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("**1,236.5** MB/s", 1236.5),
        ("1,185,296 (1,001,815 to 1,203,674)", 1_185_296.0),
        ("≤ 0.05", 0.05),
        ("n^", None),
        ("", None),
    ],
)
def test_the_first_number_of_a_cell_is_its_figure(cell: str, expected: float | None) -> None:
    assert number(cell) == expected


def test_a_table_is_read_as_it_was_written() -> None:
    (table,) = tables_of(["words", *COMPARED, "", "more words"])
    assert table.title == "what"
    assert table.numbers("Ottla") == [400.0, 0.5, None]
    with pytest.raises(LookupError, match="no column 'Pulsar'"):
        table.column("Pulsar")


def test_the_same_lines_give_the_same_picture() -> None:
    (first,) = pictures("scale", GROWN).values()
    (second,) = pictures("scale", GROWN).values()
    assert first == second


@pytest.mark.parametrize(("section", "lines"), [("scale", GROWN), ("kafka", COMPARED)])
def test_a_picture_is_well_formed_and_names_its_figures(section: str, lines: list[str]) -> None:
    (picture,) = pictures(section, lines).values()
    texts = {element.text for element in ElementTree.fromstring(picture).iter() if element.text}
    names = {"start, s", "memory, MB"} if section == "scale" else {"produce, MB/s", "start, s"}
    assert names <= texts


def test_a_row_without_figures_is_left_out() -> None:
    (picture,) = pictures("kafka", COMPARED).values()
    assert "synced" not in picture


def test_met_and_missed_look_different() -> None:
    (picture,) = pictures("kafka", COMPARED).values()
    assert picture.count('<rect class="met"') == 1
    assert picture.count('<rect class="missed"') == 1


def test_a_section_without_figures_has_no_picture() -> None:
    assert links("kafka", ["Not run: there is no java on this machine."]) == []


def test_a_table_that_has_other_columns_now_costs_its_picture_and_nothing_else() -> None:
    lines = aligned([("writing", "record", "rate"), ("`ottla.Producer.send`", "100 B", "1,000")])
    assert links("clients", lines) == []


def test_pictures_stand_beside_the_page_that_shows_them(tmp_path: Path) -> None:
    results = tmp_path / "RESULTS.md"
    stale = tmp_path / "kafka.svg"
    stale.write_text("of an older run")
    results.write_text(page("", Ran(name="scale", lines=GROWN, wall_s=1.0)), "utf-8")
    assert [path.name for path in draw(results)] == ["scale-partitions.svg"]
    assert "(scale-partitions.svg)" in results.read_text("utf-8")
    assert not stale.exists()


def test_every_picture_is_of_a_section_that_exists() -> None:
    assert {plot.section for plot in PLOTS} <= set(HEADINGS)
    assert len({plot.file for plot in PLOTS}) == len(PLOTS)


def test_the_committed_pictures_are_those_of_the_committed_page(tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "bench"
    results = tmp_path / "RESULTS.md"
    results.write_text((folder / "RESULTS.md").read_text("utf-8"), "utf-8")
    drawn = {path.name: path.read_text("utf-8") for path in draw(results)}
    committed = {path.name: path.read_text("utf-8") for path in folder.glob("*.svg")}
    assert drawn == committed, "draw them again: python -m bench.plots"


# Growth


def test_what_costs_the_same_for_each_thing_grows_evenly() -> None:
    assert growth.power((10, 2.0), (1_000, 200.0)) == pytest.approx(1)
    assert growth.power((10, 2.0), (1_000, 2.0)) == pytest.approx(0)
    assert growth.power((10, 2.0), (100, 200.0)) == pytest.approx(2)


def test_what_is_worse_than_linear_stands_out() -> None:
    lines = growth.table("n", [(n, {"even": float(n), "worse": n * n / 1.0}) for n in (1, 10)])
    assert "n^1.00 " in lines[-1]
    assert "**n^2.00**" in lines[-1]


def test_one_part_that_fails_does_not_cost_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    def failing() -> list[str]:
        raise OSError("no file left")

    assert (
        growth.part("segments", failing)[0] == "**Not finished**: segments: OSError: no file left"
    )
    assert "no file left" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "shown"), [(12_345.6, "12,346"), (45.67, "45.7"), (1.234, "1.23"), (0.0123, "0.012")]
)
def test_figures_have_three_digits_that_count(value: float, shown: str) -> None:
    assert growth.figure(value) == shown
