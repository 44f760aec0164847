"""Records that are gone before they were read: what is said, and what is done about it.

A gap is no loss: offsets of markers, of aborted records and of what compaction took away are simply
not there.  Loss is what lies before the start of a log, or in a topic that does not exist any more,
or is another topic of the same name.
"""

import logging
from collections.abc import Mapping
from typing import Final

from ottla.errors import OttlaError
from ottla.model import TopicPartition

log = logging.getLogger(__name__)

ADVICE: Final = (
    "To go on with what is there, set failOnDataLoss to false; to begin anew, use a new checkpoint."
)


class DataLossError(OttlaError):
    """Records that the query had still to read are gone; the message says which, and why."""


def report(message: str, *, fails: bool) -> None:
    """Raise, or warn."""
    if fails:
        raise DataLossError(f"{message}  {ADVICE}")
    log.warning("records are lost, and failOnDataLoss is false: %s", message)


def retention_passed(tp: TopicPartition, offset: int, log_start_offset: int) -> str:
    """The words for a position before the start of the log."""
    return (
        f"{tp} begins at offset {log_start_offset}, and offsets {offset} to "
        f"{log_start_offset - 1} were not read yet: retention or a deletion of records has passed "
        f"the query."
    )


def beyond_end(tp: TopicPartition, offset: int, end_offset: int) -> str:
    """The words for a position that no log of this name ever had."""
    return (
        f"{tp} ends at offset {end_offset}, and the query is to go on at {offset}: the log was "
        f"cut, or the offset is of another topic."
    )


def topic_deleted(topic: str, positions: Mapping[TopicPartition, int]) -> str:
    """The words for a topic that is not there."""
    return f"topic {topic!r} was deleted; the query had read {_told(topic, positions)}."


def topic_made_anew(
    topic: str, old_id: str, new_id: str, positions: Mapping[TopicPartition, int]
) -> str:
    """The words for a topic with a name that another one had."""
    return (
        f"topic {topic!r} was deleted and created anew: its id is {new_id}, and the offsets of the "
        f"query are of {old_id}, of which it had read {_told(topic, positions)}."
    )


def partition_gone(tp: TopicPartition, position: int) -> str:
    """The words for a partition that its topic does not have any more."""
    return f"partition {tp} does not exist any more; the query had read up to offset {position}."


def other_cluster(old: str, new: str) -> str:
    """The words for a checkpoint of somewhere else."""
    return f"the offsets of the query are of cluster {old}, and this is cluster {new}."


def began_late(tp: TopicPartition, first_offset: int) -> str:
    """The words for a new partition whose first records are gone."""
    return (
        f"new partition {tp} begins at offset {first_offset}, so that what was written before it "
        f"was found is gone."
    )


def _told(topic: str, positions: Mapping[TopicPartition, int]) -> str:
    own = [(tp.partition, offset) for tp, offset in sorted(positions.items()) if tp.topic == topic]
    return ", ".join(f"partition {partition} up to offset {offset}" for partition, offset in own)
