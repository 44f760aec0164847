"""`ottla group` against a real broker, with groups of another client's making."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import kafka
import pytest
from click.testing import Result

from ottla.broker.embedded import Broker
from ottla.cli import main as cli
from tests.compat.cli_samples import facts, ottla
from tests.compat.group_clients import TIMEOUT_S, KafkaPythonGroups

Run = Callable[..., Result]
RECORD_COUNT = 10
names = (f"orders-{number}" for number in count())


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def run(broker: Broker) -> Run:
    """Runs a command about groups against the broker."""

    def run(*arguments: object) -> Result:
        return ottla("group", *arguments, "-b", broker.bootstrap_servers)

    return run


@pytest.fixture
def topic(broker: Broker) -> str:
    """A topic of one partition with ten records."""
    name = next(names)
    values = [str(number) for number in range(RECORD_COUNT)]
    done = ottla("produce", name, *values, "-b", broker.bootstrap_servers)
    assert done.exit_code == cli.OK, done.stderr
    return name


@pytest.fixture
def group(broker: Broker, topic: str) -> str:
    """A group without members, four records into the topic."""
    KafkaPythonGroups(broker.bootstrap_servers).commit(f"group-{topic}", topic, 4)
    return f"group-{topic}"


@pytest.fixture
def active(broker: Broker, topic: str) -> Iterator[str]:
    """A group with one member."""
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=f"active-{topic}",
        client_id="ada",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    assert consumer.poll(TIMEOUT_S * 1000)
    consumer.commit()
    yield f"active-{topic}"
    consumer.close()


def committed(run: Run, group: str) -> list[int | None]:
    return [line["committed"] for line in facts(run("lag", group, "-o", "json"))]


def test_groups_are_listed(run: Run, group: str, active: str) -> None:
    listed = {line["group"]: line for line in facts(run("list", "-o", "json"))}
    assert (listed[group]["state"], listed[group]["protocol_type"]) == ("Empty", None)
    assert (listed[active]["state"], listed[active]["protocol_type"]) == ("Stable", "consumer")
    assert f"{group} " in run("list").stdout


def test_lag_is_what_is_left_to_read(run: Run, group: str, topic: str) -> None:
    assert facts(run("lag", group, "-o", "json")) == [
        {
            "group": group,
            "topic": topic,
            "partition": 0,
            "committed": 4,
            "end": RECORD_COUNT,
            "lag": 6,
            "member": None,
        }
    ]


def test_members_are_described_with_what_they_have(run: Run, active: str, topic: str) -> None:
    (described,) = facts(run("describe", active, "-o", "json"))
    (member,), (partition,) = described["members"], described["partitions"]
    assert (described["state"], described["protocol"]) == ("Stable", "range")
    assert (member["client"], member["host"]) == ("ada", "127.0.0.1")
    assert member["partitions"] == f"{topic}-0"
    assert (partition["lag"], partition["member"]) == (0, member["member"])
    text = run("describe", active).stdout
    headline, *_ = text.splitlines()
    generation = f"generation {described['generation']}"
    assert (
        headline == f"{active} · Stable · {generation} · 1 member · lag 0 · coordinator 1 · range"
    )
    assert "127.0.0.1" in text


def test_rebalances_are_described_with_who_set_them_off_and_why(run: Run, active: str) -> None:
    (described,) = facts(run("describe", active, "-o", "json"))
    told = described["rebalances"][0]
    assert (told["member"], told["client"]) == (described["members"][0]["member"], "ada")
    assert (told["generation"], told["host"]) == (1, "127.0.0.1")
    assert described["since_ms"] >= told["ended_ms"] >= told["began_ms"]
    assert told["reason"].startswith("it joined")
    text = run("describe", active).stdout
    assert "REASON" in text
    assert "it joined" in text


@pytest.mark.parametrize("verb", ["describe", "lag"])
def test_a_group_that_does_not_exist_is_not_found(run: Run, verb: str) -> None:
    done = run(verb, "nobody")
    assert done.exit_code == 6
    assert "nobody" in done.stderr


@pytest.mark.parametrize("verb", ["describe", "lag", "watch"])
def test_a_name_that_is_almost_right_is_met_with_a_suggestion(
    run: Run, group: str, verb: str
) -> None:
    done = run(verb, group.replace("group", "gruop"))
    assert done.exit_code == 6
    assert f"is it one of these? {group}" in done.stderr


@pytest.mark.parametrize(
    ("way", "after"),
    [
        (["--to", "start"], 0),
        (["--to", "end"], RECORD_COUNT),
        (["--to", "7"], 7),
        (["--to", "-1"], RECORD_COUNT - 1),
        (["--to", "@-1h"], 0),
        (["--to", "999"], RECORD_COUNT),
        (["--shift", "3"], 7),
        (["--shift", "-3"], 1),
        (["--shift", "-999"], 0),
    ],
    ids=str,
)
def test_offsets_are_reset_if_that_is_meant(
    run: Run, group: str, topic: str, way: list[str], after: int
) -> None:
    planned = {"topic": topic, "partition": 0, "before": 4, "after": after}
    rehearsed = run("reset", group, *way, "-o", "json")
    assert facts(rehearsed) == [planned]
    assert "nothing was changed" in rehearsed.stderr
    assert committed(run, group) == [4]

    done = run("reset", group, *way, "--execute", "-o", "json")
    assert facts(done) == [planned]
    assert done.stderr == ""
    assert committed(run, group) == [after]


def test_offsets_are_reset_by_a_file(run: Run, group: str, topic: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,2\n\n{topic},99,1\n")
    assert run("reset", group, "--file", plan, "--execute").exit_code == cli.OK
    assert committed(run, group) == [2]


def test_a_file_that_makes_no_sense_is_refused(run: Run, group: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("orders,zero,2\n")
    done = run("reset", group, "--file", plan, "--execute")
    assert done.exit_code == cli.USAGE
    assert "line 1" in done.stderr


def test_a_group_that_is_new_can_be_given_offsets(run: Run, topic: str) -> None:
    new = f"new-{topic}"
    assert run("reset", new, "-t", topic, "--to", "5", "--execute").exit_code == cli.OK
    assert committed(run, new) == [5]


def test_only_the_topics_that_are_named_are_reset(
    broker: Broker, run: Run, group: str, topic: str
) -> None:
    assert ottla("produce", "elsewhere", "x", "-b", broker.bootstrap_servers).exit_code == cli.OK
    KafkaPythonGroups(broker.bootstrap_servers).commit(group, "elsewhere", 1)
    done = run("reset", group, "-t", topic, "--to", "start", "--execute", "-o", "json")
    assert [line["topic"] for line in facts(done)] == [topic]
    assert run("reset", group, "-t", "missing", "--to", "start").exit_code == cli.USAGE


def test_a_group_with_members_keeps_its_offsets(run: Run, active: str) -> None:
    done = run("reset", active, "--to", "start", "--execute")
    assert done.exit_code == 5
    assert "stop its members first" in done.stderr
    assert committed(run, active) == [RECORD_COUNT]


@pytest.mark.parametrize("ways", [[], ["--to", "start", "--shift", "1"]])
def test_a_reset_needs_one_way(run: Run, group: str, ways: list[str]) -> None:
    assert run("reset", group, *ways).exit_code == cli.USAGE


def test_a_group_is_deleted_unless_it_has_members(run: Run, group: str, active: str) -> None:
    assert run("delete", group, "--yes").stdout == f"deleted group {group}\n"
    assert run("lag", group).exit_code == 6
    refused = run("delete", active, "--yes")
    assert refused.exit_code == 5
    remaining: list[dict[str, Any]] = facts(run("list", "-o", "json"))
    assert active in {line["group"] for line in remaining}


def test_a_deletion_is_asked_about(run: Run, group: str) -> None:
    assert run("delete", group).exit_code != cli.OK
    assert committed(run, group) == [4]
