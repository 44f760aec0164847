"""The parts of the benchmarks that need no peer, at the smallest size: they work and they check."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import clients, rest, scale_clients, scale_log, scale_requests
from bench.blast import WrongAnswerError
from bench.confined import confined
from bench.contest import Taken, why_missing
from bench.load_clients import LOAD_WRITERS, events
from bench.markdown import number, tables_of
from bench.processes import cached_bytes, tree_cpu_s
from bench.rivals import Figures, single, whole
from bench.rivals import row as compared
from bench.scale_requests import check_no_error
from bench.writers import OttlaSend
from ottla.wire.messages import produce
from tools.maven import UnavailableError


def figures_of(lines: list[str]) -> dict[str, float | None]:
    """The first row of the only table, by column."""
    (table,) = tables_of(lines)
    return {name: table.numbers(name)[0] for name in table.heading}


def test_every_request_of_the_cost_model_is_answered_without_an_error() -> None:
    (table,) = tables_of(scale_requests.requests(count=64, lone_count=8))
    assert len(table.rows) == 11
    for name in table.heading[1:]:
        assert None not in table.numbers(name)


def test_a_crowd_joins_one_group_of_either_kind() -> None:
    classic = figures_of(scale_clients.members([3]))
    new = figures_of(scale_clients.new_members([3]))
    assert classic["members of one group"] == new["members of one new group"] == 3
    assert None not in [*classic.values(), *new.values()]


def test_transactions_stay_open_beside_others() -> None:
    found = figures_of(scale_clients.transactions([2]))
    assert found["open transactions"] == 2
    assert None not in found.values()


def test_a_log_has_as_many_segments_as_it_is_measured_for() -> None:
    assert figures_of(scale_log.segments([3]))["segments"] == 3


def test_a_log_is_read_from_memory_and_from_the_disk() -> None:
    (table,) = tables_of(scale_log.cold_reads(64))
    assert table.column("MB/s")[0] == ""  # nobody reads
    for title, rate, cpu_s, *_ in table.rows[1:]:
        assert "not run: " in rate or (number(rate) and number(cpu_s)), title


def test_connections_are_counted_by_what_they_write() -> None:
    assert figures_of(scale_clients.connections([2]))["connections"] == 2


def test_an_answer_with_an_error_is_no_figure() -> None:
    part = produce.PartitionProduceResponse(index=0, error_code=3, base_offset=-1)
    topic = produce.TopicProduceResponse(name="orders", partition_responses=(part,))
    with pytest.raises(WrongAnswerError, match="error code 3"):
        check_no_error(produce.ProduceResponse(responses=(topic,)))


@pytest.mark.parametrize("record_bytes", [100, 1_000, 100_000])
def test_events_are_always_the_same_and_as_long_as_they_have_to_be(record_bytes: int) -> None:
    values = events(record_bytes)
    assert {len(value) for value in values} == {record_bytes}
    assert len(set(values)) == len(values)
    assert values == events(record_bytes)


def test_there_is_a_producer_for_each_compression_and_each_acks() -> None:
    assert [kind.__name__ for kind in LOAD_WRITERS] == [
        "Load-none-all",
        "Load-none-1",
        "Load-lz4-all",
        "Load-lz4-1",
        "Load-zstd-all",
        "Load-zstd-1",
    ]


# Ratios


def figures(*walls_s: float) -> Figures:
    taken = [Taken(wall_s=wall_s, cpu_s=1.0, count=1_000) for wall_s in walls_s]
    return Figures(record_bytes=1_000, taken=taken, cpu_s=[0.001] * len(walls_s))


def test_the_ratio_is_the_median_of_those_of_the_rounds() -> None:
    rounds = figures(1.0, 1.0, 10.0), figures(2.0, 3.0, 10.0)
    found = compared("produce, MB/s", rounds, Figures.megabytes_a_second, at_least=1.2)
    assert found == ("produce, MB/s", "1.00", "0.33", "**2.00** (1.50 to 2.50)", "≥ 1.2", "met")


def test_what_shall_be_less_is_missed_when_it_is_more() -> None:
    assert single("idle memory, MB", [40.0], [200.0], 1 / 8)[-2:] == ("≤ 0.125", "missed")
    assert single("idle memory, MB", [20.0], [200.0], 1 / 8)[-1] == "met"


def test_figures_of_several_trials_have_quartiles_of_their_pairs() -> None:
    *_, ratio, bar, word = single("start, s", [1.0, 2.0, 3.0], [10.0, 10.0, 10.0], 0.25)
    assert (ratio, bar, word) == ("**0.200** (0.150 to 0.250)", "≤ 0.25", "met")


def test_partitions_that_are_asked_lie_in_all_topics() -> None:
    asked = list(rest.asked())
    assert len(set(asked)) == len(asked) == rest.ASKED_COUNT
    assert len({topic for topic, _ in asked}) == rest.PARTITION_COUNT // rest.EACH_COUNT


def test_a_client_that_is_not_installed_is_missing_with_a_reason() -> None:
    class Unheard(OttlaSend):
        needs = "no_such_client"

    assert why_missing(Unheard) == "there is no module no_such_client here"
    assert why_missing(OttlaSend) == ""


def test_what_a_client_costs_is_seen_on_both_sides() -> None:
    (rounds,) = clients.writing({OttlaSend: 10_000}, 100).values()
    assert len(rounds) == clients.ROUND_COUNT
    for taken in rounds:
        assert taken.cpu_s > 0
        assert taken.broker_cpu_s > 0
        assert taken.peak_bytes > 1_000_000


def test_what_ended_processes_have_spent_is_their_parents() -> None:
    before_s = tree_cpu_s(os.getpid())
    program = "import time\nwhile time.process_time() < 0.2: pass"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert tree_cpu_s(os.getpid()) - before_s >= 0.15


def test_what_was_just_written_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"v" * 1_000_000)
    with path.open("rb") as file:
        assert cached_bytes(file.fileno()) > 0


def test_a_process_can_be_confined_and_is_free_afterwards() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        groups = Path(f"/proc/{process.pid}/cgroup")
        try:
            with confined(process.pid, 50_000_000):
                assert "ottla-bench-" in groups.read_text()
            assert "ottla-bench-" not in groups.read_text()
        except UnavailableError as error:
            pytest.skip(str(error))
        finally:
            process.communicate(timeout=60)


def test_rows_before_a_failure_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    def part() -> "list[tuple[str, ...]]":
        raise TimeoutError("Kafka did\nnot start")

    (found,) = whole("10,000 partitions", part)
    assert found[0] == "10,000 partitions"
    assert found[-1] == "not finished: TimeoutError: Kafka did not start"
    assert "Kafka did" in capsys.readouterr().err


def test_a_peer_that_cannot_be_had_ends_the_table() -> None:
    def part() -> "list[tuple[str, ...]]":
        raise UnavailableError("there is no java on this machine")

    with pytest.raises(UnavailableError):
        list(whole("starts", part))
