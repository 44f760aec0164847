"""The commands against a real broker in this process, and against other people's clients."""

import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from ottla.broker.embedded import Broker
from ottla.cli import main as cli
from tests.compat.cli_samples import PATIENCE_S, facts, ottla, refusing_port, spawn
from tests.keeping import KEEPS

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
names = (f"topic-{number}" for number in count())


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={**KEEPS, "num.partitions": 2}) as running:
        yield running


@pytest.fixture
def run(broker: Broker) -> Callable[..., Result]:
    """Runs a command against the broker."""

    def run(*arguments: object, stdin: bytes = b"") -> Result:
        return ottla(*arguments, "-b", broker.bootstrap_servers, stdin=stdin)

    return run


@pytest.fixture
def topic(run: Callable[..., Result]) -> str:
    """A fresh topic with two partitions."""
    name = next(names)
    assert run("topic", "create", name).exit_code == cli.OK
    return name


Run = Callable[..., Result]


def described(run: Run, topic: str) -> dict[str, Any]:
    (description,) = facts(run("topic", "describe", topic, "-o", "json"))
    return description


def test_a_topic_gets_the_partitions_and_settings_it_was_created_with(run: Run) -> None:
    name = next(names)
    done = run("topic", "create", name, "-p", 3, "-c", "retention.ms=60000")
    assert done.stdout == f"created topic {name} with 3 partitions\n"

    description = described(run, name)

    assert [p["partition"] for p in description["partitions"]] == [0, 1, 2]
    assert description["configs"] == {"retention.ms": {"value": "60000", "source": "topic"}}


def test_a_topic_that_exists_is_a_conflict_unless_that_is_fine(run: Run, topic: str) -> None:
    refused = run("topic", "create", topic)
    assert refused.exit_code == 5
    assert refused.stderr.splitlines() == [
        f"error: TOPIC_ALREADY_EXISTS: topic '{topic}' already exists",
        "hint:  --if-not-exists makes an existing topic no error",
    ]
    assert facts(run("topic", "create", topic, "--if-not-exists", "-o", "json")) == [
        {"name": topic, "created": False}
    ]


def test_a_dry_run_creates_nothing(run: Run) -> None:
    name = next(names)
    assert run("topic", "create", name, "--dry-run").stdout.startswith("would create")
    assert run("topic", "describe", name).exit_code == 6


def test_the_broker_says_what_is_wrong_with_a_setting(run: Run) -> None:
    refused = run("topic", "create", next(names), "-c", "retention.msec=1")
    assert refused.exit_code == cli.UNEXPECTED
    assert "INVALID_CONFIG" in refused.stderr
    assert "retention.msec" in refused.stderr


def test_topics_are_listed_with_what_is_in_them(run: Run, topic: str) -> None:
    run("produce", topic, "a", "b", "c")
    (listed,) = facts(run("topic", "list", topic, "-o", "json"))
    assert (listed["partitions"], listed["records"]) == (2, 3)
    assert listed["bytes"] > 0
    assert listed["retention_ms"] == 7 * 24 * 3_600_000


def test_a_list_may_be_empty(run: Run) -> None:
    shown = run("topic", "list", "no-such-.*")
    assert shown.exit_code == cli.OK
    assert len(shown.stdout.splitlines()) == 1


def test_settings_change_and_go_back(run: Run, topic: str) -> None:
    run("topic", "alter", topic, "-c", "cleanup.policy=compact", "-c", "retention.ms=5000")
    assert set(described(run, topic)["configs"]) == {"cleanup.policy", "retention.ms"}
    run("topic", "alter", topic, "-d", "cleanup.policy", "-c", "retention.ms=6000")
    assert described(run, topic)["configs"] == {
        "retention.ms": {"value": "6000", "source": "topic"}
    }


def test_a_change_that_is_refused_changes_nothing(run: Run, topic: str) -> None:
    assert run("topic", "alter", topic, "-c", "cleanup.policy=shred").exit_code == cli.UNEXPECTED
    assert described(run, topic)["configs"] == {}
    assert run("topic", "alter", topic).exit_code == cli.USAGE


