"""The shapes in which the contents of a file come: a table, and what is wrong with it."""

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

Report = Callable[[str], None]
"""Takes in what is wrong with a file, in a sentence."""


class Table(NamedTuple):
    """Rows are made while they are read, so that a large file needs little memory."""

    columns: Sequence[str]
    rows: Iterator[Sequence[object]]


def bytes_fact(data: bytes | None) -> object:
    """Bytes as JSON has them: text, null, or base64 under that name."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
