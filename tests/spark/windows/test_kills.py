"""Drivers and the broker are killed, and two drivers work at once: each record is there once.

The numbers of windows are those of the table in docs/explanation/exactly-once-spark.md.
"""

import pytest

from tests.spark.windows import story
from tests.spark.windows.story import Story


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The whole story; it takes minutes, and the first test waits for it."""
    return story.tell(tmp_path_factory.mktemp("story"))


def assert_exact(told: Story, name: str) -> None:
    outcome = told.outcomes[name]
    assert told.ended["successor"][name] == ""
    assert outcome.output == outcome.wanted
    assert outcome.batch_ids == sorted(set(outcome.batch_ids))
    partitions = 1 if "one-phase" in name else 3
    assert outcome.group_offsets == [story.ROW_COUNT] * partitions


pytestmark = pytest.mark.timeout(1800)


def test_w1_killed_before_a_batch_is_planned(told: Story) -> None:
    assert told.paused_at["w1-idle"] == {"offsets/0", "commits/0"}
    assert_exact(told, "w1-idle")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("w2-task", id="w2-while-a-task-writes"),
        pytest.param("w3-undecided", id="w3-when-all-tasks-have-written"),
        pytest.param("w4-open-decision", id="w4-with-an-open-decision"),
        pytest.param("w4-one-phase", id="w4-with-an-open-decision-of-one-phase"),
        pytest.param("w5-decided", id="w5-right-after-the-decision"),
        pytest.param("w6-ended", id="w6-when-all-is-committed-and-spark-knows-nothing-of-it"),
        pytest.param("w6-one-phase", id="w6-when-all-is-committed-in-one-phase"),
    ],
)
def test_a_driver_is_killed_in_the_middle_of_its_second_batch(told: Story, name: str) -> None:
    assert told.paused_at[name] == {"offsets/0", "commits/0", "offsets/1"}
    assert_exact(told, name)


def test_w5_killed_when_some_transactions_of_a_batch_are_committed(told: Story) -> None:
    assert told.paused_at["w5-half-ended"] == {"offsets/0"}
    assert_exact(told, "w5-half-ended")


@pytest.mark.parametrize("name", story.STALE)
def test_a_driver_that_another_has_replaced_writes_nothing_more(told: Story, name: str) -> None:
    assert told.paused_at[name] == {"offsets/0", "commits/0", "offsets/1"}
    assert_exact(told, name)
    assert told.ended["stale"][name] != ""


def test_the_broker_is_killed_while_a_decision_is_written(told: Story) -> None:
    assert_exact(told, story.BROKER_KILLED)


def test_no_transaction_is_left_open(told: Story) -> None:
    assert told.open_ids == []
