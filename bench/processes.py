"""Servers in processes of their own, and what the kernel says about them.

CPU time is that of the server alone, all of its threads, in user space and in the kernel; what the
load generator costs is not in it.  Servers have their modules compiled and beside the source, as
installed packages do, whatever the environment says about it.
"""

import ctypes
import json
import mmap
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.blast import WrongAnswerError
from bench.contest import Taken

SETTLING_S, RESTING_S, MAX_RESTING_SHARE = 1.0, 0.3, 0.01

START_TIMEOUT_S = 120.0
"""A broker with 10,000 partitions takes a while."""


@dataclass(frozen=True, slots=True)
class Served:
    """A running server."""

    process: "subprocess.Popen[str]"
    port: int
    started_s: float
    """From the start of the process until it said that it listens."""

    @property
    def cpu_ns(self) -> int:
        """What its threads have spent so far."""
        return cpu_ns(self.process.pid)

    @property
    def resident_bytes(self) -> int:
        return resident_bytes(self.process.pid)

    def settle(self) -> None:
        """Wait until it has done what it left for after its first answer, and is at rest."""
        time.sleep(SETTLING_S)
        deadline = time.perf_counter() + START_TIMEOUT_S
        while time.perf_counter() < deadline:
            before_ns = self.cpu_ns
            time.sleep(RESTING_S)
            if self.cpu_ns - before_ns < RESTING_S * MAX_RESTING_SHARE * 1e9:
                return
        raise RuntimeError("the broker does not come to rest")


def cpu_ns(pid: int) -> int:
    """What the threads of a process have spent so far; those that ended are not in it."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks)


def tree_cpu_s(root_pid: int) -> float:
    """What a process and all that it started have spent so far, whether they live or not."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended, and its parent has what it spent
        parents[int(folder.name)] = int(fields[1])
        ticks[int(folder.name)] = sum(int(field) for field in fields[11:15])
    found = [pid for pid in ticks if root_pid in _ancestry(pid, parents)]
    return sum(ticks[pid] for pid in found) / os.sysconf("SC_CLK_TCK")


def _ancestry(pid: int, parents: Mapping[int, int]) -> list[int]:
    line = [pid]
    while line[-1] in parents:
        line.append(parents[line[-1]])
    return line


def resident_bytes(pid: int) -> int:
    """How much memory a process has."""
    return _memory_bytes(pid, "VmRSS")


def peak_bytes(pid: int) -> int:
    """How much memory it had when it had most."""
    return _memory_bytes(pid, "VmHWM")


def _memory_bytes(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"the kernel does not say {name}")


def allow_files(wanted: int) -> None:
    """Broker and load generator need a file for each connection; the broker inherits our limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


@contextmanager
def bare(request_bytes: int, response_bytes: int, folder: str | None = None) -> Iterator[Served]:
    """The bare loopback, and the bare disk if there is a folder; see `bench.bare`."""
    command = [sys.executable, "-m", "bench.bare", str(request_bytes), str(response_bytes)]
    command += [] if folder is None else [folder]
    begin = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            yield Served(process, port, time.perf_counter() - begin)
        finally:
            process.communicate(timeout=START_TIMEOUT_S)


@contextmanager
def broker(
    data_dir: str,
    flush: str,
    settings: Mapping[str, str] | None = None,
    *,
    is_killed: bool = False,
    port: int = 0,
    meanwhile: Callable[[], None] = lambda: None,
) -> Iterator[Served]:
    """`ottla serve`, on a free port by default; stopped in good order, or killed in the end.

    `meanwhile` is called while it starts.
    """
    # The script that `ottla` is, as people start it: `-m` would load what finds modules, besides.
    command = [os.path.join(os.path.dirname(sys.executable), "ottla"), "serve", "-o", "json"]
    command += ["--port", str(port)]
    command += ["--host", "127.0.0.1", "--data-dir", data_dir, "--flush", flush]
    command += [f"-X{name}={value}" for name, value in (settings or {}).items()]
    begin = time.perf_counter()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(),
    ) as process:
        assert process.stdout is not None
        try:
            meanwhile()
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("the broker did not start")
            ready = json.loads(line)
            yield Served(
                process,
                int(ready["bootstrap_servers"].rpartition(":")[2]),
                time.perf_counter() - begin,
            )
        finally:
            if is_killed:
                process.kill()
            else:
                process.terminate()
            _, complaint = process.communicate(timeout=START_TIMEOUT_S)
        if process.returncode and not is_killed:
            raise RuntimeError(f"the broker ended with {process.returncode}: {complaint}")


@contextmanager
def contestant(
    name: str, port: int, topic: str, record_bytes: int
) -> "Iterator[subprocess.Popen[str]]":
    """A client that is timed, once it is connected; see `bench.contestants`."""
    command = [sys.executable, "-m", "bench.contestants", name, str(port), topic, str(record_bytes)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
    ) as process:
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise RuntimeError(f"{name} did not start")
            yield process
        finally:
            process.communicate(timeout=START_TIMEOUT_S)
        if process.returncode:
            raise RuntimeError(f"{name} ended with {process.returncode}")


def round_of(process: "subprocess.Popen[str]", count: int) -> Taken:
    """Have a `contestant` do its work `count` times, and say what that took."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{count}\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise WrongAnswerError(f"a contestant gave up: {process.args!r}")
    return Taken(**json.loads(line))


