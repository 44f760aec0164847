"""The parts of the pipeline's demo: its books, its proof, and what one sees of it."""

import json

import pytest

from ottla.cli.demo import shop
from ottla.cli.demo.orders import BAD_ROWS, PRICES, WINDOW_MS, Books, Generator
from ottla.cli.demo.proof import check
from ottla.cli.demo.screen import Figures, Screen, line_of
from ottla.pipeline.graph import check as check_pipeline
from ottla.pipeline.spec import Pipeline

NOON_MS = 1_794_800_000_000


class Sent:
    """A producer that keeps what it is given."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def send(self, topic: str, value: bytes, *, key: bytes | None = None) -> None:
        assert topic == "orders"
        self.values.append(value)


def generated(count: int) -> tuple[Books, list[bytes]]:
    sent = Sent()
    generator = Generator(sent)  # type: ignore[arg-type]
    for number in range(count):
        generator.write_one(NOON_MS + number * 10)
    return generator.books, sent.values


def result_of(books: Books) -> list[bytes]:
    """What a pipeline without fault writes."""
    return [
        json.dumps(
            {"window_ms": window, "drink": drink, "orders": total.orders, "cents": total.cents}
        ).encode()
        for (window, drink), total in books.expected.items()
    ]


def verdict(books: Books, revenue: list[bytes], letters: list[bytes], lag: int = 0) -> list[bool]:
    return [line.is_good for line in check(books, revenue, letters, lag)]


def test_the_books_agree_with_what_was_written() -> None:
    books, values = generated(3_000)
    bad = [value for value in values if value in BAD_ROWS]
    orders = [json.loads(value) for value in values if value not in BAD_ROWS]
    assert books.bad.total() == len(bad) > 0
    assert books.order_count == len(orders)
    assert books.written_count == len(values)
    owed = sum(order["cups"] * PRICES[order["drink"]] for order in orders)
    assert sum(total.cents for total in books.expected.values()) == owed
    assert all(window % WINDOW_MS == 0 for window, _ in books.expected)


class Refusing(Sent):
    """A producer that cannot write."""

    def send(self, topic: str, value: bytes, *, key: bytes | None = None) -> None:
        raise OSError("the broker is gone")


def test_a_generator_that_cannot_write_says_why() -> None:
    generator = Generator(Refusing())  # type: ignore[arg-type]
    generator.check()
    generator.start()
    generator._thread.join()

    for look in (generator.check, generator.stop):
        with pytest.raises(OSError, match="the broker is gone"):
            look()


def test_a_right_result_is_proven() -> None:
    books, _ = generated(2_000)
    assert verdict(books, result_of(books), list(books.bad.elements())) == [True] * 5


@pytest.mark.parametrize(
    ("change", "verdicts"),
    [
        (lambda rows: rows[1:], [False, False, False, True, True]),
        (lambda rows: [*rows, rows[0]], [False, False, False, True, True]),
        (
            lambda rows: [
                *rows,
                b'{"window_ms": 1, "drink": "tea", "orders": 0, "cents": 0}',
            ],
            [True, True, False, True, True],
        ),
    ],
    ids=["lost", "twice", "invented"],
)
def test_a_window_that_is_lost_or_repeated_or_invented_is_noticed(
    change: object, verdicts: list[bool]
) -> None:
    assert callable(change)
    books, _ = generated(2_000)
    assert verdict(books, change(result_of(books)), list(books.bad.elements())) == verdicts


def test_a_dead_letter_that_is_missing_or_changed_and_a_lag_are_noticed() -> None:
    books, _ = generated(2_000)
    letters = list(books.bad.elements())
    good = result_of(books)
    assert verdict(books, good, letters[1:]) == [True, True, True, False, True]
    assert verdict(books, good, [*letters[1:], b"?"]) == [True, True, True, False, True]
    assert verdict(books, good, letters, lag=1) == [True, True, True, True, False]


def test_the_pipeline_of_the_demo_can_work() -> None:
    check_pipeline(Pipeline("shop", (shop.revenue,)))


def test_without_a_terminal_figures_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    figures = Figures(
        written=1_200, lag=5, rows_in=1_195, rows_bad=2, rows_out=4, batch_count=3, batch_ms=210
    )
    assert "written 1,200 · read 1,195 · bad 2" in line_of(figures)
    screen = Screen()
    screen.say("it begins")
    screen.show(figures)
    screen.show(figures)  # too soon after the first
    begun, shown = capsys.readouterr().out.splitlines()
    assert begun.endswith("it begins")
    assert shown.endswith("lag 5")


def test_figures_of_a_spark_that_starts_say_so() -> None:
    figures = Figures(
        written=40, lag=40, rows_in=0, rows_bad=0, rows_out=0, batch_count=0, batch_ms=None
    )
    assert line_of(figures) == "written 40 · Spark is starting"