def test_partitions_are_added_to_those_that_are_there(run: Run, topic: str) -> None:
    assert facts(run("topic", "add-partitions", topic, 3, "-o", "json")) == [
        {"name": topic, "partitions": 5}
    ]
    assert len(described(run, topic)["partitions"]) == 5


def test_deleting_asks_first(run: Run, topic: str) -> None:
    for answer in (b"n\n", b""):
        kept = run("topic", "delete", topic, stdin=answer)
        assert kept.exit_code == cli.UNEXPECTED
        assert kept.stderr.splitlines()[-2:] == [
            "error: nothing was done: nobody said yes",
            "hint:  --yes says it beforehand",
        ]
    assert described(run, topic)["name"] == topic
    assert run("topic", "delete", topic, stdin=b"y\n").exit_code == cli.OK
    assert run("topic", "delete", topic, "--yes").exit_code == 6
    assert run("topic", "delete", topic, "--yes", "--if-exists").exit_code == cli.OK


def test_lines_become_records_and_records_lines(run: Run, topic: str) -> None:
    done = run("produce", topic, "-p", 0, stdin=b"one\ntwo\n\nfour")
    assert done.exit_code == cli.OK
    assert "produced 4 records" in done.stderr
    assert run("consume", topic).stdout == "one\ntwo\n\nfour\n"


def test_a_key_always_finds_the_same_partition(run: Run, topic: str) -> None:
    lines = b"".join(b"customer-%d:%d\n" % (n % 5, n) for n in range(50))
    run("produce", topic, "-K", ":", stdin=lines)
    shown = run("consume", topic, "-f", "%k %p").stdout.split()
    placed = dict(zip(shown[::2], shown[1::2], strict=True))
    assert sorted(set(zip(shown[::2], shown[1::2], strict=True))) == sorted(placed.items())


@pytest.mark.parametrize("codec", CODECS)
def test_what_we_write_other_clients_read(codec: str, run: Run, topic: str, broker: Broker) -> None:
    kafka = pytest.importorskip("kafka")
    run("produce", topic, "-p", 1, "-k", "k", "-H", "a=1", "--compression", codec, "v1", "v2")

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_S * 1000,
    )
    consumer.assign([kafka.TopicPartition(topic, 1)])
    consumer.seek_to_beginning()
    first, second = next(consumer), next(consumer)
    consumer.close()

    assert (first.key, first.value, first.offset) == (b"k", b"v1", 0)
    assert (second.value, list(second.headers)) == (b"v2", [("a", b"1")])


@pytest.mark.parametrize("codec", CODECS)
def test_what_other_clients_write_we_read(codec: str, run: Run, topic: str, broker: Broker) -> None:
    kafka = pytest.importorskip("kafka")
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=False,
    )
    for n in range(10):
        producer.send(topic, b"v%d" % n, key=b"k", headers=[("n", b"%d" % n)], partition=0)
    producer.flush()
    producer.close()

    shown = run("consume", topic, "-f", "%o %k %s %h").stdout.splitlines()

    assert shown == [f"{n} k v{n} n={n}" for n in range(10)]


def test_json_can_be_copied_from_topic_to_topic(run: Run, topic: str) -> None:
    run("produce", topic, "-K", ":", "-H", "a=1", stdin=b'k:{"id":1}\nk:text\n')
    copy = next(names)

    run("produce", copy, "-i", "json", stdin=run("consume", topic, "-o", "json").stdout_bytes)

    kept = ("key", "value", "headers", "timestamp_ms")
    original, copied = (
        [[row[name] for name in kept] for row in facts(run("consume", of, "-o", "json"))]
        for of in (topic, copy)
    )
    assert copied == original
    assert copied[0][:3] == ["k", {"id": 1}, [["a", "1"]]]


