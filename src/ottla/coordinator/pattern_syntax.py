"""Regular expressions over names, of topics and of transactions: text to tree.

The syntax is RE2's, which is what Kafka takes, less what makes no difference for whole names:
captures capture nothing, lazy repetitions repeat.  Word boundaries and Unicode classes are refused,
as are back references and look-around, which RE2 does not have either.

A set of characters is a number, and one that has almost all of them is negative.  Bit n stands for
the ASCII character n; those that an expression names beside these get the bits after `OTHERS`,
which stands for all the rest.
"""

from typing import Final, TypeAlias

from ottla.values import dataclass

MAX_REPETITIONS: Final = 1_000
MAX_DEPTH: Final = 50

OTHERS: Final = 128

_ASCII: Final = (1 << 128) - 1


def _span(first: str, last: str) -> int:
    return (1 << ord(last) + 1) - (1 << ord(first))


_DIGITS: Final = _span("0", "9")
_UPPER: Final = _span("A", "Z")
_LOWER: Final = _span("a", "z")
_LETTERS: Final = _UPPER | _LOWER
_WORD: Final = _LETTERS | _DIGITS | 1 << ord("_")
_BLANK: Final = 1 << ord(" ") | 1 << ord("\t")
_SPACE: Final = _BLANK | sum(1 << ord(c) for c in "\n\r\f")
_PUNCTUATION: Final = _span("!", "~") & ~(_LETTERS | _DIGITS)

_CLASSES: Final = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_POSIX: Final = {
    "alnum": _LETTERS | _DIGITS,
    "alpha": _LETTERS,
    "ascii": _ASCII,
    "blank": _BLANK,
    "cntrl": _span("\0", "\x1f") | 1 << 127,
    "digit": _DIGITS,
    "graph": _span("!", "~"),
    "lower": _LOWER,
    "print": _span(" ", "~"),
    "punct": _PUNCTUATION,
    "space": _SPACE | 1 << ord("\v"),
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _DIGITS | _span("A", "F") | _span("a", "f"),
}


