"""What each example of `examples/` needs, and what it must leave behind.

An example that works for ever is ended by Ctrl-C, as soon as `until` returns.
"""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import ottla
from ottla.testing import TestBroker

Step = Callable[[TestBroker], None]

PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One example."""

    before: Step | None = None
    """What is there when it begins."""
    until: Step | None = None
    """Returns when an example without an end has done its work."""
    after: Step | None = None
    """Looks at what it left behind."""
    prints: str | None = None
    """What it says."""


def has(topic: str, count: int) -> Step:
    """Wait for, or look for, so many records."""

    def step(broker: TestBroker) -> None:
        assert len(broker.wait_for(topic, count, PATIENCE_S)) == count

    return step


def orders(broker: TestBroker) -> None:
    for number in range(10):
        broker.produce("orders", json.dumps({"id": number, "amount": 9_999.0 + number}))


def orders_and_nonsense(broker: TestBroker) -> None:
    orders(broker)
    broker.produce("orders", "nonsense")


def clicks(broker: TestBroker) -> None:
    broker.create_topic("clicks", partitions=6)


def enriched(broker: TestBroker) -> None:
    records = broker.records("orders.enriched")
    assert [json.loads(record.value or b"")["country"] for record in records] == ["CZ"] * 10


def in_the_first_partition(broker: TestBroker) -> None:
    (record,) = broker.records("orders")
    assert (record.key, record.partition) == (b"eu-17", 0)


def stamped(broker: TestBroker) -> None:
    (record,) = broker.records("orders")
    assert [name for name, _ in record.headers] == ["sent-at"]


def grown_and_compacted(broker: TestBroker) -> None:
    with ottla.Admin(broker.bootstrap_servers) as admin:
        info = admin.describe_topic("orders")
        settings = admin.describe_config(topic="orders", keys=["retention.ms"])
    assert (len(info.partitions), info.config["cleanup.policy"]) == (12, "compact")
    assert settings["retention.ms"].is_default


def late_billing(broker: TestBroker) -> None:
    orders(broker)
    with ottla.Admin(broker.bootstrap_servers) as admin:
        admin.alter_group_offsets("billing", {ottla.TopicPartition("orders", 0): 7})


def caught_up(group: str) -> Step:
    """Wait until a group has committed everything."""

    def step(broker: TestBroker) -> None:
        with ottla.Admin(broker.bootstrap_servers) as admin:
            wait_until(lambda: any(p.committed == 10 for p in admin.lag(group).partitions))

    return step


def assigned(group: str, count: int) -> Step:
    """Wait until the members of a group have so many partitions."""

    def step(broker: TestBroker) -> None:
        with ottla.Admin(broker.bootstrap_servers) as admin:
            wait_until(
                lambda: sum(len(m.assignment) for m in admin.describe_group(group).members) == count
            )

    return step


def wait_until(condition: Callable[[], bool]) -> None:
    never, deadline_s = threading.Event(), time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        try:
            if condition():
                return
        except ottla.OttlaError:
            pass  # there is no such group yet
        never.wait(0.02)
    raise AssertionError("it never came to be so")


def stopped_when_caught_up(broker: TestBroker) -> None:
    """Send SIGTERM to this process as soon as group warehouse has read everything."""
    orders(broker)

    def terminate() -> None:
        caught_up("warehouse")(broker)
        signal.raise_signal(signal.SIGTERM)

    threading.Thread(target=terminate, daemon=True).start()


def orders_for_a_database(broker: TestBroker) -> None:
    orders(broker)
    os.environ["ORDERS_DB"] = os.path.join(tempfile.mkdtemp(), "orders.db")


def orders_in_the_database(broker: TestBroker) -> None:
    with closing(sqlite3.connect(os.environ["ORDERS_DB"])) as db:
        wait_until(lambda: count_of(db) == 10)


def count_of(db: sqlite3.Connection) -> int:
    with suppress(sqlite3.OperationalError):
        count: int = db.execute("select count(*) from orders").fetchone()[0]
        return count
    return 0  # there is no such table yet


def no_database(broker: TestBroker) -> None:
    shutil.rmtree(Path(os.environ.pop("ORDERS_DB")).parent)


def settings_and_a_file(broker: TestBroker) -> None:
    broker.produce("settings", "dark mode", "large type")
    os.environ["OFFSETS_FILE"] = os.path.join(tempfile.mkdtemp(), "offsets.json")


def offsets_in_the_file(broker: TestBroker) -> None:
    path = Path(os.environ["OFFSETS_FILE"])
    wait_until(lambda: path.exists() and json.loads(path.read_text()) == [["settings", 0, 2]])


def no_file(broker: TestBroker) -> None:
    shutil.rmtree(Path(os.environ.pop("OFFSETS_FILE")).parent)


def its_tests_pass(broker: TestBroker) -> None:
    path = Path(__file__).parents[2] / "examples" / "20_test_fixture.py"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert "2 passed" in run.stdout, run.stdout


CASES: Mapping[str, Case] = {
    "01_produce": Case(after=has("orders", 1_000)),
    "02_produce_wait_callback": Case(after=has("audit", 2), prints="0 0\n"),
    "03_async_produce": Case(after=has("orders", 10_001), prints="0 10000\n"),
    "04_consume_loop": Case(before=orders, until=caught_up("billing")),
    "05_manual_commit": Case(before=stopped_when_caught_up, prints="10\n"),
    "06_typed": Case(before=orders_and_nonsense, until=has("orders.dlq", 1)),
    "07_rebalance": Case(before=clicks, until=assigned("sessions", 6)),
    "08_seek_pause": Case(before=orders, prints="4 10 6\nNone\n"),
    "09_exactly_once_db": Case(
        before=orders_for_a_database, until=orders_in_the_database, after=no_database
    ),
    "10_transactions": Case(before=orders, until=has("orders.enriched", 10), after=enriched),
    "11_async_transactions": Case(before=orders, until=has("orders.enriched", 10)),
    "12_arrow_poll": Case(before=orders, until=caught_up("stats"), prints="10 100035.0\n"),
    "13_arrow_send": Case(before=clicks, after=has("clicks", 2)),
    "14_partitioner": Case(after=in_the_first_partition),
    "15_assignor": Case(before=clicks, until=assigned("workers", 6)),
    "16_interceptors": Case(after=stamped),
    "17_admin": Case(
        after=grown_and_compacted,
        prints="6 delete [(1,), (1,), (1,), (1,), (1,), (1,)]\n",
    ),
    "18_lag_reset": Case(before=late_billing, prints="Empty 3 True\norders-0 7 -> 0\n"),
    "19_embedded": Case(prints="b'world'\n"),
    "20_test_fixture": Case(after=its_tests_pass),
    "21_broadcast": Case(
        before=settings_and_a_file,
        until=offsets_in_the_file,
        after=no_file,
        prints="b'dark mode'\nb'large type'\n",
    ),
}
