"""The topics of a pipeline: which are there, which a run would make, which are missing."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.errors import OttlaError, UnknownTopicError
from ottla.pipeline.graph import external_topics, matches, outputs
from ottla.pipeline.spec import Pipeline

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin


class TopicMissingError(OttlaError, LookupError):
    """A topic that the pipeline reads, and does not write, does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """One topic of a pipeline."""

    name: str
    partition_count: int | None
    """None: it does not exist."""
    wanted_partitions: int = -1
    readers: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()

    @property
    def is_made(self) -> bool:
        """Whether a run would make it."""
        return self.partition_count is None and bool(self.writers)

    @property
    def is_missing(self) -> bool:
        return self.partition_count is None and not self.writers


def topic_plans(pipeline: Pipeline, partition_counts: Mapping[str, int]) -> list[TopicPlan]:
    """All topics of a pipeline, those it only reads first; `partition_counts`: those there are."""
    written = outputs(pipeline)
    names: dict[str, None] = {}
    for topic in external_topics(pipeline):
        found = [name for name in sorted(partition_counts) if matches(topic, name)]
        names |= dict.fromkeys(found if topic.is_pattern else [topic.name])
    names |= dict.fromkeys(written)
    return [
        TopicPlan(
            name=name,
            partition_count=partition_counts.get(name),
            wanted_partitions=written.get(name, -1),
            readers=tuple(
                step.name for step in pipeline.steps if any(matches(t, name) for t in step.topics)
            ),
            writers=tuple(step.name for step in pipeline.steps if name in step.outputs),
        )
        for name in names
    ]


def look_up(admin: "Admin", pipeline: Pipeline) -> list[TopicPlan]:
    """Ask the broker about the topics of a pipeline."""
    there = set(admin.list_topics())
    named = {topic.name for step in pipeline.steps for topic in step.topics}
    wanted = {
        name
        for name in there
        if name in named
        or name in outputs(pipeline)
        or any(matches(topic, name) for topic in external_topics(pipeline))
    }
    return topic_plans(pipeline, _partition_counts(admin, wanted))


def make_missing(admin: "Admin", plans: Collection[TopicPlan]) -> list[str]:
    """Make the topics that steps write to; return their names.

    Raises:
        TopicMissingError: One that is only read does not exist.
    """
    for plan in plans:
        if plan.is_missing:
            raise missing_error(plan)
    made = [plan for plan in plans if plan.is_made]
    for plan in made:
        admin.create_topic(plan.name, partitions=plan.wanted_partitions, exists_ok=True)
    return [plan.name for plan in made]


def missing_error(plan: TopicPlan) -> TopicMissingError:
    """What to say about a topic that nobody has made."""
    error = TopicMissingError(
        f"topic {plan.name!r} does not exist, and {', '.join(plan.readers)} reads it"
    )
    error.add_note(f"`ottla topic create {plan.name}` makes it")
    return error


def _partition_counts(admin: "Admin", names: Collection[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in sorted(names):
        try:
            counts[name] = len(admin.describe_topic(name).partitions)
        except UnknownTopicError:
            continue  # deleted since we asked for the names
    return counts