class PatternError(ValueError):
    """A text is not an expression that we take; the member is told so with an error code."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    mask: int


@dataclass(frozen=True, slots=True)
class Edge:
    """The beginning of the name, or its end."""

    is_end: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: "tuple[Tree, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    options: "tuple[Tree, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    part: "Tree"
    low: int
    high: int | None


Tree: TypeAlias = Chars | Edge | Sequence | Choice | Repeat


class Parser:
    """Reads one expression, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._folds_case = False
        self.strangers: dict[str, int] = {}
        """Characters outside of ASCII that it names -> their bits."""

    def parse(self) -> Tree:
        """The whole expression; `PatternError` if it is none."""
        tree = self._choice()
        if self._at < len(self._text):
            raise PatternError("unexpected )")
        return tree

    def _choice(self) -> Tree:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise PatternError("nested too deeply")
        folded = self._folds_case
        options = [self._sequence()]
        while self._takes("|"):
            options.append(self._sequence())
        self._folds_case = folded
        self._depth -= 1
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Tree:
        parts: list[Tree] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            if self._takes("\\Q"):
                parts += [self._literal(c) for c in self._quoted()]
                continue
            atom = self._atom()
            if atom is not None:
                parts.append(self._repeated(atom))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _atom(self) -> Tree | None:
        """One thing that can be repeated; None for flags, which are not a thing."""
        char = self._take()
        match char:
            case "(":
                return self._group()
            case "[":
                return Chars(self._folded(self._bracket()))
            case ".":
                return Chars(~(1 << ord("\n")))
            case "^" | "$":
                return Edge(is_end=char == "$")
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise PatternError(f"nothing to repeat before {char}")
            case _:
                return self._literal(char)

    def _repeated(self, atom: Tree) -> Tree:
        bounds = self._bounds()
        if bounds is None:
            return atom
        self._takes("?")  # lazy
        if self._bounds() is not None:
            raise PatternError("a repetition cannot be repeated")
        return Repeat(atom, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._takes(sign):
                return bounds
        end = self._text.find("}", self._at)
        if end == -1 or not self._text.startswith("{", self._at):
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not _is_number(low) or (high and not _is_number(high)):
            return None  # then it is a brace like any other character
        self._at = end + 1
        least = int(low)
        is_open = bool(comma) and not high  # {2,}: as often as it likes
        most = int(high) if high else least
        if not least <= most <= MAX_REPETITIONS:
            raise PatternError(f"bad repetition {{{low}{comma}{high}}}")
        return least, None if is_open else most

    def _group(self) -> Tree | None:
        folded = self._folds_case
        if self._takes("?"):
            if self._takes("P<") or self._takes("<"):
                if not self._take_until(">").isidentifier():
                    raise PatternError("bad name of a group")
            elif not self._takes(":") and not self._flags():
                return None
        tree = self._choice()
        if not self._takes(")"):
            raise PatternError("missing )")
        self._folds_case = folded
        return tree

    def _flags(self) -> bool:
        """Flags for what follows; true if a group with them begins, false if they stand alone."""
        is_on = True
        while True:
            match self._take():
                case "i":
                    self._folds_case = is_on
                case "m" | "s" | "U":
                    pass  # no name has lines, and we capture nothing
                case "-":
                    is_on = False
                case ":":
                    return True
                case ")":
                    return False
                case char:
                    raise PatternError(f"(?{char} is not supported")

    def _escape(self) -> Tree:
        char = self._take()
        if char == "A" or char == "z":
            return Edge(is_end=char == "z")
        return Chars(self._folded(self._escaped(char)))

    def _escaped(self, char: str) -> int:
        """The set that an escape stands for, in brackets or outside."""
        if char in _CLASSES:
            return _CLASSES[char]
        if char.lower() in _CLASSES:
            return ~_CLASSES[char.lower()]
        if char in _CONTROLS:
            return 1 << ord(_CONTROLS[char])
        if char == "x":
            digits = self._take_until("}") if self._takes("{") else self._take() + self._take()
            try:
                return self._mask(chr(int(digits, 16)))
            except (ValueError, OverflowError):
                raise PatternError(f"bad character code \\x{digits}") from None
        if char.isalnum():
            raise PatternError(f"\\{char} is not supported")
        return self._mask(char)

    def _bracket(self) -> int:
        is_negated = self._takes("^")
        mask = 0
        is_first = True
        while is_first or not self._takes("]"):
            is_first = False
            if self._takes("[:"):
                mask |= self._posix()
                continue
            low = self._bracket_item()
            if (
                self._text.startswith("-", self._at)
                and self._text[self._at + 1 : self._at + 2] != "]"
            ):
                self._at += 1
                mask |= _range(low, self._bracket_item())
            else:
                mask |= low
        # Folded before it is negated: not to be "a" is not to be "A" either.
        return ~self._folded(mask) if is_negated else mask

    def _bracket_item(self) -> int:
        char = self._take()
        return self._escaped(self._take()) if char == "\\" else self._mask(char)

    def _posix(self) -> int:
        name = self._take_until(":")
        if name.removeprefix("^") not in _POSIX or not self._takes("]"):
            raise PatternError(f"no such class: [:{name}:]")
        mask = _POSIX[name.removeprefix("^")]
        return ~mask if name.startswith("^") else mask

    def _quoted(self) -> str:
        """Everything up to the end of the quotation is meant literally."""
        end = self._text.find("\\E", self._at)
        quoted = self._text[self._at : end] if end != -1 else self._text[self._at :]
        self._at += len(quoted) + (2 if end != -1 else 0)
        return quoted

    def _literal(self, char: str) -> Chars:
        return Chars(self._folded(self._mask(char)))

    def _mask(self, char: str) -> int:
        if char.isascii():
            return 1 << ord(char)
        # A case of more than one character, as that of "ß", is nobody's other case.
        cases = {char, char.swapcase()} if self._folds_case else {char}
        bits = [
            self.strangers.setdefault(case, OTHERS + 1 + len(self.strangers))
            for case in sorted(cases)
            if len(case) == 1
        ]
        return sum(1 << bit for bit in bits)

    def _folded(self, mask: int) -> int:
        if not self._folds_case:
            return mask
        shift = ord("a") - ord("A")
        return mask | (mask & _UPPER) << shift | (mask & _LOWER) >> shift

    def _take(self) -> str:
        if self._at >= len(self._text):
            raise PatternError("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _takes(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _take_until(self, sign: str) -> str:
        end = self._text.find(sign, self._at)
        if end == -1:
            raise PatternError(f"missing {sign}")
        taken = self._text[self._at : end]
        self._at = end + 1
        return taken


def _range(low: int, high: int) -> int:
    if low.bit_count() != 1 or high.bit_count() != 1 or not 0 < low <= high <= _ASCII:
        raise PatternError("bad range of characters; they are of ASCII")
    return (high << 1) - low


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
