"""Names that somebody may have meant."""

import difflib
from collections.abc import Callable, Iterable
from typing import Final

from ottla.errors import NotFoundError, OttlaError

_NAMES_SUGGESTED: Final = 3


def suggest(error: NotFoundError, name: str, names: Callable[[], Iterable[str]]) -> None:
    """Add to an error which of `names` are like the one that is not there."""
    try:
        known = list(names())
    except OttlaError:
        return  # those of another coordinator may not be known yet: then without a hint
    if near := difflib.get_close_matches(name, known, n=_NAMES_SUGGESTED):
        error.add_note(f"is it one of these? {', '.join(near)}")
