"""Looks at this machine: Python, the codecs, limits, ports, and the disk of a data directory."""

import errno
import os
import platform
import resource
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ottla.cli.doctor.checks import Check, fail, ok, warn
from ottla.cli.version import running_twins
from ottla.client.addresses import DEFAULT_PORT
from ottla.ports import NO_ROOM
from ottla.quantities import counted, human_size

NEWEST_PYTHON: Final = (3, 14)
FEW_FILES: Final = 1_024
ENOUGH_FILES: Final = 8_192
GIB: Final = 1024**3
LITTLE_ROOM_BYTES: Final = 10 * GIB
NO_ROOM_BYTES: Final = GIB
SLOW_SYNC_S: Final = 0.020
SYNCS: Final = 20
_SYNC_BYTES: Final = 4096

REMOTE: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "glusterfs"})
IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
LAYERS: Final = frozenset({"overlay", "aufs"})


def python() -> Iterator[Check]:
    """The interpreter, and which codecs it runs."""
    shown = f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"
    if sys.flags.optimize:
        yield fail(
            "Python",
            f"{shown}, with assertions switched off (-O)",
            "run it without -O and without PYTHONOPTIMIZE: the broker checks itself with them",
        )
    elif sys.version_info[:2] > NEWEST_PYTHON:
        known = ".".join(map(str, NEWEST_PYTHON))
        yield warn("Python", shown, f"it may well work; {known} is the newest that was tested")
    else:
        yield ok("Python", shown)
    twins = running_twins()
    shown = ", ".join(f"{name} {twin}" for name, twin in twins.items())
    if all(twin == "compiled" for twin in twins.values()):
        yield ok("codecs", shown)
    else:
        yield warn(
            "codecs",
            shown,
            "all works, several times slower: unset OTTLA_PURE, or install Ottla anew where there "
            "is a C compiler",
        )


def files(soft_limit: int, hard_limit: int) -> Check:
    """How many files a process may have open: a broker needs one for a segment and a client."""
    shown = f"{_limit(soft_limit)} open at a time, and {_limit(hard_limit)} on request"
    advice = "`ulimit -n 65536` before `ottla serve`, or LimitNOFILE=65536 in its systemd unit"
    if _is_below(soft_limit, FEW_FILES):
        return fail("files", shown, advice)
    if _is_below(soft_limit, ENOUGH_FILES):
        return warn("files", shown, f"enough for a few hundred partitions; for more: {advice}")
    return ok("files", shown)


def file_limits() -> tuple[int, int]:
    """What this process may open, at once and on request."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def port_free(port: int = DEFAULT_PORT, *, is_brokers: bool = False) -> Check:
    """Whether a broker could listen; `is_brokers` says that the one who does was reached."""
    what = f"port {port}"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return fail(what, f"cannot be used: {error.strerror}", "`--port` takes another one")
            if is_brokers:
                return ok(what, "taken, by the broker that answers there")
            return warn(what, "taken, by another program", "`ottla serve --port` takes another one")
    return ok(what, "free for a broker")


def data_dir(folder: Path) -> Iterator[Check]:
    """The disk that a data directory is on, or would be: room, kind, and how fast it syncs."""
    place = _existing(folder)
    what = f"data directory {folder}"
    if not os.access(place, os.W_OK):
        yield fail(
            what,
            f"{place} cannot be written to",
            "`--data-dir` names another one; or give it to whoever runs the broker",
        )
        return
    yield ok(what, "there" if place == folder else f"not there yet; {place} can hold it")
    yield room(place, shutil.disk_usage(place).free)
    kind = kind_of(place, _mounts())
    if kind is not None:
        yield file_system(kind)
    yield _syncs(place)


def room(place: Path, free_bytes: int) -> Check:
    """Whether there is room for records."""
    shown = f"{human_size(free_bytes)} free at {place}"
    advice = "a full disk refuses writes: lower retention.ms or retention.bytes, or add room"
    if free_bytes < NO_ROOM_BYTES:
        return fail("disk room", shown, advice)
    if free_bytes < LITTLE_ROOM_BYTES:
        return warn("disk room", shown, advice)
    return ok("disk room", shown)


def file_system(kind: str) -> Check:
    """Whether a kind of file system keeps what was written."""
    if kind in IN_MEMORY:
        advice = "fine for tests; a restart of the machine loses everything"
        return warn("file system", f"{kind}, in memory", advice)
    if kind in LAYERS:
        advice = "mount a volume: what is written here goes with the container"
        return warn("file system", f"{kind}, a layer of a container", advice)
    if kind in REMOTE:
        advice = "use a disk of this machine: locks and syncs over a network are slow or untrue"
        return warn("file system", f"{kind}, over a network", advice)
    return ok("file system", kind)


def kind_of(place: Path, mounts: str) -> str | None:
    """The kind of file system that a folder is on, by Linux' list of mounts; None: not known."""
    resolved, best, kind = place.resolve(), Path("/"), None
    for line in mounts.splitlines():
        parts = line.split(" ")
        if len(parts) < 3:
            continue
        mounted = Path(parts[1].replace("\\040", " "))
        if resolved.is_relative_to(mounted) and len(mounted.parts) >= len(best.parts):
            best, kind = mounted, parts[2]
    return kind


def sync_speed(median_s: float, longest_s: float) -> Check:
    """Whether a disk is quick enough to wait for it."""
    shown = f"{median_s * 1000:.1f} ms a sync, {longest_s * 1000:.1f} ms at the longest"
    if median_s > SLOW_SYNC_S:
        return warn(
            "disk speed",
            f"{shown}, of {counted(SYNCS, 'sync')}",
            "with acks=all every producer waits for one: use a faster disk, or see who else uses "
            "this one. `flush=os` does not wait, and may lose what power loss takes",
        )
    return ok("disk speed", shown)


def _syncs(place: Path) -> Check:
    try:
        with tempfile.NamedTemporaryFile(prefix=".ottla-doctor-", dir=place) as file:
            times_s = [_timed_sync(file.fileno()) for _ in range(SYNCS)]
    except OSError as error:
        advice = "free some room" if error.errno in NO_ROOM else "look at dmesg"
        return fail("disk speed", f"a file cannot be synced: {error.strerror}", advice)
    return sync_speed(statistics.median(times_s), max(times_s))


def _timed_sync(descriptor: int) -> float:
    os.write(descriptor, b"\0" * _SYNC_BYTES)
    began_s = time.perf_counter()
    os.fsync(descriptor)
    return time.perf_counter() - began_s


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(place for place in (folder, *folder.absolute().parents) if place.is_dir())


def _mounts() -> str:
    listing = Path("/proc/self/mounts")
    return listing.read_text("utf-8", "replace") if listing.is_file() else ""


def _is_below(limit: int, least: int) -> bool:
    return limit != resource.RLIM_INFINITY and limit < least


def _limit(limit: int) -> str:
    return "any number" if limit == resource.RLIM_INFINITY else f"{limit:,}"
