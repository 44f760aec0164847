"""Each example of `examples/spark` does what it says, with real Spark and a broker."""

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.pipeline.state import STATE_VARIABLE
from ottla.testing import TestBroker
from tests.spark.pipelines import EXAMPLES, rows_of, run_once, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestBroker]:
    """A broker with the topics that examples only read, and a state folder for one test."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    with TestBroker() as broker:
        for topic in ("orders", "orders.clean", "payments", "calls"):
            broker.create_topic(topic, partitions=2)
        yield broker


def at(minute: int, second: int = 0) -> str:
    return f"2026-11-16T08:{minute:02}:{second:02}Z"


def order(number: int, customer: str = "ada", amount: float = 10.0, **more: Any) -> dict[str, Any]:
    return {"id": number, "customer": customer, "amount": amount, **more}


def test_clean_keeps_what_parses_and_sends_the_rest_elsewhere(
    shop: TestBroker, spark: "SparkSession"
) -> None:
    bad = ["nonsense", '{"id": 4}', '{"id": "x", "customer": "ada"}']
    write(shop, "orders", [order(1, " Ada ", 9.999, country="cz", at=at(0)), order(2, amount=0.0)])
    write(shop, "orders", [*bad, order(3, "bob")])

    step = run_once(EXAMPLES / "clean.py", shop, spark)["clean"]

    clean = sorted(rows_of(shop, "orders.clean"), key=lambda row: row["id"])
    assert [(row["id"], row["customer"], row["amount"]) for row in clean] == [
        (1, "ada", 10.0),
        (3, "bob", 10.0),
    ]
    assert [row["country"] for row in clean] == ["CZ", "??"]
    assert {record.key for record in shop.records("orders.clean")} == {b"ada", b"bob"}
    letters = {record.value or b"": dict(record.headers) for record in shop.records("orders.bad")}
    assert sorted(letters) == sorted(text.encode() for text in bad)
    reasons = {value: headers["ottla.error"] for value, headers in letters.items()}
    assert reasons[b'{"id": 4}'] == b"customer is missing"
    assert reasons[b"nonsense"] == b"the value does not have the schema"
    origins = [headers["ottla.origin"] or b"" for headers in letters.values()]
    assert all(origin.startswith(b"orders-") for origin in origins)
    assert (step.rows_in, step.rows_out, step.rows_bad, step.lag) == (6, 2, 3, 0)


def test_enrich_joins_with_a_table(shop: TestBroker, spark: "SparkSession") -> None:
    write(shop, "orders.clean", [order(1, "ada", 100.0), order(2, "mallory", 50.0)])
    run_once(EXAMPLES / "enrich.py", shop, spark)
    priced = sorted(rows_of(shop, "orders.priced"), key=lambda row: row["id"])
    assert priced == [
        {"id": 1, "customer": "ada", "segment": "regular", "price": 90.0},
        {"id": 2, "customer": "mallory", "segment": "unknown", "price": 50.0},
    ]


def test_window_writes_each_window_once_when_it_is_over(
    shop: TestBroker, spark: "SparkSession"
) -> None:
    rows = [order(n, amount=1.5, country="CZ", at=at(0, n)) for n in range(10)]
    write(shop, "orders.clean", [*rows, order(10, country="CZ", at=at(1))])
    run_once(EXAMPLES / "window.py", shop, spark)
    assert rows_of(shop, "revenue_by_minute") == []

    write(shop, "orders.clean", [order(11, country="DE", at=at(5))])
    run_once(EXAMPLES / "window.py", shop, spark)
    done = sorted(rows_of(shop, "revenue_by_minute"), key=lambda row: row["minute"])
    assert [(row["country"], row["orders"], row["revenue"]) for row in done] == [
        ("CZ", 10, 15.0),
        ("CZ", 1, 10.0),
    ]
    assert done[0]["minute"].startswith("2026-11-16T08:00:00")


def test_dedupe_lets_a_row_pass_once(shop: TestBroker, spark: "SparkSession") -> None:
    write(shop, "calls", [{"call_id": name, "at": at(n)} for n, name in enumerate("abab")])
    run_once(EXAMPLES / "dedupe.py", shop, spark)
    write(shop, "calls", [{"call_id": "a", "at": at(5)}, {"call_id": "c", "at": at(5)}])
    run_once(EXAMPLES / "dedupe.py", shop, spark)
    assert sorted(row["call_id"] for row in rows_of(shop, "calls.once")) == ["a", "b", "c"]


def test_fan_out_sends_a_row_to_every_topic_that_it_names(
    shop: TestBroker, spark: "SparkSession"
) -> None:
    write(shop, "orders.clean", [order(1, country="CZ"), order(2, amount=5_000.0, country="DE")])
    run_once(EXAMPLES / "fan_out.py", shop, spark)
    found = {
        topic: [row["id"] for row in rows_of(shop, topic)]
        for topic in ("orders.home", "orders.abroad", "orders.large")
    }
    assert found == {"orders.home": [1], "orders.abroad": [2], "orders.large": [2]}
    assert "topic" not in rows_of(shop, "orders.home")[0]


def test_join_matches_two_topics(shop: TestBroker, spark: "SparkSession") -> None:
    write(shop, "orders.clean", [order(n, at=at(n)) for n in range(3)])
    write(shop, "payments", [{"order_id": 1, "paid": 10.0, "paid_at": at(20)}])
    write(shop, "payments", [{"order_id": 2, "paid": 10.0, "paid_at": at(0)}])  # before the order
    run_once(EXAMPLES / "join.py", shop, spark)
    assert [(row["id"], row["paid"]) for row in rows_of(shop, "orders.paid")] == [(1, 10.0)]


def test_totals_are_written_whenever_they_change(shop: TestBroker, spark: "SparkSession") -> None:
    write(shop, "orders.clean", [order(1, "ada", 1.0), order(2, "bob", 2.0)])
    run_once(EXAMPLES / "totals.py", shop, spark)
    write(shop, "orders.clean", [order(3, "ada", 4.0)])
    run_once(EXAMPLES / "totals.py", shop, spark)
    said = [(record.key, json.loads(record.value or b"")) for record in shop.records("totals")]
    assert [row["spent"] for key, row in said if key == b"ada"] == [1.0, 5.0]
    assert [row["spent"] for key, row in said if key == b"bob"] == [2.0]


@pytest.mark.usefixtures("spark")
def test_the_plain_example_copies_every_record_once(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "plain.py"), run_name="__main__")
    assert capsys.readouterr().out == "1000 1000\n"


def test_every_example_has_a_test() -> None:
    text = Path(__file__).read_text("utf-8")
    assert [path.name for path in EXAMPLES.glob("*.py") if f'"{path.name}"' not in text] == []
