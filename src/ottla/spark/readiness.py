"""Whether Spark can run here, and what to do about what is missing.

Looks at what is installed, and starts nothing: `try_out` does that, for who wants to be sure.
"""

import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ottla.errors import OttlaError
from ottla.spark.java import HOW_TO_GET, SYSTEM_PLACES, JavaMissingError, find_java
from ottla.spark.session import was_submitted
from ottla.values import dataclass

OLDEST_PYSPARK: Final = (4, 1)
NEWEST_PYSPARK: Final = (4, 3)
OLDEST_PYARROW: Final = (18,)
INSTALL: Final = "pip install 'ottla[spark]'"
MIB: Final = 1024 * 1024
ROOM_NEEDED_BYTES: Final = 256 * MIB
MEMORY_NEEDED_BYTES: Final = 2048 * MIB


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that Spark needs."""

    what: str
    found: str
    advice: str = ""
    """What to do about it; "" if it is good as it is."""
    is_fatal: bool = True
    """Whether Spark cannot run like that."""

    @property
    def is_good(self) -> bool:
        return not self.advice


def examine(environ: Mapping[str, str], places: tuple[str, ...] = SYSTEM_PLACES) -> list[Finding]:
    """Everything that Spark needs, and how it is here."""
    return [
        _python(),
        *_packages(),
        _java(environ, places),
        _shell(environ),
        _room(environ),
        *_memory(Path("/proc/meminfo")),
        *_surroundings(environ),
    ]


def try_out() -> Finding:
    """Start a session and let a worker of it compute something: some ten seconds."""
    from ottla.spark.session import borrowed_session

    with tempfile.TemporaryDirectory(prefix="ottla-doctor-") as folder:
        log_file = Path(folder) / "spark.log"
        try:
            with borrowed_session(name="ottla-doctor", master="local[1]", log_file=log_file) as s:
                count = s.range(1_000).mapInArrow(lambda batches: batches, "id long").count()
        except OttlaError as error:
            return Finding("a session", str(error), "what it says must be mended first")
    return Finding("a session", f"started, and a Python worker returned {count:,} rows")


def release_of(package: str) -> tuple[int, ...] | None:
    """The version of an installed package as numbers: (4, 3, 0)."""
    try:
        text = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    return tuple(int(part) for part in text.split(".") if part.isdecimal())


def _python() -> Finding:
    return Finding("Python", f"{sys.version.split()[0]}, {sys.executable}")


def _packages() -> Iterator[Finding]:
    yield package_finding("pyspark", release_of("pyspark"), OLDEST_PYSPARK, NEWEST_PYSPARK)
    yield package_finding("pyarrow", release_of("pyarrow"), OLDEST_PYARROW)


def package_finding(
    name: str,
    release: tuple[int, ...] | None,
    oldest: tuple[int, ...],
    newest: tuple[int, ...] | None = None,
) -> Finding:
    """What is to say about an installed package, or one that is not."""
    if release is None:
        return Finding(name, "not installed", INSTALL)
    shown = ".".join(map(str, release))
    if release < oldest:
        needed = ".".join(map(str, oldest))
        return Finding(name, f"{shown}, and {needed} is the oldest that works", INSTALL)
    if newest is not None and release[: len(newest)] > newest:
        tested = ".".join(map(str, newest))
        advice = f"it may well work; pip install '{name}=={tested}.*' is what the tests use"
        return Finding(name, f"{shown}, newer than what we know", advice, is_fatal=False)
    return Finding(name, shown)


def _java(environ: Mapping[str, str], places: tuple[str, ...]) -> Finding:
    try:
        java = find_java(environ, places)
    except JavaMissingError as error:
        return Finding("Java", str(error), HOW_TO_GET)
    return Finding("Java", f"{java.major}, {java.home} ({java.origin})")


def _shell(environ: Mapping[str, str]) -> Finding:
    found = shutil.which("bash", path=environ.get("PATH", ""))
    if found is None:
        return Finding("bash", "not found; Spark starts with it", "install bash")
    return Finding("bash", found)


def _room(environ: Mapping[str, str]) -> Finding:
    """Spark shuffles through files in its local folder."""
    folder = environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).partition(",")[0]
    try:
        free_bytes = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding("local folder", str(error), "let SPARK_LOCAL_DIRS name one that exists")
    shown = f"{folder}, {free_bytes // MIB:,} MiB free"
    if not os.access(folder, os.W_OK):
        return Finding(
            "local folder", f"{folder} cannot be written to", "let SPARK_LOCAL_DIRS name another"
        )
    if free_bytes < ROOM_NEEDED_BYTES:
        return Finding(
            "local folder", shown, "free some room, or let SPARK_LOCAL_DIRS name another"
        )
    return Finding("local folder", shown)


def _memory(meminfo: Path) -> Iterator[Finding]:
    """What is free, where the system says so: Java and the workers take about 2 GiB."""
    if not meminfo.is_file():
        return
    for line in meminfo.read_text("ascii").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            free_bytes = int(rest.split()[0]) * 1024
            shown = f"{free_bytes // MIB:,} MiB available"
            tight = free_bytes < MEMORY_NEEDED_BYTES
            advice = "a small session takes about 2 GiB; stop something else" if tight else ""
            yield Finding("memory", shown, advice, is_fatal=False)


def _surroundings(environ: Mapping[str, str]) -> Iterator[Finding]:
    """What the environment decides for us."""
    if home := environ.get("SPARK_HOME"):
        yield Finding(
            "SPARK_HOME",
            f"{home}: this Spark is used, not the one of pip",
            "unset SPARK_HOME, if that is not what you want",
            is_fatal=False,
        )
    if was_submitted(environ):
        yield Finding("session", "given by spark-submit or SPARK_REMOTE, and used as it is")
    worker = environ.get("PYSPARK_PYTHON")
    if worker and Path(worker).resolve() != Path(sys.executable).resolve():
        yield Finding(
            "PYSPARK_PYTHON",
            f"{worker}: workers run this Python",
            "it must have ottla and pyarrow, too; or unset PYSPARK_PYTHON",
            is_fatal=False,
        )
