"""How a mirror looks: a live table on a terminal, lines for what has moved elsewhere, or JSON."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Protocol

import click

from ottla.cli.live import Canvas, lines_or_screen
from ottla.cli.output import Output, table
from ottla.mirror.progress import MirrorProgress, TopicProgress

COLUMNS: Final = ("topic", "copy", "partitions", "copied", "per s", "lag")
LINE_INTERVAL_S: Final = 5.0
SCREEN_INTERVAL_S: Final = 0.25


class View(Protocol):
    """Shows a mirror."""

    def show(self, progress: MirrorProgress) -> None:
        """Show how it stands now."""

    def finish(self) -> None:
        """Show what there was no time for."""


class Lines:
    """A line, or an object, for each topic that has moved, every few seconds."""

    def __init__(self, output: Output, now_s: Callable[[], float] = time.monotonic) -> None:
        self._output = output
        self._now_s = now_s
        self._told_s: float | None = None
        self._told: dict[str, TopicProgress] = {}
        self._last: MirrorProgress | None = None

    def show(self, progress: MirrorProgress) -> None:
        """Print what is new, if the last time is long enough ago."""
        self._last = progress
        now_s = self._now_s()
        if self._told_s is None or now_s - self._told_s >= LINE_INTERVAL_S:
            self._told_s = now_s
            self.finish()

    def finish(self) -> None:
        """Print what is new."""
        for topic in () if self._last is None else self._last.topics:
            if has_moved(topic, self._told.get(topic.topic)):
                self._told[topic.topic] = topic
                if self._output.is_json:
                    self._output.json_line(facts_of(topic))
                else:
                    click.echo(line_of(topic))


class Screen:
    """The table of all topics, drawn again and again."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._drawn_s = 0.0
        self._last: MirrorProgress | None = None

    def show(self, progress: MirrorProgress) -> None:
        """Draw it anew, if the last time is long enough ago."""
        self._last = progress
        if time.monotonic() - self._drawn_s >= SCREEN_INTERVAL_S:
            self.finish()

    def finish(self) -> None:
        """Draw it anew."""
        if self._last is not None:
            self._drawn_s = time.monotonic()
            self._canvas.draw(lines_of(self._last))


def view(output: Output) -> AbstractContextManager[View]:
    """What fits where the output goes."""
    return lines_or_screen(output, lambda: Lines(output), Screen)


def has_moved(topic: TopicProgress, told: TopicProgress | None) -> bool:
    """Whether there is anything to say about a topic."""
    if told is None:
        return True
    return (topic.copied, topic.lag, topic.lost, topic.partition_count) != (
        told.copied,
        told.lag,
        told.lost,
        told.partition_count,
    )


def lines_of(progress: MirrorProgress, *, for_people: bool = True) -> list[str]:
    """The topics as a table; how much was lost is a column only where something was."""
    has_lost = any(topic.lost for topic in progress.topics)
    columns = (*COLUMNS, "lost") if has_lost else COLUMNS
    rows = [row_of(topic)[: len(columns)] for topic in progress.topics]
    return table(columns, rows, for_people=for_people)


def row_of(topic: TopicProgress) -> tuple[object, ...]:
    """A topic as a row."""
    return (
        topic.topic,
        topic.target,
        topic.partition_count,
        topic.copied,
        round(topic.per_s),
        topic.lag,
        topic.lost,
    )


def line_of(topic: TopicProgress) -> str:
    """A topic in one line."""
    name = topic.topic if topic.topic == topic.target else f"{topic.topic} -> {topic.target}"
    lost = f" lost={topic.lost}" if topic.lost else ""
    return (
        f"{time.strftime('%H:%M:%S')} {name} partitions={topic.partition_count} "
        f"copied={topic.copied} per_s={topic.per_s:.0f} "
        f"lag={'-' if topic.lag is None else topic.lag}{lost}"
    )


def facts_of(topic: TopicProgress) -> dict[str, object]:
    """A topic as an object."""
    return {
        "event": "progress",
        "topic": topic.topic,
        "target": topic.target,
        "partitions": topic.partition_count,
        "copied": topic.copied,
        "per_s": round(topic.per_s, 1),
        "lag": topic.lag,
        "lost": topic.lost,
    }
