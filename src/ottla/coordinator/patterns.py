"""Regular expressions that take no longer than the name is long, whoever wrote them.

Python's own `re` tries one way after the other, and some expressions have more ways than there is
time: one client could stop the broker with them.  Here all ways are followed at once, as RE2 does,
so that a name costs at most its length times the size of the expression, which is limited.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, assert_never

from ottla.coordinator.pattern_syntax import (
    OTHERS,
    Chars,
    Choice,
    Edge,
    Parser,
    PatternError,
    Repeat,
    Sequence,
    Tree,
)

MAX_STEPS: Final = 500
"""So large may an expression be, with its repetitions written out."""

_PATTERNS_KEPT: Final = 64
_TRANSITIONS_KEPT: Final = 1_000
_MATCH: Final = 0


class Pattern:
    """One expression.  A step reads a character of a set, or forks, or looks for an edge.

    A set of steps is a number: bit n stands for step n.
    """

    def __init__(self, tree: Tree, strangers: Mapping[str, int]) -> None:
        """`strangers` are the characters outside of ASCII that have bits of their own."""
        self._strangers = strangers
        self._masks: dict[int, int] = {}  # step -> the set that it reads
        self._after: dict[int, int] = {}  # step that reads -> step after it
        self._forks: dict[int, tuple[int, ...]] = {}  # step -> steps that need no character
        self._edges: dict[int, tuple[bool, int]] = {}  # step -> is it the end, and what follows
        self._count = 0
        first = self._build(tree, _MATCH)
        self._first = self._reached([first], at_start=True)
        self._reaches: dict[int, int] = {}  # step that reads -> steps that come next
        self._readers: dict[int, int] = {}  # bit of a character -> the steps that read it
        self._known: dict[tuple[int, int], int] = {}

    def matches(self, name: str) -> bool:
        """Whether it matches the whole name."""
        steps = self._first
        for char in name:
            if not steps:
                return False
            bit = ord(char) if char < "\x80" else self._strangers.get(char, OTHERS)
            found = self._known.get((steps, bit))
            steps = self._advance(steps, bit) if found is None else found
        return bool(self._reached(_bits(steps), at_end=True) & 1 << _MATCH)

    def _advance(self, steps: int, bit: int) -> int:
        if bit not in self._readers:
            self._readers[bit] = sum(1 << s for s, mask in self._masks.items() if mask >> bit & 1)
        reached = 0
        for step in _bits(steps & self._readers[bit]):
            reached |= self._beyond(step)
        if len(self._known) >= _TRANSITIONS_KEPT:
            self._known.clear()
        self._known[steps, bit] = reached
        return reached

    def _beyond(self, step: int) -> int:
        """Where one can be after a step that reads."""
        if step not in self._reaches:
            self._reaches[step] = self._reached([self._after[step]])
        return self._reaches[step]

    def _reached(self, steps: list[int], *, at_start: bool = False, at_end: bool = False) -> int:
        """All steps that can be come to without reading a character."""
        found = 0
        while steps:
            step = steps.pop()
            if found >> step & 1:
                continue
            found |= 1 << step
            steps += self._forks.get(step, ())
            if step in self._edges:
                is_end, after = self._edges[step]
                if at_end if is_end else at_start:
                    steps.append(after)
        return found

    def _new_step(self) -> int:
        self._count += 1
        if self._count > MAX_STEPS:
            raise PatternError("too large, with its repetitions written out")
        return self._count

    def _build(self, tree: Tree, after: int) -> int:
        """Make the steps of a tree; returns the first of them."""
        match tree:
            case Chars(mask):
                step = self._new_step()
                self._masks[step], self._after[step] = mask, after
                return step
            case Edge(is_end):
                step = self._new_step()
                self._edges[step] = (is_end, after)
                return step
            case Sequence(parts):
                for part in reversed(parts):
                    after = self._build(part, after)
                return after
            case Choice(options):
                return self._fork(*(self._build(option, after) for option in options))
            case Repeat(part, low, high):
                after = self._build_optional(part, None if high is None else high - low, after)
                for _ in range(low):
                    after = self._build(part, after)
                return after
            case _:
                assert_never(tree)

    def _build_optional(self, part: Tree, most: int | None, after: int) -> int:
        """So many times at most, or as often as it likes."""
        if most is None:
            fork = self._new_step()
            self._forks[fork] = (self._build(part, fork), after)
            return fork
        end = after
        for _ in range(most):
            after = self._fork(self._build(part, after), end)
        return after

    def _fork(self, *steps: int) -> int:
        fork = self._new_step()
        self._forks[fork] = steps
        return fork


def _bits(steps: int) -> list[int]:
    found = []
    while steps:
        low = steps & -steps
        found.append(low.bit_length() - 1)
        steps ^= low
    return found


@lru_cache(maxsize=_PATTERNS_KEPT)
def compiled(text: str) -> Pattern:
    """The expression of that text; `PatternError` says why it is none."""
    parser = Parser(text)
    tree = parser.parse()
    return Pattern(tree, parser.strangers)