class Background:
    """A load that runs during a block; see `bench.background`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.written_count = 0
        """In all blocks so far."""

    @contextmanager
    def running(self) -> Iterator[None]:
        self._tell()
        try:
            yield
        finally:
            self.written_count = int(self._tell())

    def _tell(self) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise WrongAnswerError(f"the load gave up: {self._process.args!r}")
        return line


@contextmanager
def background(port: int, topic: str, record_bytes: int, a_second: int) -> Iterator[Background]:
    """Somebody else who writes, so many records a second."""
    command = [sys.executable, "-m", "bench.background", str(port), topic]
    command += [str(record_bytes), str(a_second)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
    ) as process:
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise RuntimeError("the load did not start")
            yield Background(process)
        finally:
            process.communicate(timeout=START_TIMEOUT_S)


def import_s(statement: str) -> float:
    """How long `statement` takes as the first one of a Python of its own."""
    program = "import time; begin = time.perf_counter()\n" + statement
    program += "\nprint(time.perf_counter() - begin)"
    child = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(),
        timeout=START_TIMEOUT_S,
        check=True,
    )
    return float(child.stdout)


@cache
def _environment() -> dict[str, str]:
    """Ours, but for what keeps compiled modules away from where they belong.

    A place of their own for them would cost each import some time, and be used by nobody.
    """
    kept_away = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
    return {name: value for name, value in os.environ.items() if name not in kept_away}


def cached_bytes(descriptor: int) -> int:
    """How much of a file the kernel has in memory."""
    size_bytes = os.fstat(descriptor).st_size
    if not size_bytes:
        return 0
    page_count = -(-size_bytes // mmap.PAGESIZE)
    flags = (ctypes.c_ubyte * page_count)()
    libc = ctypes.CDLL(None, use_errno=True)
    # A private map of it may be written to, which is what ctypes asks of whatever it points at.
    with mmap.mmap(descriptor, size_bytes, access=mmap.ACCESS_COPY) as mapped:
        first = ctypes.c_char.from_buffer(mapped)
        failed = libc.mincore(ctypes.byref(first), ctypes.c_size_t(size_bytes), flags)
        del first  # or the map could not be closed
    if failed:
        raise OSError(ctypes.get_errno(), "the kernel does not say what is in memory")
    return sum(flag & 1 for flag in flags) * mmap.PAGESIZE


def warm_memory(folder: str, size_bytes: int) -> None:
    """Have so much memory ready for files that are about to be written there.

    A virtual machine may have given memory that was free for two seconds back to its host.  To get
    it again takes ten times as long as to write into it, and who writes fastest would be measured
    by that.  Memory that was just freed is given to whoever comes next.
    """
    chunk = bytes(1024 * 1024)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(-(-size_bytes // len(chunk))):
            file.write(chunk)


@contextmanager
def data_dir() -> Iterator[str]:
    """A folder for a broker, removed in the end."""
    folder = tempfile.mkdtemp(prefix="ottla-bench-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
