"""How steps hang together: what each waits for, and what cannot work, found without running it.

Steps meet in topics only.  A step that reads what another writes comes after it; that order counts
where a pipeline runs once, and steps without an order between them run side by side.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from ottla.errors import ConfigError
from ottla.pipeline.spec import Pipeline, Step, Table, Topic, check_name

_ONE_TOPIC: Final = 1


def stages(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps in groups: those of one group may run when all groups before it are done.

    Raises:
        ConfigError: Some of them wait for each other.
    """
    waiting = list(steps)
    found: list[list[Step]] = []
    while waiting:
        ready = [step for step in waiting if not any(feeds(other, step) for other in waiting)]
        if not ready:
            names = ", ".join(step.name for step in waiting)
            raise ConfigError(f"these steps read what they write, in a circle: {names}")
        found.append(ready)
        waiting = [step for step in waiting if step not in ready]
    return found


def feeds(upper: Step, lower: Step) -> bool:
    """Whether one step reads what the other writes."""
    return any(matches(topic, name) for topic in lower.topics for name in upper.outputs)


def matches(topic: Topic, name: str) -> bool:
    """Whether reading `topic` reads the topic of this name."""
    if topic.is_pattern:
        return re.fullmatch(topic.name, name) is not None
    return topic.name == name


def check(pipeline: Pipeline) -> None:
    """Refuse a pipeline that cannot work, with everything that is wrong with it.

    Raises:
        ConfigError: Something is.
    """
    troubles = list(_troubles(pipeline))
    if not troubles:
        try:
            stages(pipeline.steps)
        except ConfigError as error:
            troubles.append(str(error))
    if troubles:
        raise ConfigError(f"pipeline {pipeline.name!r}: " + "; ".join(troubles))


def external_topics(pipeline: Pipeline) -> list[Topic]:
    """What the pipeline reads and none of its steps writes: somebody else must."""
    written = {name for step in pipeline.steps for name in step.outputs}
    found: dict[str, Topic] = {}
    for step in pipeline.steps:
        for topic in step.topics:
            if not any(matches(topic, name) for name in written):
                found.setdefault(topic.name, topic)
    return list(found.values())


def outputs(pipeline: Pipeline) -> dict[str, int]:
    """Every topic that is written to -> the partitions that it is to have, -1 if nobody said."""
    found: dict[str, int] = {}
    for step in pipeline.steps:
        for name in step.outputs:
            wanted = step.sink.partitions if name in step.sink.topics else -1
            found[name] = max(found.get(name, -1), wanted)
    return found


def _troubles(pipeline: Pipeline) -> Iterator[str]:
    check_name("pipeline", pipeline.name)
    if not pipeline.steps:
        yield "it has no steps"
    for name, count in Counter(step.name for step in pipeline.steps).items():
        if count > 1:
            yield f"{count} steps are called {name!r}"
    for step in pipeline.steps:
        check_name("step", step.name)
        yield from (f"step {step.name!r}: {trouble}" for trouble in _troubles_of(step))


def _troubles_of(step: Step) -> Iterator[str]:
    if not step.topics:
        yield "it reads no topic, so it would never have anything to do"
    yield from _troubles_of_sources(step)
    yield from _troubles_of_sink(step)


def _troubles_of_sources(step: Step) -> Iterator[str]:
    for view, count in Counter(source.view for source in step.sources).items():
        if count > 1:
            yield f"{count} sources are called {view!r}; topic(..., view=) gives one another name"
    for topic in step.topics:
        if topic.is_pattern:
            try:
                re.compile(topic.name)
            except re.error as error:
                yield f"{topic.name!r} is no regular expression: {error}"
        if topic.format == "avro" and not {"avroSchema", "schemaRegistry"} & topic.options.keys():
            yield f"topic {topic.name!r}: avro needs the option avroSchema or schemaRegistry"
    if step.dead_letter is not None and not any(topic.schema for topic in step.topics):
        yield "nothing goes to the dead-letter topic: no source has a schema that rows could miss"


def _troubles_of_sink(step: Step) -> Iterator[str]:
    if step.dead_letter is not None:
        if step.dead_letter in step.sink.topics:
            yield f"{step.dead_letter!r} is the sink and the dead-letter topic"
        if step.sink.mode != "append":
            yield f"mode={step.sink.mode!r} goes without a dead-letter topic"
    if len(step.sink.topics) > _ONE_TOPIC and len(set(step.sink.topics)) < len(step.sink.topics):
        yield "a topic is named twice in sink="


def described(source: Topic | Table) -> str:
    """A source in a word or two, for a drawing of the graph."""
    if isinstance(source, Table):
        return f"{source.view} (table)"
    return f"/{source.name}/" if source.is_pattern else source.name
