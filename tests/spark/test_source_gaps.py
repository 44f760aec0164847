"""A range whose last offsets are gone: it ends, but not at the first word of a broker."""

import pytest

from ottla.model import TopicPartition
from ottla.records.builder import build
from ottla.spark.options import SourceOptions
from ottla.spark.source.fetching import RangeFetcher, client_of
from ottla.spark.source.planning import OffsetRange
from ottla.testing import TestBroker
from ottla.wire.messages.fetch import PartitionData

WANTED = OffsetRange(TopicPartition("compacted", 0), 4, 10)


class Scripted(RangeFetcher):
    """Hears answers that were written before; there is nobody to ask."""

    answers: list[PartitionData]

    async def _ask(self) -> PartitionData | None:
        return self.answers.pop(0)


def empty(stable_offset: int) -> PartitionData:
    return PartitionData(
        partition_index=0,
        high_watermark=20,
        last_stable_offset=stable_offset,
        log_start_offset=0,
        aborted_transactions=(),
        records=b"",
    )


def with_record(offset: int) -> PartitionData:
    batch = build([(1, b"k", b"v", ())])
    batch[0:8] = offset.to_bytes(8, "big")
    return PartitionData(
        partition_index=0,
        high_watermark=20,
        last_stable_offset=20,
        log_start_offset=0,
        aborted_transactions=(),
        records=bytes(batch),
    )


def positions(broker: TestBroker, *answers: PartitionData) -> list[int]:
    """Where each chunk begins that comes of these answers, all of which are heard."""
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "compacted"}
    options = SourceOptions.of(given)
    driver = client_of(options)
    fetcher = Scripted(driver.engine, options, WANTED, "")
    fetcher.answers = list(answers)
    driver.run_blocking(fetcher.start())
    found = []
    while (chunk := driver.run_blocking(fetcher.next_chunk())) is not None:
        found.append(chunk.next_offset)
    driver.run_blocking(fetcher.stop())
    assert fetcher.answers == []
    return found


def test_a_range_without_records_ends_when_a_broker_has_said_it_twice(broker: TestBroker) -> None:
    assert positions(broker, empty(20), empty(20)) == []


def test_one_empty_answer_is_not_enough(broker: TestBroker) -> None:
    assert positions(broker, empty(20), with_record(9)) == [10]


def test_an_answer_from_before_the_end_of_the_range_says_nothing(broker: TestBroker) -> None:
    assert positions(broker, empty(7), empty(7), empty(7), with_record(12)) == [13]


@pytest.mark.parametrize("offset", [4, 7])
def test_after_a_record_the_count_begins_again(broker: TestBroker, offset: int) -> None:
    read = positions(broker, empty(20), with_record(offset), empty(20), empty(20))
    assert read == [offset + 1]
