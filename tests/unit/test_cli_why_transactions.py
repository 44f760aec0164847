"""What `ottla why` makes of transactions and pipelines, where a broker cannot be brought to it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from ottla.client.admin.lag import GroupLag, PartitionLag
from ottla.client.admin.transactions import ProducerInfo, TransactionInfo
from ottla.model import TopicPartition
from ottla.pipeline.progress import StepProgress
from ottla.pipeline.state import State
from ottla.spark.sink.decisions import Names
from ottla.why.findings import Finding
from ottla.why.pipeline_waits import SILENT_MS, PipelineSight, StepSight, findings, title
from ottla.why.transaction_waits import TransactionSight, WrittenPartition, waits

NOW_MS = 1_700_000_000_000
ORDERS = TopicPartition("orders", 0)


def moment(ago_s: float) -> datetime:
    return datetime.fromtimestamp(NOW_MS / 1000 - ago_s, UTC)


def transaction(**changes: Any) -> TransactionInfo:
    facts: dict[str, Any] = {
        "transactional_id": "cook",
        "state": "Ongoing",
        "producer_id": 1017,
        "producer_epoch": 3,
        "timeout": timedelta(seconds=60),
        "started": moment(20),
        "coordinator": 1,
        "partitions": (ORDERS,),
    }
    return TransactionInfo(**facts | changes)


def found(info: TransactionInfo, *partitions: WrittenPartition) -> list[Finding]:
    return list(waits(TransactionSight(info=info, partitions=partitions, sink=None, now_ms=NOW_MS)))


def test_a_transaction_that_was_decided_waits_for_its_markers() -> None:
    (finding,) = found(
        transaction(state="PrepareAbort"),
        WrittenPartition(key=ORDERS, stable_offset=5, end_offset=5, writer=None),
    )

    assert finding.code == "waits_for_markers"
    assert "to abort it" in finding.text
    assert "orders-0" in finding.text
    assert finding.since_ms == NOW_MS - 20_000


def test_a_partition_without_a_leader_holds_up_the_end() -> None:
    partition = WrittenPartition(key=ORDERS, stable_offset=None, end_offset=None, writer=None)

    assert [f.code for f in found(transaction(state="PrepareCommit"), partition)] == [
        "waits_for_markers",
        "no_leader",
    ]


def test_the_last_write_is_told_where_a_partition_remembers_it() -> None:
    writer = ProducerInfo(
        producer_id=1017,
        producer_epoch=3,
        last_sequence=7,
        last_write=moment(15),
        coordinator_epoch=0,
        transaction_start_offset=2,
    )
    partition = WrittenPartition(key=ORDERS, stable_offset=2, end_offset=9, writer=writer)

    opening, holding = found(transaction(), partition)

    assert "Its last write was to orders-0, 15 s ago." in opening.text
    assert "aborted in 40 s" in opening.text
    assert "stop at offset 2, 7 offsets before the end" in holding.text


def test_a_transaction_whose_time_is_over_is_about_to_be_aborted() -> None:
    (finding,) = found(transaction(started=moment(61)))

    assert "Its time is over" in finding.text


def behind(count: int, late_s: float) -> StepSight:
    part = PartitionLag(
        tp=ORDERS,
        committed=0,
        end_offset=count,
        lag=count,
        time_lag=timedelta(seconds=late_s),
        member_id=None,
    )
    lag = GroupLag(group_id="shop.revenue", state="Empty", total=count, partitions=(part,))
    return StepSight(step="revenue", lag=lag, sink=None, open=())


def pipeline(
    *steps: StepSight, now: str = "running", arriving: float | None = None, **changes: Any
) -> PipelineSight:
    facts: dict[str, Any] = {
        "name": "shop",
        "pid": 4711,
        "file": "shop.py",
        "bootstrap": "localhost:9092",
        "master": "local",
        "checkpoint": "/checkpoints",
        "is_once": False,
        "started_ms": NOW_MS - 3_600_000,
        "updated_ms": NOW_MS,
    }
    return PipelineSight(
        name="shop",
        state=State(**facts | changes),
        now=now,
        steps=steps,
        arriving_per_s={} if arriving is None else {"revenue": arriving},
        log_file="/spark.log",
        now_ms=NOW_MS,
    )


def test_a_pipeline_that_reads_less_than_comes_falls_behind() -> None:
    slow = StepProgress(step="revenue", in_per_s=800.0, batch_ms=1000)

    (finding,) = findings(pipeline(behind(5000, 12), arriving=1200.0, steps=(slow,)))

    assert finding.code == "falls_behind"
    assert "5,000 records behind, 12 s late" in finding.text
    assert "1,200 records a second come, 800 are read" in finding.text


def test_a_pipeline_that_ends_no_batch_although_records_wait_is_told() -> None:
    stuck = StepProgress(step="revenue", in_per_s=0.0, batch_ms=20_000)

    (late,) = findings(pipeline(behind(5000, 101), arriving=0.0, steps=(stuck,)))
    (patient,) = findings(pipeline(behind(5000, 99), arriving=0.0, steps=(stuck,)))

    assert late.code == "no_batch"
    assert "the last one took 20 s" in late.text
    assert patient.code == "catches_up"


def test_a_pipeline_that_lives_and_says_nothing_is_told() -> None:
    (finding,) = findings(pipeline(updated_ms=NOW_MS - SILENT_MS - 1))

    assert finding.code == "silent"
    assert "/spark.log" in finding.advice


def test_a_command_in_advice_can_be_copied_to_a_shell() -> None:
    (finding,) = findings(pipeline(now="killed", file="/my jobs/shop.py"))

    assert "`ottla pipeline run '/my jobs/shop.py'`" in finding.advice


def test_a_batch_under_way_is_no_news_while_the_pipeline_runs() -> None:
    name = Names("shop.revenue").participant("worker", 0)
    step = StepSight(
        step="revenue", lag=None, sink=None, open=(transaction(transactional_id=name),)
    )

    (at_work,) = findings(pipeline(step))
    (_, left) = findings(pipeline(step, now="killed"))

    assert at_work.code == "nothing"
    assert left.code == "batch_left"
    assert f"`ottla txn abort {name}`" in left.advice
    assert title(pipeline(step, now="killed")) == "Pipeline shop is killed."


def test_a_sink_is_known_by_the_names_of_its_transactions() -> None:
    names = Names("shop.revenue")

    assert Names.of_transaction(names.coordinator) == names
    assert Names.of_transaction(names.participant("worker", 3)) == names
    assert Names.of_transaction("cook") is None
    assert Names.of_transaction("ottla-eos./worker.1") is None
    assert Names.of_transaction("ottla-eos." + "x" * 250) is None
