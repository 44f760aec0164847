"""What a step has done so far, from the reports that Spark makes after each batch.

Rows are counted by observers in the plan (`queries`): Spark itself counts a source twice that is
read twice, as for a dead-letter topic.  Lag is in the offsets of the source: where the batch ended,
and where its partitions end.
"""

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.model import TopicPartition
from ottla.spark.offsets import SourceOffset, is_source_offset
from ottla.values import dataclass

ROWS_OUT: Final = "rows_out"
ROWS_BAD: Final = "rows_bad"
ROWS_IN: Final = "rows_in"
"""The names of the observers; those of sources have the number of the source behind them."""

COUNT: Final = "rows"
RATE_WINDOW_MS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """One batch of one step."""

    batch_id: int
    ended_ms: int
    duration_ms: int
    rows_in: int
    rows_out: int
    rows_bad: int
    lag: int | None
    """Records that are left to read; None if a source did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProgress:
    """A step at one moment."""

    step: str
    batch_id: int | None = None
    rows_in: int = 0
    rows_out: int = 0
    rows_bad: int = 0
    in_per_s: float = 0.0
    out_per_s: float = 0.0
    lag: int | None = None
    batch_ms: int | None = None

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> "StepProgress":
        """Read what `as_json` wrote; what a newer version has beside it is left out."""
        known = {name: told[name] for name in PROGRESS_COLUMNS if name in told}
        return cls(**known)

    def as_json(self) -> dict[str, object]:
        """Column -> value."""
        return {name: getattr(self, name) for name in PROGRESS_COLUMNS}


PROGRESS_COLUMNS: Final = (
    "step",
    "batch_id",
    "rows_in",
    "rows_out",
    "rows_bad",
    "in_per_s",
    "out_per_s",
    "lag",
    "batch_ms",
)


class StepMeter:
    """Adds up the reports of one step; each batch counts once, however often it is told."""

    def __init__(self, step: str) -> None:
        self._step = step
        self._last: BatchReport | None = None
        self._totals = [0, 0, 0]
        self._recent: deque[BatchReport] = deque()

    def note(self, reports: Iterable[BatchReport]) -> list[BatchReport]:
        """Take in reports, of which older ones may be known; return those that are new."""
        fresh = [r for r in reports if self._last is None or r.batch_id > self._last.batch_id]
        for report in fresh:
            self._last = report
            self._totals[0] += report.rows_in
            self._totals[1] += report.rows_out
            self._totals[2] += report.rows_bad
            self._recent.append(report)
        return fresh

    def progress(self, now_ms: int) -> StepProgress:
        """How it stands; rates are over the last ten seconds."""
        while self._recent and self._recent[0].ended_ms < now_ms - RATE_WINDOW_MS:
            self._recent.popleft()
        rows_in, rows_out, rows_bad = self._totals
        seconds = _span_ms(self._recent, now_ms) / 1000
        last = self._last
        return StepProgress(
            step=self._step,
            batch_id=None if last is None else last.batch_id,
            rows_in=rows_in,
            rows_out=rows_out,
            rows_bad=rows_bad,
            in_per_s=round(sum(r.rows_in for r in self._recent) / seconds, 1),
            out_per_s=round(sum(r.rows_out for r in self._recent) / seconds, 1),
            lag=None if last is None else last.lag,
            batch_ms=None if last is None else last.duration_ms,
        )


def report_of(told: Mapping[str, Any], ended_ms: int) -> BatchReport | None:
    """A report of Spark, in our words; None if it tells of no batch, only of waiting.

    `ended_ms` is when we saw it: Spark tells when a batch began, by a clock that may be elsewhere.
    """
    if "addBatch" not in (told.get("durationMs") or {}):
        return None
    observed = told.get("observedMetrics") or {}
    bad = _count(observed.get(ROWS_BAD))
    good = sum(_count(row) for name, row in observed.items() if name.startswith(ROWS_IN))
    return BatchReport(
        batch_id=int(told["batchId"]),
        ended_ms=ended_ms,
        duration_ms=int(told.get("batchDuration") or 0),
        rows_in=good + bad,
        rows_out=_count(observed.get(ROWS_OUT)),
        rows_bad=bad,
        lag=lag_of(told.get("sources") or []),
    )


def lag_of(sources: Sequence[Mapping[str, Any]]) -> int | None:
    """What all sources of a batch had left when it ended; None if none of them is ours."""
    known = [lag for lag in map(_lag_of_source, sources) if lag is not None]
    return sum(known) if known else None


def _lag_of_source(source: Mapping[str, Any]) -> int | None:
    end, latest = _positions(source.get("endOffset")), _positions(source.get("latestOffset"))
    if end is None or latest is None:
        return None
    return sum(max(0, at - end.get(tp, 0)) for tp, at in latest.items())


def _positions(told: object) -> Mapping[TopicPartition, int] | None:
    """Positions in an offset of ours; None for those of other sources, which may be anything."""
    try:
        data = json.loads(told) if isinstance(told, str) else told
        if not isinstance(data, dict) or not is_source_offset(data):
            return None
        return SourceOffset.parse(data).positions
    except ValueError:
        return None  # no JSON, or of a version that says nothing we understand


def _count(row: object) -> int:
    if isinstance(row, Mapping):
        return int(row.get(COUNT) or 0)
    # Spark Connect tells of a row by its values and its schema; ours have one column.
    values = getattr(row, "values", None)
    if isinstance(values, list):
        return int(values[0] or 0)
    return int(getattr(row, COUNT, 0) or 0)


def _span_ms(reports: Sequence[BatchReport], now_ms: int) -> int:
    """How long the reports took: from the begin of the first until now, at least a moment."""
    if not reports:
        return RATE_WINDOW_MS
    first = reports[0]
    return max(1, min(RATE_WINDOW_MS, now_ms - first.ended_ms + max(1, first.duration_ms)))
