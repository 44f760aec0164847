"""`ottla group watch` and `ottla why group` against a real broker, with groups of real clients."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import confluent_kafka
import pytest
from click.testing import Result

from ottla.cli import main as cli
from ottla.errors import ErrorCode
from ottla.testing import TestBroker
from tests.compat.cli_samples import PATIENCE_S, facts, line_of, ottla, spawn
from tests.compat.group_clients import TIMEOUT_S, KafkaPythonGroups

RECORD_COUNT = 10
ROUNDS = 300
numbers = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as running:
        yield running


@pytest.fixture
def topic(broker: TestBroker) -> str:
    """A topic of one partition with ten records."""
    name = f"dishes-{next(numbers)}"
    broker.produce(name, *map(str, range(RECORD_COUNT)))
    return name


def consumer(
    broker: TestBroker, topic: str, client_id: str = "ada", **settings: str
) -> confluent_kafka.Consumer:
    made = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"kitchen-{topic}",
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    made.subscribe([topic])
    return made


@pytest.fixture
def ada(broker: TestBroker, topic: str) -> Iterator[confluent_kafka.Consumer]:
    """The one member of a group, which has committed four records of ten."""
    made = consumer(broker, topic)
    assert len(made.consume(4, timeout=TIMEOUT_S)) == 4
    made.commit(asynchronous=False)
    yield made
    made.close()


def run(broker: TestBroker, *arguments: object) -> Result:
    return ottla(*arguments, "-b", broker.bootstrap_servers)


def why(broker: TestBroker, topic: str, *options: object) -> dict[str, Any]:
    """What was found about the group, by code."""
    (told,) = facts(
        run(broker, "why", "group", f"kitchen-{topic}", "--look", 0, "-o", "json", *options)
    )
    return {"state": told["state"], **{found["code"]: found for found in told["findings"]}}


def test_a_group_that_reads_on_waits_for_nothing(
    broker: TestBroker, topic: str, ada: confluent_kafka.Consumer
) -> None:
    assert set(why(broker, topic)) == {"state", "nothing"}
    done = run(broker, "why", "group", f"kitchen-{topic}", "--look", 0.05)
    assert done.stdout.startswith(f"Group kitchen-{topic} is Stable for ")
    assert "- It waits for nothing: 1 member at work, with 6 records left to commit." in done.stdout


def test_a_member_that_does_not_poll_is_waited_for_by_name(
    broker: TestBroker, topic: str, ada: confluent_kafka.Consumer
) -> None:
    bob = consumer(broker, topic, "bob")
    for _ in range(ROUNDS):
        bob.poll(0.1)
        if (found := why(broker, topic))["state"] == "PreparingRebalance":
            break
    bob.close()

    joins, set_off = found["waits_for_joins"], found["set_off_by"]
    assert joins["members"] == [ada.memberid()]
    assert joins["until_ms"] > joins["since_ms"]
    assert "127.0.0.1" in joins["text"]
    assert set_off["members"][0].startswith("bob-")
    assert set_off["text"].endswith("it joined.")


def test_a_member_that_commits_nothing_is_stuck(
    broker: TestBroker, topic: str, ada: confluent_kafka.Consumer
) -> None:
    assert "stuck" not in why(broker, topic)
    broker.advance(31)

    stuck = why(broker, topic)["stuck"]

    assert stuck["members"] == [ada.memberid()]
    assert stuck["partitions"] == [f"{topic}-0"]
    assert "has 6 records to read" in stuck["text"]
    assert "enable.auto.commit" in stuck["advice"]


def test_a_group_without_members_names_the_last_one(broker: TestBroker, topic: str) -> None:
    gone = consumer(broker, topic)
    gone.consume(4, timeout=TIMEOUT_S)
    gone.commit(asynchronous=False)
    gone.close()

    found = why(broker, topic)

    assert found["state"] == "Empty"
    assert found["no_members"]["since_ms"] > 0
    assert "(the last was ada-" in found["no_members"]["text"]
    assert "6 records to read" in found["no_members"]["text"]


def test_an_offset_that_the_partition_does_not_have_is_told(broker: TestBroker, topic: str) -> None:
    KafkaPythonGroups(broker.bootstrap_servers).commit(f"kitchen-{topic}", topic, 99)

    found = why(broker, topic)["beyond_end"]

    assert "offset 99" in found["text"]
    assert "ends at 10" in found["text"]


def test_a_coordinator_that_still_loads_is_an_answer(broker: TestBroker, topic: str) -> None:
    broker.faults.fail("DescribeGroups", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    found = why(broker, topic)

    assert found["state"] is None
    assert "coordinator_loading" in found


def test_of_a_group_that_does_not_exist_the_near_ones_are_suggested(
    broker: TestBroker, topic: str, ada: confluent_kafka.Consumer
) -> None:
    done = run(broker, "why", "group", f"kitchn-{topic}")

    assert done.exit_code == 6
    assert f"kitchen-{topic}" in done.stderr


def test_a_group_of_the_new_protocol_is_seen_too(broker: TestBroker, topic: str) -> None:
    ada = consumer(broker, topic, **{"group.protocol": "consumer"})
    assert len(ada.consume(4, timeout=TIMEOUT_S)) == 4
    ada.commit(asynchronous=False)

    (described,) = facts(run(broker, "group", "describe", f"kitchen-{topic}", "-o", "json"))
    found = why(broker, topic)
    ada.close()

    assert (described["type"], described["state"]) == ("consumer", "Stable")
    assert [member["client"] for member in described["members"]] == ["ada"]
    assert [partition["lag"] for partition in described["partitions"]] == [6]
    assert set(found) == {"state", "nothing"}


def test_why_lists_what_it_can_be_asked() -> None:
    assert "group" in ottla("why", "--help").stdout


def test_a_watch_ends_after_so_many_looks(
    broker: TestBroker, topic: str, ada: confluent_kafka.Consumer
) -> None:
    options = ("--count", 3, "--interval", 0.05)
    seen = facts(run(broker, "group", "watch", f"kitchen-{topic}", *options, "-o", "json"))

    assert [line["change"] for line in seen] == ["seen"]
    assert (seen[0]["state"], seen[0]["lag"]) == ("Stable", 6)
    text = run(broker, "group", "watch", f"kitchen-{topic}", *options).stdout
    assert f"kitchen-{topic} · Stable · generation 1" in text


@contextmanager
def watched(broker: TestBroker, topic: str) -> "Iterator[subprocess.Popen[str]]":
    """A watch in a process of its own, which has had its first look."""
    process = spawn(
        *("group", "watch", f"kitchen-{topic}", "--interval", 0.05, "-o", "json"),
        *("-b", broker.bootstrap_servers),
    )
    try:
        assert json.loads(line_of(process))["change"] == "seen"
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate(timeout=PATIENCE_S)


def told_of(line: dict[str, Any]) -> tuple[str, str]:
    return line["change"], line.get("after", "")


def test_a_watch_tells_of_each_change_and_ends_at_ctrl_c(broker: TestBroker, topic: str) -> None:
    ada = consumer(broker, topic)
    assert len(ada.consume(4, timeout=TIMEOUT_S)) == 4
    ada.commit(asynchronous=False)
    with watched(broker, topic) as watching:
        ada.consume(2, timeout=TIMEOUT_S)
        ada.commit(asynchronous=False)
        progress = json.loads(line_of(watching))
        ada.close()
        # A look may fall into the middle of it, and then there is more than one of a kind.
        lines: list[dict[str, Any]] = []
        while not {"Empty", "left"} <= {word for line in lines for word in told_of(line)}:
            lines.append(json.loads(line_of(watching)))
        watching.send_signal(signal.SIGINT)
        _, said = watching.communicate(timeout=PATIENCE_S)

    assert (progress["change"], progress["lag"], progress["committed"]) == ("progress", 4, 2)
    assert {line["change"] for line in lines} == {"rebalance", "state", "left"}
    assert lines[0]["reason"].startswith("it left")
    assert (watching.returncode, said.strip()) == (cli.INTERRUPTED, "error: interrupted")


def test_a_watch_survives_a_look_that_fails(
    broker: TestBroker, topic: str, ada: confluent_kafka.Consumer
) -> None:
    with watched(broker, topic) as watching:
        broker.faults.fail("DescribeGroups", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        unseen, seen = (json.loads(line_of(watching)) for _ in range(2))

    assert (unseen["change"], seen["change"]) == ("unseen", "seen")
    assert "COORDINATOR_LOAD_IN_PROGRESS" in unseen["reason"]


def look_at(terminal: int, drawn: bytearray, changed: threading.Condition) -> None:
    """Take in what is drawn until nobody draws any more: a full terminal would hold that up."""
    with suppress(OSError):  # which is how a terminal ends
        while more := os.read(terminal, 4096):
            with changed:
                drawn += more
                changed.notify_all()


def test_on_a_terminal_a_watch_draws_the_group(
    broker: TestBroker, topic: str, ada: confluent_kafka.Consumer
) -> None:
    ours, theirs = os.openpty()
    options = ("--interval", "0.05", "-b", broker.bootstrap_servers)
    watching = subprocess.Popen(
        [sys.executable, "-m", "ottla", "group", "watch", f"kitchen-{topic}", *options],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "150", "LINES": "40"},
    )
    os.close(theirs)
    drawn, changed = bytearray(), threading.Condition()
    looking = threading.Thread(target=look_at, args=(ours, drawn, changed))
    looking.start()
    try:
        with changed:
            assert changed.wait_for(
                lambda: b"PARTITIONS" in drawn and drawn.count(b"Stable") >= 2, PATIENCE_S
            )
        watching.send_signal(signal.SIGINT)
        _, said = watching.communicate(timeout=PATIENCE_S)
    finally:
        watching.kill()
        looking.join(PATIENCE_S)
        os.close(ours)

    assert watching.returncode == cli.INTERRUPTED, said
    assert f"kitchen-{topic}".encode() in drawn
    assert b"127.0.0.1" in drawn
