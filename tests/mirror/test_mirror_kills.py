"""A mirror that is killed goes on where it was: nothing is missing, and nothing there twice."""

import json
import signal
from collections.abc import Callable

import ottla
from ottla.cli import main as cli
from ottla.model import TopicPartition
from ottla.testing import Fault, TestBroker
from tests.compat.cli_samples import facts, spawn
from tests.compat.cli_samples import ottla as run
from tests.mirror.world import PATIENCE_S, Pair, contents, create, until, values, write

LOT = 2_000
NEVER_S = 1e6


def end_of(bootstrap: str, topic: str, *, is_committed: bool = False) -> int:
    """How many offsets the partitions of a topic have together; 0 if there is none."""
    with ottla.Admin(bootstrap) as admin:
        ends = admin.list_offsets(
            admin.list_partitions([topic], missing_ok=True),
            isolation_level="read_committed" if is_committed else "read_uncommitted",
        )
    return sum(end or 0 for end in ends.values())


def write_lot(bootstrap: str, topic: str, number: int) -> None:
    with ottla.Producer(bootstrap) as producer:
        for n in range(LOT):
            producer.send(
                topic,
                b"%d.%d" % (number, n),
                key=b"%d" % n,
                headers=[("lot", b"%d" % number)],
                partition=n % 3,
                timestamp=1_600_000_000_000 + n,
            )


def test_a_mirror_that_is_killed_at_any_moment_copies_each_record_once(
    pair: Pair, topic: str
) -> None:
    create(pair.source, topic, partitions=3)
    with TestBroker() as target:
        faults = target.faults
        moments: list[Callable[[], Fault]] = [
            lambda: faults.stall("Produce", times=1),  # nothing of the transaction is there
            lambda: faults.delay("Produce", NEVER_S, times=1),  # a part of it is
            lambda: faults.stall("EndTxn", times=1),  # all of it is, but it is not decided
            lambda: faults.delay("EndTxn", NEVER_S, times=1),  # it is decided
        ]
        arguments = ("mirror", pair.source, target.bootstrap_servers, "-t", topic, "--name", topic)
        assert run(*arguments, "--once").exit_code == cli.OK
        for number, moment in enumerate(moments):
            write_lot(pair.source, topic, number)
            with moment() as fault:
                mirror = spawn(*arguments)
                try:
                    until(lambda fault=fault: fault.hit_count == 1)  # type: ignore[misc]
                finally:
                    mirror.send_signal(signal.SIGKILL)
                    mirror.communicate(timeout=PATIENCE_S)

        done = run(*arguments, "--once")

        assert done.exit_code == cli.OK, done.stderr
        copied = contents(target.bootstrap_servers, topic)
    assert copied == contents(pair.source, topic)
    assert sum(map(len, copied.values())) == len(moments) * LOT


def test_ctrl_c_stops_a_mirror_in_good_order(pair: Pair, topic: str) -> None:
    create(pair.source, topic)
    write(pair.source, topic, [b"1", b"2", b"3"])
    mirror = spawn(
        "mirror",
        pair.source,
        pair.target,
        "-t",
        topic,
        "--name",
        topic,
        "-o",
        "json",
        "--no-groups",
    )
    try:
        until(lambda: end_of(pair.target, topic, is_committed=True) > 0)
        mirror.send_signal(signal.SIGINT)
        out, said = mirror.communicate(timeout=PATIENCE_S)
    finally:
        mirror.kill()

    assert mirror.returncode == cli.OK, said
    *_, end = map(json.loads, out.splitlines())
    assert (end["event"], end["copied"], end["lost"]) == ("done", 3, 0)
    with ottla.Admin(pair.target) as admin:
        assert not [t for t in admin.list_transactions() if t.state == "Ongoing"]


def test_the_command_tells_what_it_copied(pair: Pair, topic: str) -> None:
    create(pair.source, topic, partitions=2)
    write(pair.source, topic, [b"1", b"2"])
    arguments = ("mirror", pair.source, pair.target, "-t", topic, "--name", topic, "--once")

    *progress, end = facts(run(*arguments, "-o", "json"))

    assert end["copied"] == 2
    assert progress[-1] == {
        "event": "progress",
        "topic": topic,
        "target": topic,
        "partitions": 2,
        "copied": 2,
        "per_s": progress[-1]["per_s"],
        "lag": 0,
        "lost": 0,
    }
    again = run(*arguments)
    assert again.stderr.endswith("copied 0 records of 1 topic; run it again to go on from here\n")
    assert f"{topic} partitions=2 copied=0" in again.stdout


def test_what_was_lost_makes_the_command_fail_in_part(pair: Pair, topic: str) -> None:
    create(pair.source, topic)
    write(pair.source, topic, [b"1", b"2"])
    arguments = ("mirror", pair.source, pair.target, "-t", topic, "--name", topic, "--once")
    assert run(*arguments).exit_code == cli.OK
    write(pair.source, topic, [b"3", b"4"])
    with ottla.Admin(pair.source) as admin:
        admin.delete_records({TopicPartition(topic, 0): 3})

    done = run(*arguments)

    assert done.exit_code == 8
    assert "warning: " in done.stderr
    assert "LOST" in done.stderr
    assert values(pair.target, topic) == [b"1", b"2", b"4"]


def test_an_address_at_which_nobody_listens_is_told_at_once(pair: Pair) -> None:
    done = run("mirror", pair.source, "127.0.0.1:1", "--once")

    assert done.exit_code == 3
    assert "127.0.0.1:1" in done.stderr


def test_the_same_cluster_twice_is_refused_with_what_to_do(pair: Pair, topic: str) -> None:
    create(pair.source, topic)

    done = run("mirror", pair.source, pair.source, "-t", topic, "--once")

    assert done.exit_code == 1
    assert "--prefix" in done.stderr