def test_a_file_is_read_to_its_end(run: Run, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "orders.ndjson"
    path.write_bytes(b"".join(b'{"customer": {"id": %d}}\n' % (n % 7) for n in range(5_000)))

    done = run("produce", topic, "-f", path, "--key-from", ".customer.id", "-o", "json")

    (told,) = facts(done)
    assert told["records"] == 5_000
    assert set(run("consume", topic, "-f", "%k").stdout.split()) == set("0123456")


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ((), "0123456789"),
        (("--from", "end"), ""),
        (("--from", 7), "789"),
        (("--from", -2), "89"),
        (("--from", "+3", "--until", 5), "34"),
        (("--until", -8), "01"),
        (("--from", 4, "-n", 2), "45"),
        (("-n", 0), ""),
        (("--from", "@1970-01-01T00:00:01Z"), "123456789"),
        (("--from", "@-1h"), ""),
        (("--until", "@1970-01-01T00:00:04.001Z"), "01234"),
        (("--from", 100), ""),
    ],
    ids=str,
)
def test_a_span_is_named_by_offsets_or_times(
    options: tuple[object, ...], values: str, run: Run, topic: str
) -> None:
    lines = b"".join(b'{"value": "%d", "timestamp_ms": %d}\n' % (n, n * 1000) for n in range(10))
    run("produce", topic, "-p", 0, "-i", "json", stdin=lines)

    shown = run("consume", topic, *options)

    assert shown.exit_code == cli.OK, shown.stderr
    assert "".join(shown.stdout.split()) == values


def test_one_partition_can_be_read_alone(run: Run, topic: str) -> None:
    run("produce", topic, "-p", 0, "a")
    run("produce", topic, "-p", 1, "b")
    assert run("consume", topic, "-p", 1).stdout == "b\n"
    assert run("consume", topic, "-p", 7).exit_code == 6
    assert run("produce", topic, "-p", 7, "c").exit_code == cli.UNEXPECTED


def test_several_topics_are_read_at_a_time(run: Run, topic: str) -> None:
    other = next(names)
    run("produce", topic, "a")
    run("produce", other, "b")
    assert sorted(run("consume", topic, other).stdout.split()) == ["a", "b"]


def test_a_missing_topic_is_not_found_and_not_created(run: Run) -> None:
    assert run("consume", "nowhere").exit_code == 6
    assert run("topic", "list", "nowhere", "-o", "json").stdout == ""


def test_nobody_waits_for_acks_of_zero_and_yet_nothing_is_lost(run: Run, topic: str) -> None:
    lines = b"".join(b"%0900000d\n" % n for n in range(40))  # more than sockets have room for
    assert run("produce", topic, "-p", 0, "--acks", 0, stdin=lines).exit_code == cli.OK
    follow = run("consume", topic, "-p", 0, "-F", "--from", "start", "-n", 40, "-f", "%S")
    assert follow.stdout.split() == ["900000"] * 40


def test_a_bad_line_stops_and_tells_how_much_is_written(run: Run, topic: str) -> None:
    failed = run("produce", topic, "-K", ":", stdin=b"k:1\nk:2\nbroken\nk:3\n")
    assert failed.exit_code == 8
    assert "line 3: no ':' between key and value (before that, 2 records got written)" in (
        failed.stderr
    )
    assert run("consume", topic).stdout == "1\n2\n"


def test_a_bad_first_line_is_a_usage_error(run: Run, topic: str) -> None:
    assert run("produce", topic, "-i", "json", stdin=b"{\n").exit_code == cli.USAGE


def test_a_record_that_is_too_large_is_refused_by_the_broker(run: Run, topic: str) -> None:
    refused = run("produce", topic, stdin=b"x" * 2_000_000)
    assert refused.exit_code == cli.UNEXPECTED
    assert "MESSAGE_TOO_LARGE" in refused.stderr


