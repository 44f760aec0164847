"""Where a source begins without a checkpoint, and where a batch ends: what the options say.

Of the ways to say it, the one for all partitions by time is the strongest, then times for each
partition, then offsets.
"""

from collections.abc import Callable, Collection, Mapping

from ottla.errors import ConfigError
from ottla.model import TopicPartition
from ottla.spark.option_values import EARLIEST, LATEST, positions
from ottla.spark.options import SourceOptions
from ottla.spark.source import loss
from ottla.spark.source.lookup import NOT_THERE, Found, Lookup


def starting_positions(
    options: SourceOptions,
    lookup: Lookup,
    partitions: Collection[TopicPartition],
    *,
    default: str,
) -> Found:
    """Where to begin.

    Args:
        options: What the user said.
        lookup: Whom to ask.
        partitions: All that are read.
        default: What counts if the user said nothing: earliest or latest.

    Raises:
        ConfigError: The user named other partitions than there are, or a time without records.
        DataLossError: The user, or the group, named offsets that are not there.
    """
    times = _times(
        options.starting_timestamp,
        "startingOffsetsByTimestamp",
        options.starting_offsets_by_timestamp,
        partitions,
    )
    if times is not None:
        found = _by_time(lookup, times)
        missing = [tp for tp in times if found[tp] == NOT_THERE]
        if missing and options.starting_timestamp_strategy == "error":
            raise ConfigError(
                f"{missing[0]} has no record from {times[missing[0]]} on, the time to begin at; "
                "startingOffsetsByTimestampStrategy = latest begins at the end instead"
            )
        return found | lookup.latest(missing)
    said = options.starting_offsets or default
    if said == "earliest":
        return lookup.earliest(partitions)
    if said == "latest":
        return lookup.latest(partitions)
    if said == "group":
        assert options.group is not None, "checked with the options"
        known = lookup.committed(options.group, partitions)
        unknown = [tp for tp in partitions if tp not in known]
        return lookup.earliest(unknown) | _within(options, lookup, known)
    return _given(options, lookup, "startingOffsets", said, partitions)


def ending_positions(
    options: SourceOptions, lookup: Lookup, partitions: Collection[TopicPartition]
) -> Found:
    """Where a batch ends; raises as `starting_positions`."""
    times = _times(
        options.ending_timestamp,
        "endingOffsetsByTimestamp",
        options.ending_offsets_by_timestamp,
        partitions,
    )
    if times is not None:
        found = _by_time(lookup, times)
        return found | lookup.latest([tp for tp in times if found[tp] == NOT_THERE])
    said = options.ending_offsets or "latest"
    if said == "latest":
        return lookup.latest(partitions)
    return _given(options, lookup, "endingOffsets", said, partitions)


def _times(
    for_all_ms: int | None, name: str, text: str | None, partitions: Collection[TopicPartition]
) -> Found | None:
    if for_all_ms is not None:
        return dict.fromkeys(partitions, for_all_ms)
    if text is None:
        return None
    times = positions(name, text)
    _check_complete(name, times, partitions)
    return times


def _by_time(lookup: Lookup, times: Mapping[TopicPartition, int]) -> Found:
    found: Found = {}
    for time_ms in sorted(set(times.values())):
        found |= lookup.offsets([tp for tp in times if times[tp] == time_ms], time_ms)
    return found


def _given(
    options: SourceOptions,
    lookup: Lookup,
    name: str,
    text: str,
    partitions: Collection[TopicPartition],
) -> Found:
    said = positions(name, text)
    _check_complete(name, said, partitions)
    if name == "endingOffsets" and (low := [tp for tp in said if said[tp] == EARLIEST]):
        raise ConfigError(f"endingOffsets: {low[0]} ends at {EARLIEST}, where nothing was read yet")
    exact = {tp: offset for tp, offset in said.items() if offset >= 0}
    words: dict[int, Callable[[Collection[TopicPartition]], Found]] = {
        EARLIEST: lookup.earliest,
        LATEST: lookup.latest,
    }
    found = _within(options, lookup, exact)
    for tp, offset in said.items():
        if offset < 0:
            if offset not in words:
                raise ConfigError(f"{name}: {tp} has offset {offset}; -2 and -1 have a meaning")
            found |= words[offset]([tp])
    return found


def _within(options: SourceOptions, lookup: Lookup, said: Mapping[TopicPartition, int]) -> Found:
    """The offsets as they are, if they are there; else loss is reported, and the nearest taken."""
    first, last = lookup.earliest(said), lookup.high_watermarks(said)
    found: Found = {}
    for tp, offset in said.items():
        found[tp] = offset
        if offset < first[tp]:
            message = loss.retention_passed(tp, offset, first[tp])
            loss.report(message, fails=options.fail_on_data_loss)
            found[tp] = first[tp]
        elif offset > last[tp]:
            message = loss.beyond_end(tp, offset, last[tp])
            loss.report(message, fails=options.fail_on_data_loss)
            found[tp] = last[tp]
    return found


def _check_complete(
    name: str, said: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]
) -> None:
    missing = sorted(set(partitions) - set(said))
    unknown = sorted(set(said) - set(partitions))
    if missing:
        raise ConfigError(f"{name} says nothing of {missing[0]}; name all partitions")
    if unknown:
        raise ConfigError(f"{name} names {unknown[0]}, which is not read or does not exist")
