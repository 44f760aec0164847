"""Which topics and groups are copied, and what the copies are called.

No two topics may become one, and where both clusters are the same, no topic may become itself, nor
a copy be copied.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

from ottla.errors import ConfigError
from ottla.model import INTERNAL_TOPICS, topic_name_error
from ottla.values import dataclass

HIDDEN_PREFIX: Final = "__"
"""What brokers and programs keep for themselves begins like this; `*` does not mean it."""

EVERYTHING: Final = ("*",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which topics, by patterns as shells have them, and what they are called at the target."""

    topics: tuple[str, ...] = EVERYTHING
    exclude: tuple[str, ...] = ()
    prefix: str = ""
    renames: Mapping[str, str]
    """Topic -> the name of its copy; such a topic gets no prefix."""

    def target_of(self, topic: str) -> str:
        """What the copy of a topic is called."""
        return self.renames.get(topic, self.prefix + topic)

    def chosen(self, topics: Iterable[str], *, is_same_cluster: bool) -> dict[str, str]:
        """Topic -> its copy, for those of `topics` that are to be copied.

        Raises:
            ConfigError: Two copies would have one name, a name cannot be one, or a topic would be
                its own copy.
        """
        chosen = {
            name: self.target_of(name)
            for name in sorted(topics)
            if self._is_wanted(name) and not (is_same_cluster and self._is_copy(name))
        }
        sources: dict[str, str] = {}
        for name, target in chosen.items():
            if is_same_cluster and name == target:
                raise ConfigError(
                    f"both addresses lead to the same cluster: topic {name!r} would be copied into "
                    "itself; give the copies a --prefix, or --rename them"
                )
            if (reason := topic_name_error(target)) is not None:
                raise ConfigError(f"the copy of topic {name!r} cannot be called so: {reason}")
            if target in sources:
                raise ConfigError(
                    f"topics {sources[target]!r} and {name!r} would both become {target!r}"
                )
            sources[target] = name
        return chosen

    def _is_wanted(self, name: str) -> bool:
        if name in INTERNAL_TOPICS or any(fnmatchcase(name, pattern) for pattern in self.exclude):
            return False
        patterns = self.topics
        if name.startswith(HIDDEN_PREFIX):
            patterns = tuple(pattern for pattern in patterns if pattern.startswith(HIDDEN_PREFIX))
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    def _is_copy(self, name: str) -> bool:
        has_prefix = bool(self.prefix) and name.startswith(self.prefix)
        return has_prefix or name in self.renames.values()


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a group is meant by one of the patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
