"""How pages are read by tests: what counts as the output that a page shows."""

import pytest

from tests.docs.pages import Block, Shown, commands


@pytest.mark.parametrize(
    ("shown", "actual", "is_it"),
    [
        ("produced 2 records ...", "produced 2 records (3 B) in 1 s\n", True),
        ("produced 2 records ...", "produced 3 records (3 B) in 1 s\n", False),
        ("...", "anything\nat all", True),
        ("...", "", True),
        ("espresso\nlungo", "espresso\nlungo\n", True),
        ("espresso\nlungo", "lungo\nespresso\n", False),
        ("100", "  100\n", True),
        ("100", "1000\n", False),
    ],
)
def test_output_is_compared(shown: str, actual: str, is_it: bool) -> None:
    assert Shown("x", shown, 1).is_output(actual) is is_it


def test_a_block_is_taken_apart_into_commands_and_their_output() -> None:
    block = Block("console", None, "$ one\n1\n$ two | three\n2\n3\n", 10)
    assert list(commands(block)) == [Shown("one", "1\n", 10), Shown("two | three", "2\n3\n", 12)]
