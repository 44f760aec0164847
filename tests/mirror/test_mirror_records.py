"""Records arrive as they were, in the partitions they were in, and once."""

from collections.abc import Callable

import pytest

import ottla
from ottla.errors import ErrorCode
from ottla.testing import Fault, Faults, TestBroker
from tests.mirror.world import (
    Pair,
    contents,
    create,
    is_settled,
    until,
    values,
    write,
    write_committed,
)


@pytest.fixture(params=[True, False], ids=["columns", "records"])
def uses_arrow(request: pytest.FixtureRequest) -> bool:
    """Records are carried in two ways, which do the same."""
    return bool(request.param)


def test_a_record_arrives_as_it_was(pair: Pair, topic: str, uses_arrow: bool) -> None:
    create(pair.source, topic, partitions=3)
    with ottla.Producer(pair.source) as producer:
        producer.send(topic, b"value", key=b"key", partition=2, timestamp=1_600_000_000_001)
        producer.send(topic, None, key=b"tombstone", partition=2, timestamp=3)
        producer.send(topic, b"", key=b"", partition=2, headers=[("a", b""), ("a", None)])
        producer.send(topic, b"no key", partition=0, headers=[("b", b"\x00\xff")])
        producer.send(topic, b"last", partition=2)

    pair.mirror(topic, uses_arrow=uses_arrow)

    copied = contents(pair.target, topic)
    assert copied == contents(pair.source, topic)
    assert copied[2][1][:2] == (b"tombstone", None)
    assert copied[2][2][:3] == (b"", b"", (("a", b""), ("a", None)))


def test_what_was_copied_is_not_copied_again(pair: Pair, topic: str) -> None:
    create(pair.source, topic)
    write(pair.source, topic, [b"1", b"2"])
    assert pair.mirror(topic).copied == 2

    assert pair.mirror(topic).copied == 0
    write(pair.source, topic, [b"3"])
    assert pair.mirror(topic).copied == 1

    assert values(pair.target, topic) == [b"1", b"2", b"3"]


def test_aborted_records_do_not_come_over(pair: Pair, topic: str, uses_arrow: bool) -> None:
    create(pair.source, topic)
    lots = [[b"a1", b"a2"], [b"b1"], [b"c1"], [b"d1"]]
    write_committed(pair.source, topic, *lots, aborted={1, 3})

    progress = pair.mirror(topic, uses_arrow=uses_arrow)

    assert values(pair.target, topic) == [b"a1", b"a2", b"c1"]
    assert [row.lag for row in progress.topics] == [0]


def test_an_open_transaction_is_left_for_the_next_time(pair: Pair, topic: str) -> None:
    create(pair.source, topic)
    with ottla.Producer(
        pair.source, transactional_id=topic, transaction_timeout_ms=600_000
    ) as producer:
        write(pair.source, topic, [b"before"])
        with producer.transaction() as tx:
            tx.send(topic, b"inside", partition=0).result()
            write(pair.source, topic, [b"behind"])
            pair.mirror(topic)
            assert values(pair.target, topic) == [b"before"]
    until(lambda: is_settled(pair.source, topic))

    pair.mirror(topic)

    assert values(pair.target, topic) == [b"before", b"inside", b"behind"]


def test_a_mirror_follows_what_is_written(pair: Pair, topic: str) -> None:
    create(pair.source, topic)
    with pair.following(topic):
        write(pair.source, topic, [b"1"])
        until(lambda: _is_there(pair, topic) and values(pair.target, topic) == [b"1"])
        write(pair.source, topic, [b"2"])
        until(lambda: values(pair.target, topic) == [b"1", b"2"])


def test_more_than_one_transaction_of_records_arrives_in_order(pair: Pair, topic: str) -> None:
    create(pair.source, topic, partitions=2)
    with ottla.Producer(pair.source) as producer:
        for number in range(51_000):
            producer.send(topic, b"%d" % number, partition=number % 2)

    progress = pair.mirror(topic)

    assert progress.copied == 51_000
    assert progress.transaction_count > 1
    assert contents(pair.target, topic) == contents(pair.source, topic)


