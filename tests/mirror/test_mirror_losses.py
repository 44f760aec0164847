"""What the source has lost, or deleted too early, is told, and never copied around in silence."""

from pathlib import Path

import pytest

import ottla
from ottla.broker.embedded import Broker
from ottla.mirror.session import LossError
from ottla.model import TopicPartition
from ottla.snapshot.restoring import restore
from ottla.snapshot.taking import stopped_broker
from ottla.testing import TestBroker
from tests.mirror.world import Pair, create, until, values, write


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def test_what_is_deleted_under_the_eyes_of_a_mirror_is_told_and_the_rest_is_copied(
    pair: Pair, topic: str
) -> None:
    with TestBroker() as source:
        late = Pair(source.bootstrap_servers, pair.target)
        create(late.source, topic)
        write(late.source, topic, numbers(0, 10))
        late.mirror(topic)
        with late.following(topic) as following:
            until(lambda: bool(following.seen))
            with source.faults.stall("Fetch") as stall:
                until(lambda: stall.hit_count > 0)
                write(late.source, topic, numbers(10, 20))
                with ottla.Admin(late.source) as admin:
                    admin.delete_records({TopicPartition(topic, 0): 15})
            until(lambda: len(values(late.target, topic)) == 15)
        assert values(late.target, topic) == [*numbers(0, 10), *numbers(15, 20)]
    assert [line for line in following.said if "LOST" in line] == [
        f"warning: {topic}-0: offsets 10 to 14 (5) were deleted at the source before they were "
        "copied: LOST"
    ]
    assert following.seen[-1].lost_now == 5


def test_a_source_that_went_back_in_time_is_noticed(pair: Pair, topic: str, tmp_path: Path) -> None:
    with Broker(tmp_path / "now") as source:
        create(source.bootstrap_servers, topic)
        write(source.bootstrap_servers, topic, numbers(0, 5))
    with stopped_broker(tmp_path / "now") as stopped:
        stopped.write(tmp_path / "then.snapshot")
    with Broker(tmp_path / "now") as source:
        write(source.bootstrap_servers, topic, numbers(5, 10))
        Pair(source.bootstrap_servers, pair.target).mirror(topic)
    restore(tmp_path / "then.snapshot", tmp_path / "then")

    with Broker(tmp_path / "then") as source:
        back = Pair(source.bootstrap_servers, pair.target)
        with (
            pytest.raises(LossError, match="no record where the copy goes on"),
            back.following(topic) as following,
        ):
            until(lambda: following.is_over)

    assert values(pair.target, topic) == numbers(0, 10)
