"""Prometheus' text format: families of numbers, as `/metrics` of a broker or console has them.

Whoever measures hands in plain numbers; text is made when somebody asks for it.  Label values may
hold anything and are escaped; names are ours, and are not.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, object]
Series = Iterable[tuple[Labels, float]]

_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def family(name: str, text: str, series: Series, *, kind: str = "gauge") -> str:
    """One family: what it is, and its numbers."""
    lines = [_head(name, text, kind)]
    lines += [f"{name}{labels_of(labels)} {value!r}\n" for labels, value in series]
    return "".join(lines)


def histogram(
    name: str,
    text: str,
    bounds: Sequence[float],
    series: Iterable[tuple[Labels, Sequence[int], float]],
) -> str:
    """A family of histograms: labels, how many fell below each bound and above all, their sum."""
    lines = [_head(name, text, "histogram")]
    for labels, counts, total in series:
        seen = 0
        for bound, count in zip((*bounds, "+Inf"), counts, strict=True):
            seen += count
            lines.append(f"{name}_bucket{labels_of({**labels, 'le': bound})} {seen}\n")
        lines.append(f"{name}_sum{labels_of(labels)} {total!r}\n")
        lines.append(f"{name}_count{labels_of(labels)} {seen}\n")
    return "".join(lines)


def labels_of(labels: Labels) -> str:
    """`{topic="orders",partition="0"}`, or nothing."""
    if not labels:
        return ""
    pairs = (f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _head(name: str, text: str, kind: str) -> str:
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
