"""Pages as a test reads them: their blocks, and the commands in them with what they print.

A block is told by its first line, as GitHub and the site read it:

```python                 runs in the process of the test
```python title="x.py"    is a file of the reader's folder
```console                lines that begin with `$ ` are commands; what follows is their output
```sh                     is not run: it installs what the tests already have
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """What is between two fences, and on which line it begins."""

    language: str
    title: str | None
    text: str
    line_number: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A command on a page, and the output that is shown below it."""

    command: str
    output: str
    line_number: int

    def is_output(self, actual: str) -> bool:
        """Whether this is what a reader may see; `...` stands for anything, blanks for blanks."""
        if not self.output.strip():
            return True
        words = [re.escape(word) for word in self.output.split()]
        pattern = r"\s+".join(word.replace(r"\.\.\.", ".*") for word in words)
        # What stands for anything may be nothing, with no blanks around it.
        pattern = pattern.replace(r".*\s+", r".*\s*").replace(r"\s+.*", r"\s*.*")
        return re.fullmatch(pattern, actual.strip(), re.DOTALL) is not None


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(found[1], found[2], found[3], text[: found.start(3)].count("\n") + 1)
        for found in _BLOCK.finditer(text)
    ]


def commands(block: Block) -> Iterator[Shown]:
    """The commands of a console block; output before the first command is a mistake."""
    assert block.text.startswith("$ "), block
    number = block.line_number
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield Shown(command, output, number)
        number += part.count("\n")
