"""What a simulated disk is made of: files that remember what was synced, and folders.

A file keeps two contents: what a reader sees, and what is durable.  In between stands the list of
changes that were made since the last sync, because power loss may keep any of them, or a part.  And
it knows which of its pages are not in memory: a read of these waits for the device.
"""

import enum
import random
from collections.abc import Iterable
from typing import Final

from ottla.values import dataclass

SECTOR_BYTES: Final = 512
"""What a disk writes atomically: a torn write is torn between sectors, or at a file's end."""

PAGE_BYTES: Final = 4096
"""What is in memory, or not, as a whole."""


@dataclass(frozen=True, slots=True)
class Written:
    """`data` was written at `position`."""

    position: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        if len(content) < self.position:
            content.extend(bytes(self.position - len(content)))
        content[self.position : self.position + len(self.data)] = self.data

    def split(self) -> "list[Written]":
        """The same write, sector by sector."""
        parts: list[Written] = []
        start = 0
        while start < len(self.data):
            into_sector = (self.position + start) % SECTOR_BYTES
            end = min(start + SECTOR_BYTES - into_sector, len(self.data))
            parts.append(Written(self.position + start, self.data[start:end]))
            start = end
        return parts


@dataclass(frozen=True, slots=True)
class Resized:
    """The file was cut, or extended with zeros, to `size_bytes`."""

    size_bytes: int

    def apply(self, content: bytearray) -> None:
        if len(content) > self.size_bytes:
            del content[self.size_bytes :]
        else:
            content.extend(bytes(self.size_bytes - len(content)))


Change = Written | Resized


class Survival(enum.Enum):
    """How much of what was not synced survives power loss."""

    NOTHING = enum.auto()
    EVERYTHING = enum.auto()
    PREFIX = enum.auto()
    """The first changes, the last of them torn."""
    SCATTERED = enum.auto()
    """Any of the sectors: the disk writes in an order of its own."""


class Inode:
    """What files and folders share: a place in the tree."""

    __slots__ = ("name", "parent")

    def __init__(self) -> None:
        self.parent: FolderNode | None = None
        self.name = ""

    @property
    def path(self) -> str:
        """Its path; if it was removed, the last one it had."""
        above = self.parent.path if self.parent is not None else ""
        return f"{above}/{self.name}" if above else self.name


class FileNode(Inode):
    __slots__ = ("cold_pages", "content", "durable", "pending")

    def __init__(self) -> None:
        super().__init__()
        self.content = bytearray()
        self.durable = bytearray()
        self.pending: list[Change] = []
        self.cold_pages: set[int] = set()
        """Those that are not in memory."""

    def change(self, change: Change) -> None:
        change.apply(self.content)
        self.pending.append(change)
        if self.cold_pages and isinstance(change, Written):
            self.warm(change.position, len(change.data))

    def chill(self) -> None:
        """Nothing of it is in memory any longer."""
        self.cold_pages = set(_pages(0, len(self.content)))

    def warm(self, position: int, size_bytes: int) -> None:
        """A part of it is in memory again."""
        self.cold_pages.difference_update(_pages(position, size_bytes))

    def is_cold(self, position: int, size_bytes: int) -> bool:
        """Whether a read of that part waits for the device."""
        there_bytes = min(size_bytes, len(self.content) - position)
        return not self.cold_pages.isdisjoint(_pages(position, there_bytes))

    def sync(self) -> None:
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def lose_pending(self) -> None:
        """A sync failed: readers still see what was pending, but no later sync will save it."""
        self.pending.clear()

    def lose_power(self, rng: random.Random, survival: Survival) -> None:
        for change in _survivors(self.pending, rng, survival):
            change.apply(self.durable)
        self.pending.clear()
        self.content = bytearray(self.durable)
        self.chill()


class FolderNode(Inode):
    __slots__ = ("durable", "entries")

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[str, Inode] = {}
        self.durable: dict[str, Inode] = {}


