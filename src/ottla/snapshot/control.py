"""What is said at the control socket of a running broker: a line to ask, a line of JSON to answer.

    > freeze        make a copy; one connection has one, and it is gone with the connection, or
                    when it was kept for too long, which `release` is told then
    < {"folder": ".frozen", "ends": {"orders-0/00000000000000000000.log": 4711}}
    > release       the copy is not needed any more
    < {"released": true}

Whoever was answered `release` knows that the broker lived all the time, and that the copy was not
touched: only a broker that starts writes into files that it finds.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from ottla.snapshot.archive import SnapshotError

FREEZE: Final = b"freeze\n"
RELEASE: Final = b"release\n"
RELEASED: Final = b'{"released": true}\n'
MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
"""A million partitions have some hundred bytes each."""


def frozen(folder: str, ends: Mapping[str, int]) -> bytes:
    """There is a copy."""
    return _line({"folder": folder, "ends": dict(ends)})


def refused(reason: str) -> bytes:
    """There is none."""
    return _line({"error": reason})


def _line(answer: dict[str, object]) -> bytes:
    return json.dumps(answer).encode() + b"\n"


def read_answer(line: bytes) -> dict[str, Any]:
    """What a broker said.

    Raises:
        SnapshotError: It refused, or hung up.
    """
    if not line.endswith(b"\n"):
        raise SnapshotError("the broker ended meanwhile, or was stopped")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise SnapshotError(f"the broker says: {answer['error']}")
    return answer
