"""What comes of asking about several things: some may work while others fail."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

from ottla.errors import ErrorCode, OttlaError, exception_for

K = TypeVar("K")
V = TypeVar("V")


class Results(Mapping[K, V]):
    """A mapping of what worked; looking up what failed raises its own error.

    `errors` has the failures, so a program that must not overlook any looks there.
    """

    def __init__(self, outcomes: Mapping[K, V | OttlaError]) -> None:
        self._found: dict[K, V] = {}
        errors: dict[K, OttlaError] = {}
        for key, outcome in outcomes.items():
            if isinstance(outcome, OttlaError):
                errors[key] = outcome
            else:
                self._found[key] = outcome
        self.errors: Mapping[K, OttlaError] = MappingProxyType(errors)
        """What failed -> why."""

    def __getitem__(self, key: K) -> V:
        if (error := self.errors.get(key)) is not None:
            raise error
        return self._found[key]

    def __contains__(self, key: object) -> bool:
        return key in self._found

    def __iter__(self) -> Iterator[K]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"Results({self._found!r}, errors={dict(self.errors)!r})"


def all_or_raise(outcomes: Mapping[K, V | OttlaError]) -> dict[K, V]:
    """Everything, or the first error, with a note for each of the others."""
    failed: dict[K, OttlaError] = {}
    found: dict[K, V] = {}
    for key, outcome in outcomes.items():
        if isinstance(outcome, OttlaError):
            failed[key] = outcome
        else:
            found[key] = outcome
    if failed:
        first, *others = failed
        for key in others:
            failed[first].add_note(f"{key}: {failed[key]}")
        if found:
            failed[first].add_note(f"done: {', '.join(str(key) for key in found)}")
        raise failed[first]
    return found


def outcome_of(code: int, detail: str, value: V) -> V | OttlaError:
    """`value`, or the error that `code` stands for."""
    return value if code == ErrorCode.NONE else exception_for(code, detail)