@dataclass(frozen=True, slots=True)
class Entry:
    """In `folder`, `name` came to stand for `inode`, or for nothing."""

    folder: FolderNode
    name: str
    inode: Inode | None
    is_link: bool = False
    """Whether it is a second name, beside the one by which the inode is known."""

    def apply(self) -> None:
        if self.inode is None:
            self.folder.entries.pop(self.name, None)
        else:
            self.folder.entries[self.name] = self.inode
            if not self.is_link:
                self.inode.parent, self.inode.name = self.folder, self.name

    def apply_durably(self) -> None:
        if self.inode is None:
            self.folder.durable.pop(self.name, None)
        else:
            self.folder.durable[self.name] = self.inode


Step = tuple[Entry, ...]
"""Entries that change together or not at all: a rename is one step."""


class Tree:
    """The folders, and the steps that made them what they are since they were last synced."""

    def __init__(self) -> None:
        self.root = FolderNode()
        self._pending: list[Step] = []

    def change(self, *step: Entry) -> None:
        for entry in step:
            entry.apply()
        self._pending.append(step)

    def change_durably(self, entry: Entry) -> None:
        entry.apply()
        entry.apply_durably()

    def sync(self, folder: FolderNode) -> None:
        """Make the entries of `folder` durable.

        A step between two folders makes both depend on each other: an older step must never be
        applied after a newer one.
        """
        reached = {folder}
        synced: list[Step] = []
        others: list[Step] = []
        for step in reversed(self._pending):
            folders = {entry.folder for entry in step}
            if reached.isdisjoint(folders):
                others.append(step)
            else:
                reached |= folders
                synced.append(step)
        _apply_durably(reversed(synced))
        self._pending = others[::-1]

    def lose_power(self, rng: random.Random, survival: Survival | None) -> None:
        """Keep what was synced, and of the rest what `survival` or `rng` says, files included."""
        match survival or _drawn(rng):
            case Survival.NOTHING:
                kept: list[Step] = []
            case Survival.EVERYTHING:
                kept = self._pending
            case Survival.PREFIX:
                kept = self._pending[: rng.randint(0, len(self._pending))]
            case Survival.SCATTERED:
                kept = _independent(self._pending, rng)
        _apply_durably(kept)
        self._pending = []
        _restore(self.root, rng, survival)


def _pages(position: int, size_bytes: int) -> range:
    return range(position // PAGE_BYTES, -(-(position + size_bytes) // PAGE_BYTES))


def _drawn(rng: random.Random) -> Survival:
    return rng.choice(list(Survival))


def _apply_durably(steps: Iterable[Step]) -> None:
    for step in steps:
        for entry in step:
            entry.apply_durably()


def _independent(steps: list[Step], rng: random.Random) -> list[Step]:
    """Any of `steps`, but none that builds on one that is lost: no name may stand for two files."""
    kept: list[Step] = []
    lost: set[tuple[FolderNode, str]] = set()
    for step in steps:
        names = {(entry.folder, entry.name) for entry in step}
        if lost.isdisjoint(names) and rng.random() < 0.5:
            kept.append(step)
        else:
            lost |= names
    return kept


def _restore(folder: FolderNode, rng: random.Random, survival: Survival | None) -> None:
    """Forget everything below `folder` that is not durable."""
    folder.entries = dict(folder.durable)
    for name in sorted(folder.entries):
        inode = folder.entries[name]
        inode.parent, inode.name = folder, name
        if isinstance(inode, FolderNode):
            _restore(inode, rng, survival)
        elif isinstance(inode, FileNode):
            inode.lose_power(rng, survival or _drawn(rng))


def _survivors(changes: list[Change], rng: random.Random, survival: Survival) -> list[Change]:
    match survival:
        case Survival.NOTHING:
            return []
        case Survival.EVERYTHING:
            return changes
        case Survival.PREFIX:
            count = rng.randint(0, len(changes))
            return [*changes[:count], *_torn(changes[count : count + 1], rng)]
        case Survival.SCATTERED:
            return [part for part in _parts(changes) if rng.random() < 0.5]


def _torn(changes: list[Change], rng: random.Random) -> list[Change]:
    """The beginning of a write: whole sectors, or just some bytes, where the file would end."""
    for change in changes:
        if isinstance(change, Written):
            return [Written(change.position, change.data[: rng.randint(0, len(change.data))])]
    return []


def _parts(changes: list[Change]) -> list[Change]:
    parts: list[Change] = []
    for change in changes:
        parts += change.split() if isinstance(change, Written) else [change]
    return parts