def test_batches_that_were_written_count_when_a_later_one_is_refused(run: Run, topic: str) -> None:
    small = b"".join(b"%d\n" % n for n in range(10))
    failed = run("produce", topic, "-p", 0, stdin=small + b"x" * 2_000_000 + b"\n" + small)
    assert failed.exit_code == 8
    assert "MESSAGE_TOO_LARGE" in failed.stderr
    assert "10 records got written" in failed.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("consume", "t", "--from", "yesterday"),
        ("consume", "t", "-f", "%q"),
        ("consume", "t", "-f", "%s", "-o", "json"),
        ("consume", "t", "--follow", "--until", "5"),
        ("produce", "t", "v", "-f", __file__),
        ("produce", "t", "-K", ":", "-i", "json"),
        ("produce", "t", "--key-from", "a..b"),
        ("produce", "t", "-H", "a"),
        ("topic", "list", "["),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_a_usage_error(arguments: tuple[str, ...], run: Run) -> None:
    refused = run(*arguments)
    assert refused.exit_code == cli.USAGE
    assert refused.stderr.startswith("error: ")


def test_a_bench_writes_what_it_says_and_reads_it_again(run: Run) -> None:
    name = next(names)
    options = ("--topic", name, "-o", "json")
    (wrote,) = facts(run("bench", "produce", "-n", 2_500, "--size", 100, "-p", 3, *options))
    (read,) = facts(run("bench", "consume", *options))
    (raw,) = facts(run("bench", "consume", "--raw", *options))
    assert wrote["records"] == read["records"] == raw["records"] == 2_500
    assert wrote["mb_per_s"] >= 0
    assert len(described(run, name)["partitions"]) == 3


def test_a_bench_that_is_interrupted_shows_the_figures_so_far(
    broker: Broker, run: Run, topic: str
) -> None:
    most = 10**9
    options = ("-n", most, "--size", 10, "--topic", topic, "-o", "json")
    with spawn("bench", "produce", *options, "-b", broker.bootstrap_servers) as bench:
        try:
            while not run("consume", topic, "-n", 1, "-f", "%o\\n").stdout:
                assert bench.poll() is None, bench.communicate()
            bench.send_signal(signal.SIGINT)
            told, said = bench.communicate(timeout=PATIENCE_S)
        finally:
            bench.kill()
    assert (bench.returncode, said) == (cli.OK, "")
    assert json.loads(told)["records"] < most


def test_nobody_listening_is_said_with_what_to_do() -> None:
    with refusing_port() as port:
        refused = ottla("topic", "list", "-b", f"127.0.0.1:{port}")
    assert refused.exit_code == 3
    assert refused.stderr.splitlines() == [
        f"error: 127.0.0.1:{port}: Connection refused",
        "hint:  `ottla serve` starts a broker here; -b HOST:PORT names one elsewhere",
    ]


def test_the_next_address_is_tried_when_one_is_dead(broker: Broker) -> None:
    with refusing_port() as port:
        both = f"127.0.0.1:{port},{broker.bootstrap_servers}"
        assert ottla("topic", "list", "-b", both).exit_code == cli.OK


def test_a_broker_that_never_answers_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        late = ottla("topic", "list", "-b", f"127.0.0.1:{port}", "--timeout", 0.2)
    assert late.exit_code == 7
    assert "within 0.2 s" in late.stderr


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x04\0\0\0\x63"],
    ids=["hangs up", "speaks HTTP", "answers something else"],
)
def test_whoever_is_no_broker_is_left_alone(answer: bytes) -> None:
    def serve_one(listener: socket.socket) -> None:
        stream, _ = listener.accept()
        with stream:
            stream.recv(1000)
            stream.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve_one, args=(listener,))
        thread.start()
        port = listener.getsockname()[1]
        refused = ottla("topic", "list", "-b", f"127.0.0.1:{port}", "--timeout", PATIENCE_S)
        thread.join(PATIENCE_S)
    assert refused.exit_code == 3
    assert f"127.0.0.1:{port}" in refused.stderr
    assert "is it a Kafka port?" in refused.stderr
