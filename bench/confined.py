"""A process that may have only so much memory, what it reads from files included.

The kernel counts the pages of a file to the group of processes that brought them into memory, and
drops the oldest ones when the group has its share: so a log can be larger than the memory for it,
on any machine.  Only Linux has such groups, and only root may make one.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.maven import UnavailableError

PLACES = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    (Path("/sys/fs/cgroup"), "memory.max"),
)
"""Where groups are made, and the file of a group that has its limit: version 1, version 2."""


@contextmanager
def confined(pid: int, limit_bytes: int) -> Iterator[None]:
    """Let a process have so much memory; `UnavailableError` if that cannot be done here."""
    parent, group = _new_group(limit_bytes)
    try:
        _move(pid, group)
        yield
    finally:
        _move(pid, parent)
        group.rmdir()


def _new_group(limit_bytes: int) -> tuple[Path, Path]:
    for parent, limit in PLACES:
        if not (parent / "cgroup.procs").exists():
            continue
        with _permitted():
            group = Path(tempfile.mkdtemp(prefix="ottla-bench-", dir=parent))
        if (group / limit).exists():
            (group / limit).write_text(str(limit_bytes))
            return parent, group
        group.rmdir()
    raise UnavailableError("memory cannot be limited here: there are no groups of processes for it")


def _move(pid: int, group: Path) -> None:
    with suppress(ProcessLookupError), _permitted():  # a process that has ended is in no group
        (group / "cgroup.procs").write_text(str(pid))


@contextmanager
def _permitted() -> Iterator[None]:
    try:
        yield
    except ProcessLookupError:
        raise
    except OSError as error:
        raise UnavailableError(f"memory cannot be limited here: {error}") from None
