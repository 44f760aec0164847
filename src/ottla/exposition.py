"""Prometheus' text format: families of numbers, as `/metrics` of a broker or console has them.

Whoever measures hands in plain numbers; text is made when somebody asks for it.  A metric is
declared once (`ottla.measures`), and its numbers come with a value for each of its labels.  Those
values may hold anything and are escaped; names are ours, and are not.

A family has a bounded number of numbers.  What is left out is counted, never just missing.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, Literal, NamedTuple

log = logging.getLogger(__name__)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

MAX_SERIES: Final = 10_000
"""So many numbers one family has at the most."""

PIECE: Final = 200
"""So many numbers are turned into text at a time."""

Kind = Literal["counter", "gauge", "histogram"]
Source = Literal["broker", "console"]

Labels = tuple[object, ...]
"""A value for each label, in the order of the declaration."""
Series = Iterable[tuple[Labels, float]]
Buckets = Iterable[tuple[Labels, Sequence[int], float]]
"""Labels, how many fell below each bound and above all, their sum."""

_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Metric(NamedTuple):
    """What a family of numbers is called, and what it says."""

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()
    told_by: tuple[Source, ...] = ("broker",)

    @property
    def sample_names(self) -> tuple[str, ...]:
        """The names that its numbers have; a histogram has three."""
        if self.kind != "histogram":
            return (self.name,)
        return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))


LEFT_OUT: Final = Metric(
    "ottla_metrics_left_out",
    "gauge",
    f"Numbers that are not told, because their family has more than {MAX_SERIES}",
    ("metric",),
    ("broker", "console"),
)


class Exposition:
    """Writes pages, one family after the other, and complains once about each that is cut.

    Text comes in pieces of bounded size, so that a loop has other turns in between.
    """

    def __init__(self, max_series: int = MAX_SERIES) -> None:
        self._max_series = max_series
        self._cut: dict[str, int] = {}
        """How many numbers each family lacks; one that was whole again has 0."""

    def family(self, metric: Metric, series: Series) -> Iterator[str]:
        """One family: what it is, and its numbers."""
        yield _head(metric)
        line = f"{metric.name}{_places_for(metric.labels)} "
        rest = iter(series)
        told_count = 0
        while piece := list(islice(rest, min(PIECE, self._max_series - told_count))):
            told_count += len(piece)
            yield "".join([f"{line % escaped(values)}{number!r}\n" for values, number in piece])
        self._note_cut(metric, sum(1 for _ in rest))

    def histogram(self, metric: Metric, bounds: Sequence[float], series: Buckets) -> Iterator[str]:
        """A family of histograms."""
        name = metric.name
        places, bucket_places = _places_for(metric.labels), _places_for((*metric.labels, "le"))
        yield _head(metric)
        for values, counts, total in series:
            lines, labels, seen = [], escaped(values), 0
            for bound, count in zip((*bounds, "+Inf"), counts, strict=True):
                seen += count
                lines.append(f"{name}_bucket{bucket_places % (*labels, bound)} {seen}\n")
            lines.append(f"{name}_sum{places % labels} {total!r}\n")
            lines.append(f"{name}_count{places % labels} {seen}\n")
            yield "".join(lines)

    def left_out(self) -> Iterator[str]:
        """The family that tells of the others what they lack; write it last."""
        cut = [((name,), count) for name, count in sorted(self._cut.items()) if count]
        return self.family(LEFT_OUT, cut)

    def _note_cut(self, metric: Metric, left_out_count: int) -> None:
        if left_out_count and metric.name not in self._cut:
            log.warning(
                "metrics are cut: metric=%s told=%d left_out=%d",
                metric.name,
                self._max_series,
                left_out_count,
            )
        if left_out_count or metric.name in self._cut:
            self._cut[metric.name] = left_out_count


def escaped(values: Labels) -> tuple[str, ...]:
    """Label values as they stand between quotes."""
    return tuple([_escaped(str(value)) for value in values])


def _escaped(text: str) -> str:
    # Nearly always there is nothing to do, and to look is cheaper than to translate.
    if '"' in text or "\\" in text or "\n" in text:
        return text.translate(_ESCAPES)
    return text


def _places_for(names: Sequence[str]) -> str:
    """`{topic="%s",partition="%s"}`, or nothing."""
    if not names:
        return ""
    return "{" + ",".join(f'{name}="%s"' for name in names) + "}"


def _head(metric: Metric) -> str:
    return f"# HELP {metric.name} {metric.text}\n# TYPE {metric.name} {metric.kind}\n"
