"""What became of every transaction: is anything torn, lost, taken back, or left hanging?

What clients and readers saw is judged as histories of a real broker are.  The two questions that a
history cannot answer are put to the logs when all is quiet: does a transaction still hang, and is
one visible in part.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ottla.testing.history import Operation, check
from tests.txn_model.client import Attempt
from tests.txn_model.coordinator import Coordinator
from tests.txn_model.leader import Leader

TORN = "torn transaction"
HANGING = "hanging transaction"
STUCK = "stuck coordinator"
REFUSED = "refused marker"


class Violation(NamedTuple):
    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


def judge(
    attempts: Iterable[Attempt],
    polls: Iterable[Operation],
    *,
    concerns: Callable[[Attempt], bool] = lambda attempt: True,
) -> list[Violation]:
    """What is wrong with the transactions that `concerns` chooses, after the final polls."""
    attempts = list(attempts)
    left_out = {w.value for attempt in attempts if not concerns(attempt) for w in attempt.writes}
    judged = [attempt for attempt in attempts if concerns(attempt)]
    seen_by = [
        Operation(
            process=operation.process,
            polls=tuple(polled for polled in operation.polls if polled.value not in left_out),
        )
        for operation in polls
    ]
    history = [*(attempt.operation() for attempt in judged), *seen_by]
    seen = {polled.value for operation in seen_by for polled in operation.polls}
    return [
        *_torn(judged, seen),
        *(
            Violation(found.anomaly.value, f"{found.partition}: {found.detail}")
            for found in check(history)
        ),
    ]


def _torn(attempts: Iterable[Attempt], seen: set[object]) -> Iterable[Violation]:
    for attempt in attempts:
        values = [write.value for write in attempt.writes if write.is_acknowledged]
        visible = [value for value in values if value in seen]
        if visible and len(visible) < len(values):
            missing = [value for value in values if value not in seen]
            detail = f"{attempt.number} shows {visible} and not {missing}"
            yield Violation(TORN, detail)


def leftovers(coordinator: Coordinator, leaders: Iterable[Leader]) -> list[Violation]:
    """What is not over although nobody does anything any more."""
    return [
        *(Violation(HANGING, what) for leader in leaders for what in leader.hanging()),
        *(Violation(STUCK, what) for what in coordinator.unsettled()),
        *(Violation(REFUSED, what) for what in coordinator.refused_markers),
    ]
