"""`ottla serve` as users run it: a process that is started, used, stopped and killed."""

import signal
import subprocess
import sys
from pathlib import Path

from ottla.cli import main as cli
from tests.compat.cli_samples import PATIENCE_S, facts, line_of, ottla, served, spawn


def test_it_says_where_it_is_and_stops_in_good_order(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with served(folder, "-X", "num.partitions=3") as broker:
        assert broker.told["data_dir"] == str(folder)
        assert broker.told["topics"] == 0
        ottla("produce", "orders", "a", "b", "-b", broker.bootstrap)
        code, said = broker.end(signal.SIGTERM)
    assert code == cli.OK
    assert said == "Stopping: SIGTERM received.\nStopped cleanly.\n"

    with served(folder) as again:
        assert (again.told["topics"], again.told["partitions"]) == (1, 3)
        assert again.told["was_clean"] is True
        shown = ottla("consume", "orders", "-b", again.bootstrap)
    assert sorted(shown.stdout.split()) == ["a", "b"]


def test_ctrl_c_is_a_good_way_to_stop(tmp_path: Path) -> None:
    with served(tmp_path) as broker:
        code, said = broker.end(signal.SIGINT)
    assert code == cli.OK
    assert said.endswith("Stopped cleanly.\n")


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    lines = b"".join(b"%d\n" % n for n in range(20_000))
    with served(tmp_path) as broker:
        done = ottla("produce", "orders", "-b", broker.bootstrap, stdin=lines)
        assert done.exit_code == cli.OK
        broker.end(signal.SIGKILL)

    with served(tmp_path) as again:
        assert again.told["was_clean"] is False
        shown = ottla("consume", "orders", "-b", again.bootstrap)
        assert shown.stdout_bytes == lines
        assert ottla("produce", "orders", "more", "-b", again.bootstrap).exit_code == cli.OK
        assert again.end(signal.SIGTERM)[0] == cli.OK


def test_files_of_a_killed_broker_can_be_looked_at(tmp_path: Path) -> None:
    with served(tmp_path) as broker:
        ottla("produce", "orders", "a", "b", "-b", broker.bootstrap)
        while_it_runs = ottla("log", "dump", tmp_path / "orders-0", "--records", "-o", "json")
        broker.end(signal.SIGKILL)
    after = ottla("log", "dump", tmp_path, "--records", "--verify", "-o", "json")
    for shown in (facts(while_it_runs), facts(after)):
        assert [row["value"] for row in shown if "value" in row and "offset" in row] == ["a", "b"]


def test_an_ephemeral_broker_leaves_nothing_behind() -> None:
    with served(None) as broker:
        folder = Path(broker.told["data_dir"])
        assert folder.is_dir()
        assert broker.told["flush"] == "os"
        broker.end(signal.SIGTERM)
    assert not folder.exists()


def test_people_get_a_banner(tmp_path: Path) -> None:
    process = spawn("serve", "--port", 0, "--data-dir", tmp_path)
    banner = [line_of(process) for _ in range(4)]
    process.terminate()
    process.communicate(timeout=PATIENCE_S)
    assert banner[0].startswith("Ottla ")
    assert "127.0.0.1:" in banner[1]
    assert str(tmp_path) in banner[2]
    assert banner[3].startswith("Ready in ")


def test_a_port_that_is_taken_is_a_conflict(tmp_path: Path) -> None:
    with served(tmp_path / "one") as broker:
        port = broker.bootstrap.rpartition(":")[2]
        second = spawn("serve", "--port", port, "--data-dir", tmp_path / "two")
        _, said = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 5
    assert f"another program listens on localhost:{port}" in said
    assert "hint:  --port" in said


def test_a_folder_that_is_taken_is_a_conflict(tmp_path: Path) -> None:
    with served(tmp_path) as broker:
        second = spawn("serve", "--port", 0, "--data-dir", tmp_path)
        _, said = second.communicate(timeout=PATIENCE_S)
        assert f"process {broker.process.pid}" in said
    assert second.returncode == 5


def test_settings_come_from_a_file_and_options_have_the_last_word(tmp_path: Path) -> None:
    path = tmp_path / "ottla.toml"
    path.write_text('num.partitions = 4\nottla.flush = "os"\nnode.id = 7\n', "utf-8")
    with served(tmp_path / "data", "--config", path, "-X", "num.partitions=5") as broker:
        assert (broker.told["node_id"], broker.told["flush"]) == (7, "os")
        created = ottla("topic", "create", "t", "-o", "json", "-b", broker.bootstrap)
    assert facts(created)[0]["partitions"] == 5


def test_a_follower_gets_what_is_written_later_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    with served(tmp_path) as broker:
        early = ottla("produce", "orders", "early", "-b", broker.bootstrap)
        assert early.exit_code == cli.OK, early.stderr
        follower = spawn("consume", "orders", "-F", "--from", "start", "-b", broker.bootstrap)
        assert line_of(follower) == "early\n"
        late = ottla("produce", "orders", "late", "-b", broker.bootstrap)
        assert late.exit_code == cli.OK, late.stderr
        assert line_of(follower) == "late\n"
        follower.send_signal(signal.SIGINT)
        _, said = follower.communicate(timeout=PATIENCE_S)
    assert follower.returncode == cli.INTERRUPTED, said
    assert said.strip() == "error: interrupted"


def test_a_reader_that_has_enough_is_no_failure(tmp_path: Path) -> None:
    lines = b"".join(b"%0100d\n" % n for n in range(20_000))
    with served(tmp_path) as broker:
        ottla("produce", "orders", "-b", broker.bootstrap, stdin=lines)
        with spawn("consume", "orders", "-b", broker.bootstrap) as reader:
            assert line_of(reader).encode() == lines[:101]
            assert reader.stdout is not None
            reader.stdout.close()
            assert reader.stderr is not None
            assert reader.stderr.read() == ""
    assert reader.returncode == cli.OK


def test_a_broker_refuses_to_run_without_its_assertions(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-O", "-m", "ottla", "serve", "--data-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == cli.UNEXPECTED
    assert "does not run with -O" in done.stderr


def test_a_broker_that_dies_under_a_producer_leaves_a_count(tmp_path: Path) -> None:
    with served(tmp_path) as broker:
        ottla("topic", "create", "orders", "-b", broker.bootstrap)
        follower = spawn("consume", "orders", "-F", "-n", 1, "--from", 0, "-b", broker.bootstrap)
        producer = spawn("produce", "orders", "--timeout", 20, "-b", broker.bootstrap)
        assert producer.stdin is not None
        producer.stdin.write("first\n")
        producer.stdin.flush()
        assert follower.communicate(timeout=PATIENCE_S)[0] == "first\n"
        # A broker that answers this has sent its acknowledgment, too.
        assert ottla("topic", "list", "-b", broker.bootstrap).exit_code == cli.OK
        broker.end(signal.SIGKILL)
        _, said = producer.communicate("second\n", timeout=PATIENCE_S)
    assert producer.returncode == 8
    assert "warning: no metadata" in said
    assert "before that, 1 record got written, 1 may be written" in said
