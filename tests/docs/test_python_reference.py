"""The page of public names has all of them, with the signatures that a caller needs."""

import pytest

from tools import python_reference
from tools.api import public_names

PAGE = python_reference.page()


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_is_on_the_page(name: str) -> None:
    own = name.rpartition(".")[2]
    assert any(sign in PAGE for sign in (f"### {own}\n", f"| `{own}(", f"`{own}`")), name


@pytest.mark.parametrize(
    "row",
    [
        # A method; one that a class below has; one that a decorator made; a field with its text.
        "| `flush(timeout: float \\| None=None) -> None` | Wait until everything sent so far",
        "| `stop() -> None` |",
        "| `delete_topic(*names: str, missing_ok: bool=False) -> None` | Delete topics and",
        "| `host: str = '*'` |",
    ],
)
def test_what_can_be_asked_is_told(row: str) -> None:
    assert row in PAGE


def test_what_is_private_is_not_told() -> None:
    assert "| `_" not in PAGE.replace("| `__", "")
