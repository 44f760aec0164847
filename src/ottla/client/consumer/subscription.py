"""What a consumer wants to read: topics by name, topics by pattern, or partitions of its choice.

One of the three at a time.  A value, replaced as a whole: the caller makes it, the I/O thread reads
it.
"""

import re
from collections.abc import Collection
from functools import cached_property

from ottla.client.cluster_view import ClusterView
from ottla.errors import ConfigError
from ottla.model import topic_name_error
from ottla.values import dataclass


@dataclass(frozen=True)
class Subscription:
    """Without topics and pattern: nothing, or what `assign` chose."""

    topics: frozenset[str] = frozenset()
    pattern: str | None = None

    @property
    def is_shared(self) -> bool:
        """Whether partitions come from a group, or from the topics themselves."""
        return bool(self.topics) or self.pattern is not None

    @cached_property
    def _matcher(self) -> "re.Pattern[str]":
        assert self.pattern is not None
        return re.compile(self.pattern)

    def matching(self, cluster: ClusterView, *, excludes_internal: bool) -> frozenset[str]:
        """The topics that are meant, as far as the cluster is known."""
        if self.pattern is None:
            return self.topics
        return frozenset(
            name
            for name, topic in cluster.topics.items()
            if self._matcher.fullmatch(name) and not (excludes_internal and topic.is_internal)
        )


def subscription_of(topics: Collection[str] | str, *, is_pattern: bool) -> Subscription:
    """What `subscribe` was asked for.

    Raises:
        ConfigError: A name that no topic can have, or a pattern that is none.
    """
    if is_pattern:
        text = topics if isinstance(topics, str) else "|".join(f"(?:{part})" for part in topics)
        try:
            re.compile(text)
        except re.error as error:
            raise ConfigError(f"pattern {text!r} is no regular expression: {error}") from error
        return Subscription(pattern=text)
    names = [topics] if isinstance(topics, str) else list(topics)
    for name in names:
        if (problem := topic_name_error(name)) is not None:
            raise ConfigError(problem)
    return Subscription(topics=frozenset(names))
