"""What waits for the caller: turns of a rebalance, errors to raise, commits to tell of.

The I/O thread puts it there and rings the bell; the caller takes it out inside `poll`, in order.
So listeners, interceptors and offset stores run in the caller's own thread, or in his event loop,
and the group waits for them.
"""

import enum
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ottla.client.records import OffsetAndMetadata
from ottla.errors import OttlaError
from ottla.model import TopicPartition


class Bell(Protocol):
    """How a caller that waits in `poll` is woken."""

    def ring(self) -> None:
        """Wake him; from any thread, and from signal handlers."""
        ...


class Change(enum.Enum):
    """What happens to partitions in a rebalance."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """It is the caller's turn: do this, then call `done`, from any thread."""

    change: Change
    partitions: frozenset[TopicPartition]
    done: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Committed:
    """These offsets were committed, and interceptors want to know it."""

    offsets: Mapping[TopicPartition, OffsetAndMetadata]


Letter = Turn | Committed | OttlaError


class Mailbox:
    """Letters, oldest first.  Safe from both threads: a deque is."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._letters: deque[Letter] = deque()

    def put(self, letter: Letter) -> None:
        self._letters.append(letter)
        self._bell.ring()

    def put_first(self, letter: Letter) -> None:
        """Put back what was taken out, and could not be done."""
        self._letters.appendleft(letter)

    def complain(self, error: OttlaError) -> None:
        """Have the caller raise `error`; one complaint at a time is enough."""
        if not any(isinstance(letter, OttlaError) for letter in list(self._letters)):
            self.put(error)

    @property
    def has_letters(self) -> bool:
        return bool(self._letters)

    def take(self) -> Letter | None:
        """The next letter; after an interrupt it is still there."""
        while self._letters:
            letter = self._letters[0]
            try:
                self._letters.remove(letter)
            except ValueError:
                continue  # it was withdrawn just now
            except BaseException:  # which may come when it is taken out, and not returned yet
                if letter not in self._letters:
                    self._letters.appendleft(letter)
                raise
            return letter
        return None

    def withdraw(self, letter: Letter) -> bool:
        """Take back a letter; False if the caller has it already, and acts on it."""
        try:
            self._letters.remove(letter)
        except ValueError:
            return False
        return True
