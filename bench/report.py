"""The outcome of races in words: a table that reads well in a terminal and in a page.

Figures without the machine, the versions and the command are hearsay, so these always go along.
"""

import os
import platform
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.harness import ROUND_COUNT, ROUND_NS, Outcome, quartiles

PACKAGES = (
    "ottla",
    "aiokafka",
    "confluent-kafka",
    "kafka-python",
    "crc32c",
    "kio",
    "pyarrow",
    "pyspark",
    "Cython",
)

RACES = {"records": "Record batches", "wire": "Protocol messages"}
HEADINGS = {
    **RACES,
    "broker": "The broker",
    "metrics": "What metrics cost",
    "transactions": "Transactions",
    "groups": "Consumer groups",
    "clients": "Clients",
    "spark": "Spark",
    "spark-sink": "Spark, writing",
    "kafka": "Beside Apache Kafka",
    "load": "Loads beside Apache Kafka",
    "scale": "How cost grows",
}


def table(outcomes: list[Outcome]) -> list[str]:
    """What came of the races of one table."""
    heading: tuple[str, ...] = ("what", "twin", "ours", "peer", "times faster", "target", "")
    return aligned([heading, *map(_row, outcomes)])


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows of a Markdown table, the heading first, which also read well in a terminal."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return lines


def with_quartiles(
    figures: Sequence[float], form: str, unit: str = "", *, is_bold: bool = False
) -> str:
    """The median, and in brackets the quartiles, where there are several: `1.2 (1.1 to 1.3) ms`."""
    middle = format(statistics.median(figures), form)
    middle = f"**{middle}**" if is_bold else middle
    if len(figures) < 2:
        return middle + unit
    low, high = quartiles(figures)
    return f"{middle} ({low:{form}} to {high:{form}}){unit}"


def _row(outcome: Outcome) -> tuple[str, ...]:
    target = "" if outcome.target_ratio is None else f"{outcome.target_ratio:g}"
    if outcome.reason:
        return (outcome.title, outcome.twin, "", "", "", target, f"not run: {outcome.reason}")
    low, high = outcome.quartiles
    verdict = "" if outcome.target_ratio is None else "missed" if outcome.is_missed else "met"
    return (
        outcome.title,
        outcome.twin,
        f"{_duration(outcome.ours_ns)} a {outcome.item} ({outcome.ours})",
        f"{_duration(outcome.peer_ns)} ({outcome.peer})",
        f"**{outcome.ratio:.1f}** ({low:.1f} to {high:.1f})",
        target,
        verdict,
    )


def _duration(nanoseconds: float) -> str:
    if nanoseconds < 1_000:
        return f"{nanoseconds:.0f} ns"
    return f"{nanoseconds / 1_000:.1f} µs" if nanoseconds < 1e6 else f"{nanoseconds / 1e6:.1f} ms"


def circumstances() -> list[str]:
    """The machine, the versions, the method."""
    return [
        machine(),
        f"- packages: {', '.join([*_versions(), *_foreign_versions()])}",
        f"- memory: {_memory()}; file system of what is measured: {_file_system()}",
        f"- method of races: CPU time, {ROUND_COUNT} rounds in turns, each of "
        f"{ROUND_NS // 1_000_000} ms or one run; medians, and in brackets the quartiles of the "
        "rounds",
    ]


def machine() -> str:
    """What times depend on most: the processor, the kernel, the Python."""
    return (
        f"- machine: {_processor()}, {os.cpu_count()} CPUs, {platform.system()} "
        f"{platform.release()}; {platform.python_implementation()} {platform.python_version()}, "
        f"{platform.python_compiler()}, {_build()}"
    )


def _build() -> str:
    """Who built this Python, and how: with profiles (PGO), it runs our code a quarter faster."""
    if "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or ""):
        return "optimized with profiles"
    if sys.base_prefix != "/usr":
        return "not optimized with profiles"
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        return "the system's own build"
    return f"the build of {system['NAME']} {system.get('VERSION_ID', '')}".rstrip()


def _versions() -> list[str]:
    lines = []
    for package in PACKAGES:
        try:
            lines.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            lines.append(f"{package} not installed")
    return lines


@cache
def _foreign_versions() -> list[str]:
    """Of what comes with other packages, or with none."""
    lines = []
    try:
        import confluent_kafka
    except ImportError:
        pass  # which the packages say
    else:
        lines.append(f"librdkafka {confluent_kafka.libversion()[0]}")
    if (java := shutil.which("java")) is None:
        return [*lines, "no Java"]
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    return [*lines, f"Java {said.partition(chr(34))[2].partition(chr(34))[0] or 'of no version'}"]


def _memory() -> str:
    if not hasattr(os, "sysconf"):
        return "unknown"
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB"


def _file_system() -> str:
    """Of the folder for temporary files, where brokers have their data."""
    folder, best = tempfile.gettempdir(), ("", "unknown")
    mounts = Path("/proc/mounts")
    for line in mounts.read_text("utf-8").splitlines() if mounts.exists() else ():
        _, place, kind, *_ = line.split()
        if Path(folder).is_relative_to(place) and len(place) >= len(best[0]):
            best = place, kind
    return best[1]


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
