"""Accidents on order, for the tests of this package; nothing happens unless they are ordered.

The environment variable names a folder.  A file in it, `<point>@<sink id>`, orders an accident at
that point, once: whoever comes there first takes the file away, and does what stands in it.  With a
number in front of it, so many may pass before.

    raise            an exception
    exit             this Python process ends at once
    kill-driver      `kill -9` of the JVM that started this process
    kill <pid>       `kill -9` of some other process, and go on
    pause            wait until there is a file `<point>@<sink id>.resume`
"""

import os
import signal
import time
from pathlib import Path
from typing import Final

FOLDER_VARIABLE: Final = "OTTLA_SPARK_FAULTS"
REACHED: Final = ".reached"
RESUME: Final = ".resume"
_PAUSE_LIMIT_S: Final = 900
_LOOK_EVERY_S: Final = 0.05


class OrderedError(RuntimeError):
    """The accident that was ordered."""


def are_armed() -> bool:
    """Whether accidents may happen at all."""
    return FOLDER_VARIABLE in os.environ


def at(point: str, sink_id: str) -> None:
    """Here an accident may happen."""
    if (folder := os.environ.get(FOLDER_VARIABLE)) is None:
        return
    order = Path(folder) / f"{point}@{sink_id}"
    taken = order.with_name(f".{order.name}.{os.getpid()}")
    try:
        order.rename(taken)
    except FileNotFoundError:
        return
    what = taken.read_text("utf-8").strip()
    number, _, rest = what.partition(" ")
    if number.isdecimal():
        taken.write_text(rest if number == "1" else f"{int(number) - 1} {rest}", "utf-8")
        taken.rename(order)
        return
    taken.rename(order.with_name(order.name + REACHED))
    _happen(what, order)


def _happen(what: str, order: Path) -> None:
    if what == "raise":
        raise OrderedError(f"ordered: {order.name}")
    if what == "exit":
        os._exit(1)
    if what == "kill-driver":
        os.kill(_driver_pid(), signal.SIGKILL)
        time.sleep(_PAUSE_LIMIT_S)
    elif what.startswith("kill "):
        os.kill(int(what.removeprefix("kill ")), signal.SIGKILL)
    elif what == "pause":
        _wait_for(order.with_name(order.name + RESUME))
    else:
        raise ValueError(f"{order} orders {what!r}, which is no accident")


def _wait_for(path: Path) -> None:
    deadline_s = time.monotonic() + _PAUSE_LIMIT_S
    while not path.exists():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"nobody made {path}")
        time.sleep(_LOOK_EVERY_S)


def _driver_pid() -> int:
    """The nearest ancestor that is a JVM."""
    pid = os.getpid()
    while pid > 1:
        if Path(f"/proc/{pid}/comm").read_text("utf-8").strip() == "java":
            return pid
        pid = int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1])
    raise RuntimeError("no JVM started this process")
