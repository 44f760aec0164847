"""Draws state machines as pictures for the docs, from the tables that the machines obey.

What may follow what is read from the machines' own `MOVES`.  Only what a table cannot know is said
here: where a state is placed, and in a few words when a move is made.  A state without a place, a
move without words, or words for a move that is not legal is an error, so that a change of a table
asks for a change of its picture.  States with the same ways out may share a frame and its arrows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from html import escape
from typing import Final, NamedTuple, TypeVar

from ottla.coordinator.group.classic import MOVES as GROUP_MOVES
from ottla.coordinator.txn.transaction import MOVES as TXN_MOVES

Move = tuple[str, str]
_State = TypeVar("_State", bound=Enum)

BOX_WIDTH: Final = 170
BOX_HEIGHT: Final = 44
COLUMN: Final = 345
ROW: Final = 130
MARGIN: Final = 56
FRAME: Final = 24

STYLE: Final = """\
text { font: 14px system-ui, sans-serif; fill: #1f2328; text-anchor: middle }
.why { font-size: 12px; fill: #59636e; paint-order: stroke; stroke: #fff; stroke-width: 5px }
.box { fill: #eef2f7; stroke: #57606a }
.frame { fill: none; stroke: #8c959f; stroke-dasharray: 5 4 }
.move { fill: none; stroke: #57606a; stroke-width: 1.4 }
.head { fill: #57606a }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .why { fill: #a5b0bc; stroke: #0d1117 }
  .box { fill: #22272e; stroke: #8b949e } .move { stroke: #8b949e } .head { fill: #8b949e }
  .paper { fill: #0d1117 }
}
.paper { fill: #fff }"""


class Point(NamedTuple):
    x: float
    y: float


class Box(NamedTuple):
    """A rectangle around a middle."""

    middle: Point
    width: float
    height: float

    def edge_towards(self, other: Point) -> Point:
        """Where a line from the middle to `other` leaves the box."""
        dx, dy = other.x - self.middle.x, other.y - self.middle.y
        reach = max(abs(dx) / (self.width / 2), abs(dy) / (self.height / 2))
        return Point(self.middle.x + dx / reach, self.middle.y + dy / reach)


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A table of moves, and what it takes to draw it."""

    title: str
    moves: Mapping[str, frozenset[str]]
    places: Mapping[str, tuple[float, float]]
    """State -> column and row."""
    words: Mapping[Move, str]
    """Move -> when it is made; for states in the frame, it is said of the first."""
    frame: tuple[str, ...] = ()
    """States with the same ways out, which are drawn once for all of them."""

    def check(self) -> None:
        """Refuse to draw something other than the table."""
        assert set(self.places) == set(self.moves), set(self.places) ^ set(self.moves)
        assert len({self.moves[state] for state in self.frame}) <= 1, self.frame
        drawn = {(before, after) for before in self.arrows() for after in self.moves[before]}
        assert drawn == set(self.words), drawn ^ set(self.words)

    def arrows(self) -> dict[str, tuple[str, ...]]:
        """Each state that speaks for itself, or for the frame -> whom it speaks for."""
        alone = {state: (state,) for state in self.moves if state not in self.frame}
        return alone | ({self.frame[0]: self.frame} if self.frame else {})


def svg(drawing: Drawing) -> str:
    """The picture, for light and dark readers."""
    drawing.check()
    boxes = {state: _box(place) for state, place in drawing.places.items()}
    width = max(box.middle.x for box in boxes.values()) + BOX_WIDTH / 2 + MARGIN
    height = max(box.middle.y for box in boxes.values()) + BOX_HEIGHT / 2 + MARGIN
    parts = [_frame(_around([boxes[state] for state in drawing.frame]))] if drawing.frame else []
    for state, spoken_for in drawing.arrows().items():
        start = boxes[state] if len(spoken_for) == 1 else _around([boxes[s] for s in spoken_for])
        for to in sorted(drawing.moves[state]):
            why, goal = drawing.words[state, to], boxes[to]
            outwards = 1 if goal.middle.y > height / 2 else -1
            parts.append(
                _loop(goal, why, outwards) if to in spoken_for else _arrow(start, goal, why)
            )
    parts += [_state(name, box) for name, box in boxes.items()]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" role="img" aria-label="{escape(drawing.title)}">\n'
        f"<title>{escape(drawing.title)}</title>\n<style>\n{STYLE}\n</style>\n"
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>\n'
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _box(place: tuple[float, float]) -> Box:
    column, row = place
    middle = Point(MARGIN + BOX_WIDTH / 2 + column * COLUMN, MARGIN + BOX_HEIGHT / 2 + row * ROW)
    return Box(middle, BOX_WIDTH, BOX_HEIGHT)


def _around(boxes: list[Box]) -> Box:
    left = min(box.middle.x - box.width / 2 for box in boxes) - FRAME
    right = max(box.middle.x + box.width / 2 for box in boxes) + FRAME
    top = min(box.middle.y - box.height / 2 for box in boxes) - FRAME * 1.6
    bottom = max(box.middle.y + box.height / 2 for box in boxes) + FRAME
    return Box(Point((left + right) / 2, (top + bottom) / 2), right - left, bottom - top)


def _state(name: str, box: Box) -> str:
    (x, y), width, height = box
    return (
        f'<rect class="box" x="{x - width / 2:.0f}" y="{y - height / 2:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" rx="9"/>'
        f'<text x="{x:.0f}" y="{y + 5:.0f}">{escape(name)}</text>'
    )


def _frame(box: Box) -> str:
    (x, y), width, height = box
    return (
        f'<rect class="frame" x="{x - width / 2:.0f}" y="{y - height / 2:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" rx="14"/>'
    )


def _arrow(start: Box, end: Box, why: str) -> str:
    """A slightly bent line, so that the way back is another line; its words at the middle."""
    # A tall frame lets its arrows leave at the height of their goal.
    low, high = (
        start.middle.y - (start.height - BOX_HEIGHT) / 2,
        start.middle.y + (start.height - BOX_HEIGHT) / 2,
    )
    origin = Point(start.middle.x, min(max(end.middle.y, low), high))
    leaving = Box(origin, start.width, BOX_HEIGHT if start.height > BOX_HEIGHT else start.height)
    a, b = leaving.edge_towards(end.middle), end.edge_towards(origin)
    if leaving.height != start.height and abs(b.x - a.x) < 1:
        a = start.edge_towards(end.middle)
    length = math.hypot(b.x - a.x, b.y - a.y)
    bend = min(26.0, length / 5)
    middle = Point((a.x + b.x) / 2, (a.y + b.y) / 2)
    bent = Point(middle.x + (b.y - a.y) / length * bend, middle.y - (b.x - a.x) / length * bend)
    label = Point((middle.x + bent.x) / 2, (middle.y + bent.y) / 2)
    path = f"M{a.x:.0f} {a.y:.0f} Q{bent.x:.0f} {bent.y:.0f} {b.x:.0f} {b.y:.0f}"
    return _line(path) + _words(why, label)


def _loop(box: Box, why: str, towards: int) -> str:
    """A move from a state to itself: over the box (`towards` = -1), or under it (1)."""
    x, y = box.middle.x, box.middle.y + towards * box.height / 2
    out = y + towards * 32
    curve = f"C{x - 34:.0f} {out:.0f} {x + 34:.0f} {out:.0f} {x + 26:.0f} {y:.0f}"
    path = f"M{x - 26:.0f} {y:.0f} {curve}"
    return _line(path) + _words(why, Point(x, y + towards * 30))


def _line(path: str) -> str:
    return f'<path class="move" d="{path}" marker-end="url(#head)"/>'


def _words(text: str, at: Point) -> str:
    return f'<text class="why" x="{at.x:.0f}" y="{at.y + 4:.0f}">{escape(text)}</text>'


def _named(moves: Mapping[_State, frozenset[_State]]) -> dict[str, frozenset[str]]:
    return {state.value: frozenset(to.value for to in after) for state, after in moves.items()}


def group_states() -> str:
    """docs/pictures/group-states.svg."""
    return svg(
        Drawing(
            title="The states of a classic group",
            moves=_named(GROUP_MOVES),
            places={
                "Empty": (0, 0),
                "PreparingRebalance": (1, 0),
                "CompletingRebalance": (2, 0),
                "Stable": (2, 1),
                "Dead": (0, 1),
            },
            words={
                ("Empty", "PreparingRebalance"): "a member joins",
                ("Empty", "Dead"): "deleted, or expired",
                ("PreparingRebalance", "CompletingRebalance"): "all have joined",
                ("PreparingRebalance", "Empty"): "all have left",
                ("CompletingRebalance", "Stable"): "the leader's assignment",
                ("CompletingRebalance", "PreparingRebalance"): "a member comes or goes",
                ("Stable", "PreparingRebalance"): "a member comes or goes",
                ("Stable", "Stable"): "a static member is back",
            },
        )
    )


def transaction_states() -> str:
    """docs/pictures/transaction-states.svg."""
    return svg(
        Drawing(
            title="The states of a transactional id",
            moves=_named(TXN_MOVES),
            frame=("Empty", "CompleteCommit", "CompleteAbort"),
            places={
                "Empty": (0, 0.2),
                "CompleteCommit": (0, 1.2),
                "CompleteAbort": (0, 2.2),
                "Ongoing": (2, 0.2),
                "PrepareCommit": (1, 1.2),
                "PrepareEpochFence": (2, 1.2),
                "PrepareAbort": (1, 2.2),
                "Dead": (0, 3.3),
            },
            words={
                ("Empty", "Empty"): "a producer begins anew",
                ("Empty", "Ongoing"): "the first partition",
                ("Empty", "PrepareAbort"): "an abort of nothing",
                ("Empty", "Dead"): "not used for long",
                ("Ongoing", "Ongoing"): "more partitions",
                ("Ongoing", "PrepareCommit"): "commit",
                ("Ongoing", "PrepareAbort"): "abort",
                ("Ongoing", "PrepareEpochFence"): "timeout, or a successor",
                ("PrepareEpochFence", "PrepareAbort"): "fenced",
                ("PrepareCommit", "CompleteCommit"): "all markers written",
                ("PrepareAbort", "CompleteAbort"): "all markers written",
            },
        )
    )
