"""Replacing segments by others, so that a crash at any moment leaves the old ones or the new ones.

The new segments are written as `.cleaned` and synced.  Renaming them to `.swap` is the decision,
and the first one, which is renamed last, makes it: with it on disk the replacement is completed,
without it everything is undone.  Completing means: remove what lies in the range of the new
segments, then take the suffix away.

A sync takes a while, and the log goes on meanwhile; so these are iterators that pause where one is
due.  Between the decision and its end nobody may delete segments of the log: what was deleted from
among the old ones would come back with the new ones.
"""

import logging
from collections.abc import Iterator, Sequence

from ottla.log import files
from ottla.log.config import LogConfig
from ottla.log.files import LogFile, parse_name
from ottla.log.segment import Segment
from ottla.ports import Disk

log = logging.getLogger(__name__)


def offer(new: Sequence[Segment]) -> Iterator[None]:
    """Bring `new` segments, which are synced and in order, to where the decision is made.

    At each pause the folder must be synced before it goes on.  Up to its end all can be undone:
    remove all segments but the first one, sync the folder, and remove the first one.
    """
    # The first segment as `.cleaned` is what undoes the others, so its name must be on disk before
    # any of theirs changes, and must stay until all of theirs have.
    yield
    for segment in reversed(new[1:]):
        segment.rename(files.SWAP)
    yield


def decide(new: Sequence[Segment]) -> None:
    """Rename the first segment; from here on there is no way back.

    The folder must be synced before anything else happens to the old segments.
    """
    new[0].rename(files.SWAP)


def carry_out(old: Sequence[Segment], new: Sequence[Segment]) -> Iterator[None]:
    """Give `new` segments the names of the `old` ones, with a sync of the folder at each pause.

    Before the first one, the old segments end in `.deleted`, and the new ones are the log.  Should
    it never go on, recovery does the rest.  After an error it can be begun again: what has its new
    name already keeps it.
    """
    for segment in old:
        segment.rename(files.DELETED)
    yield
    for segment in new:
        segment.rename("")
    yield


def finish_swap(disk: Disk, folder: str, config: LogConfig, names: list[str]) -> list[str]:
    """Complete or undo a replacement that a crash interrupted: the names that are there then."""
    found = [file for file in map(parse_name, names) if file is not None]
    swaps = [file for file in found if file.state == files.SWAP]
    if not swaps:
        return names
    unfinished = [
        file.base_offset for file in found if file.state == files.CLEANED and file.kind == files.LOG
    ]
    new = [file for file in swaps if file.kind == files.LOG]
    if not new or (unfinished and min(unfinished) <= min(file.base_offset for file in new)):
        log.warning("replacement of segments undone: folder=%s", folder)
        for file in swaps:
            disk.remove(f"{folder}/{file.name}")
    else:
        log.warning("replacement of segments completed: folder=%s", folder)
        _complete(disk, folder, config, found, new)
    disk.sync_folder(folder)
    return disk.names(folder)


def _complete(
    disk: Disk, folder: str, config: LogConfig, found: list[LogFile], new: list[LogFile]
) -> None:
    segments = []
    for file in sorted(new):
        segment = Segment(disk, folder, config, file.base_offset, state=files.SWAP)
        try:
            segment.find_end()
        finally:
            segment.close()
        segments.append(segment)
    first_offset, end_offset = segments[0].base_offset, segments[-1].next_offset
    for file in found:
        is_segment = file.state == "" and file.kind in files.SEGMENT_KINDS
        if is_segment and first_offset <= file.base_offset < end_offset:
            disk.remove(f"{folder}/{file.name}")
    disk.sync_folder(folder)
    for segment in segments:
        segment.rename("")
