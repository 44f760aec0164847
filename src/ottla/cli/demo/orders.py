"""Who orders what in the demo: steadily, sometimes all at once, and sometimes not to be read.

The generator keeps its own books, which know nothing of brokers and Spark: what it wrote, and what
the pipeline must make of it.
"""

import json
import random
import threading
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ottla.values import dataclass

if TYPE_CHECKING:
    from ottla.client.producer.producer import Producer

TOPIC: Final = "orders"
PRICES: Final = {"espresso": 220, "lungo": 260, "cappuccino": 340, "water": 150}
WINDOW_MS: Final = 10_000
ORDERS_PER_S: Final = 400
BURST_ORDERS: Final = 3_000
BURST_EVERY_S: Final = 12.0
BAD_SHARE: Final = 0.01
TICK_S: Final = 0.05

BAD_ROWS: Final = (
    b"not even JSON",
    b'{"id": 7, "drink": "espresso"',
    b'{"id": "seven", "drink": "lungo", "cups": 1, "at": "2026-01-01T00:00:00Z"}',
    b'{"drink": "water", "cups": 1, "at": "2026-01-01T00:00:00Z"}',
    b"",
)
"""Nonsense, half an object, a wrong type, a missing id, nothing."""

CLOSING_DRINK: Final = "closing time"
"""On no menu: such a row only tells the pipeline what time it is."""


@dataclass(frozen=True, slots=True)
class Total:
    """What one drink made in one window."""

    orders: int
    cents: int


class Books:
    """What was ordered, and so what must come out."""

    def __init__(self) -> None:
        self.totals: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
        self.bad: Counter[bytes] = Counter()
        self.order_count = 0

    def note(self, drink: str, cups: int, at_ms: int) -> None:
        """Book an order."""
        total = self.totals[at_ms - at_ms % WINDOW_MS, drink]
        total[0] += 1
        total[1] += cups * PRICES[drink]
        self.order_count += 1

    @property
    def expected(self) -> dict[tuple[int, str], Total]:
        """Window and drink -> what the pipeline must have written."""
        return {place: Total(*total) for place, total in self.totals.items()}

    @property
    def written_count(self) -> int:
        """All records, those that cannot be read among them."""
        return self.order_count + self.bad.total()


class Generator:
    """Writes orders from a thread until it is told to stop."""

    def __init__(self, producer: "Producer[bytes, bytes]", seed: int = 7) -> None:
        self.books = Books()
        self._producer = producer
        self._random = random.Random(seed)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, name="orders", daemon=True)
        self._failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop, and return when everything that was written is acknowledged."""
        self._end.set()
        self._thread.join()
        self.check()
        self._producer.flush()

    def check(self) -> None:
        """Raise what ended the orders, if they ended by themselves."""
        if self._failure is not None:
            raise self._failure

    def say_what_time_it_is(self, at_ms: int) -> None:
        """Let event time pass, so that all windows close; write it when everything is read."""
        row = order_row(0, CLOSING_DRINK, 0, at_ms)
        self._producer.send(TOPIC, row)
        self._producer.flush()

    def _work(self) -> None:
        try:
            due_s = burst_s = time.monotonic()
            while not self._end.wait(max(0.0, due_s - time.monotonic())):
                count = int(ORDERS_PER_S * TICK_S)
                if due_s - burst_s >= BURST_EVERY_S:
                    burst_s = due_s
                    count += BURST_ORDERS
                for _ in range(count):
                    self.write_one(time.time_ns() // 1_000_000)
                due_s += TICK_S
        except BaseException as error:
            self._failure = error  # for `check`: nobody waits for this thread

    def write_one(self, at_ms: int) -> None:
        """Write one record, usually an order that can be read."""
        dice = self._random
        if dice.random() < BAD_SHARE:
            row = dice.choice(BAD_ROWS)
            self._producer.send(TOPIC, row)
            self.books.bad[row] += 1
            return
        drink, cups = dice.choice(tuple(PRICES)), dice.randint(1, 4)
        number = self.books.order_count
        self._producer.send(TOPIC, order_row(number, drink, cups, at_ms), key=b"%d" % number)
        self.books.note(drink, cups, at_ms)


def order_row(number: int, drink: str, cups: int, at_ms: int) -> bytes:
    """An order as the shop writes it."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return json.dumps({"id": number, "drink": drink, "cups": cups, "at": at}).encode()
