"""What somebody should look at, from the last samples alone: where the bad night begins.

Pure, and quick to judge: the page of the thing itself says why.  What comes and goes by itself, as
rebalances do, is told when it lasts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from ottla.client.admin.lag import GroupLag
from ottla.console.history import LATE, History, Sample
from ottla.console.words import number, size, span
from ottla.quantities import counted
from ottla.why.topic_waits import is_nearly_full

LASTING_S: Final = 15.0
"""A rebalance takes less, if all goes well."""

MAX_NOTES: Final = 10

_AT_REST: Final = ("Stable", "Empty", "Dead")


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to look at."""

    kind: str
    """`bad`: something does not work; `warn`: something waits."""
    text: str
    path: str
    """The page that says more."""
    subject: str = ""
    """What that page needs as `id`; empty if its path says it all."""


def attention(history: History) -> list[Note]:
    """The worst first; of more than `MAX_NOTES`, how many there are."""
    newest = history.newest
    if newest is None:
        return []
    notes = [
        *_offline(newest),
        *_full(newest),
        *_refused(history),
        *_groups(history, newest),
        *_transactions(newest),
    ]
    notes.sort(key=lambda note: note.kind != "bad")
    rest = len(notes) - MAX_NOTES
    more = (
        [Note("warn", f"and {number(rest)} more", _list_of(notes[MAX_NOTES]))] if rest > 0 else []
    )
    return notes[:MAX_NOTES] + more


def _list_of(note: Note) -> str:
    """The page with all things of a kind, which its path begins with."""
    return "/" + note.path.split("/")[1]


def _offline(newest: Sample) -> Iterator[Note]:
    for name, topic in newest.topics.items():
        if topic.offline_count:
            parts = f"{topic.offline_count} of {topic.partition_count} partitions"
            text = f"{name}: {parts} offline, and can be neither written nor read"
            yield Note("bad", text, f"/topics/{name}")
        elif topic.under_replicated_count:
            text = f"{name}: {topic.under_replicated_count} partitions with replicas that are late"
            yield Note("warn", text, f"/topics/{name}")


def _full(newest: Sample) -> Iterator[Note]:
    for folder in newest.folders:
        if is_nearly_full(folder.usable_bytes, folder.total_bytes):
            left = f"{size(folder.usable_bytes)} of {size(folder.total_bytes)}"
            text = f"The disk of broker {folder.broker_id} has {left} left; full, it refuses writes"
            yield Note("bad", text, "/brokers")


def _refused(history: History) -> Iterator[Note]:
    for (topic, error), count in history.refused().items():
        text = f"{topic}: {counted(count, 'batch', 'batches')} refused in the last minute, {error}"
        yield Note("warn", text, f"/topics/{topic}")


def _groups(history: History, newest: Sample) -> Iterator[Note]:
    for group_id, lag in newest.lags.items():
        if text := _trouble_of(lag, _unrest_s(history, group_id)):
            yield Note("warn", f"{group_id} {text}", "/groups/show", group_id)


def _trouble_of(lag: GroupLag, unrest_s: float) -> str:
    ages = [part.time_lag for part in lag.partitions if part.time_lag is not None]
    late = max(ages, default=timedelta(0))
    left = f"{counted(lag.total, 'record')} to read, the oldest {span(late)} old"
    if lag.state == "Empty":
        return f"has no members, and {left}" if lag.total else ""
    if unrest_s >= LASTING_S:
        return f"is {lag.state} for {span(unrest_s)}"
    return f"is behind: {left}" if lag.total and late >= LATE else ""


def _unrest_s(history: History, group_id: str) -> float:
    """For how long a group has not been at rest."""
    since_s = until_s = 0.0
    for sample in history:
        lag = sample.lags.get(group_id)
        if lag is None or lag.state in _AT_REST:
            since_s = 0.0
        else:
            since_s, until_s = since_s or sample.at_s, sample.at_s
    return until_s - since_s if since_s else 0.0


def _transactions(newest: Sample) -> Iterator[Note]:
    for transactional_id in newest.late_transactions:
        text = f"Transaction {transactional_id} is open for more than {span(LATE)}"
        yield Note("warn", text, "/transactions/show", transactional_id)