def test_what_retention_took_is_told_and_the_rest_is_copied(pair: Pair, topic: str) -> None:
    create(pair.source, topic)
    write(pair.source, topic, [b"%d" % number for number in range(10)])
    pair.mirror(topic)
    write(pair.source, topic, [b"%d" % number for number in range(10, 20)])
    with ottla.Admin(pair.source) as admin:
        admin.delete_records({ottla.TopicPartition(topic, 0): 15})

    with pytest.raises(ottla.OttlaError, match=r"offsets 10 to 14 \(5\) were deleted"):
        pair.mirror(topic, fails_on_loss=True)
    said = pair.told(topic)

    assert [line for line in said if "LOST" in line] == [
        f"warning: {topic}-0: offsets 10 to 14 (5) were deleted at the source before they were "
        "copied: LOST"
    ]
    expected = [*range(10), *range(15, 20)]
    assert values(pair.target, topic) == [b"%d" % number for number in expected]
    assert [row.lost for row in pair.mirror(topic).topics] == [5]


def test_a_mirror_goes_on_when_the_target_was_away(pair: Pair, topic: str) -> None:
    create(pair.source, topic)
    write(pair.source, topic, [b"1"])
    with TestBroker() as target:
        away = Pair(pair.source, target.bootstrap_servers)
        with away.following(topic):
            until(lambda: _is_there(away, topic) and values(away.target, topic) == [b"1"])
            target.crash()
            write(pair.source, topic, [b"2"])
            target.restart()
            until(lambda: values(away.target, topic) == [b"1", b"2"])


@pytest.mark.parametrize(
    ("fault", "begins_anew"),
    [
        (lambda faults: faults.fail("Produce", ErrorCode.TRANSACTION_ABORTABLE), True),
        (lambda faults: faults.fail("EndTxn", ErrorCode.TRANSACTION_ABORTABLE), True),
        (lambda faults: faults.drop_reply("Produce"), False),
        (lambda faults: faults.drop_reply("EndTxn"), False),
    ],
)
def test_a_transaction_that_failed_is_copied_again_and_no_other_is(
    pair: Pair, topic: str, fault: Callable[[Faults], Fault], begins_anew: bool
) -> None:
    create(pair.source, topic)
    with TestBroker() as target:
        faulty = Pair(pair.source, target.bootstrap_servers)
        write(pair.source, topic, [b"1"])
        faulty.mirror(topic)
        hit = fault(target.faults)
        with faulty.following(topic) as following:
            write(pair.source, topic, [b"2", b"3"])
            until(lambda: values(faulty.target, topic) == [b"1", b"2", b"3"])
        assert hit.hit_count == 1
        assert any("going on in" in line for line in following.said) == begins_anew
        assert values(faulty.target, topic) == [b"1", b"2", b"3"]


def _is_there(pair: Pair, topic: str) -> bool:
    with ottla.Admin(pair.target) as admin:
        return topic in admin.list_topics()


@pytest.mark.parametrize(
    ("count", "size_bytes", "max_batch_bytes"),
    [(4, 900_000, 1_000_000), (3, 5_000_000, 6_000_000), (1_000, 100, 10_000)],
)
def test_records_are_copied_in_batches_that_the_target_takes(
    pair: Pair, topic: str, uses_arrow: bool, count: int, size_bytes: int, max_batch_bytes: int
) -> None:
    create(pair.source, topic, max_message_bytes=max_batch_bytes)
    options = {"batch_size": max_batch_bytes // 2, "max_request_size": max_batch_bytes}
    with ottla.Producer(pair.source, **options) as producer:  # type: ignore[arg-type]
        for number in range(count):
            producer.send(topic, b"%03d" % number + bytes(size_bytes))

    pair.mirror(topic, uses_arrow=uses_arrow, compression="none")

    assert contents(pair.target, topic) == contents(pair.source, topic)
