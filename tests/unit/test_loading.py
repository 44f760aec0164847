"""What a start leaves out: all of it comes later, little by little, when nobody is waiting."""

import asyncio
import pkgutil
import random
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from itertools import count
from pathlib import Path

import pytest

from ottla.broker.dispatch import SERVED
from ottla.broker.loading import PATIENCE_S, PAUSE_S, left_out, load
from ottla.testing.loop import SimLoop

MOST_AT_A_TIME = 1
"""How many modules an import may bring beside its own; packages, which are a name, not counted."""

PROGRAM = """
import sys
from importlib import import_module

import ottla.broker.embedded
from ottla.broker.dispatch import load_handler
from ottla.broker.loading import left_out
from ottla.wire.registry import ApiKey

for key in (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE):
    load_handler(key)
known = set(sys.modules)
for name in left_out():
    import_module(name)
    brought = [n for n in sys.modules if n not in known and not hasattr(sys.modules[n], "__path__")]
    known |= set(sys.modules)
    print(name, *(n for n in brought if n.startswith("ottla.") and n != name))
"""


def test_one_import_hardly_ever_brings_another() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True
    )
    steps = [line.split() for line in done.stdout.splitlines()]
    assert steps
    for name, *brought in steps:
        assert len(brought) <= MOST_AT_A_TIME, f"put them before {name}: {brought}"


@pytest.mark.parametrize(
    "package",
    [
        "ottla.coordinator.group",
        "ottla.coordinator.group.consumer",
        "ottla.coordinator.txn",
        "ottla.broker.handlers",
    ],
)
def test_nothing_of_a_package_is_forgotten(package: str) -> None:
    path = import_module(package).__path__
    inside = {f"{package}.{found.name}" for found in pkgutil.iter_modules(path) if not found.ispkg}
    assert inside <= set(left_out())


def test_what_is_loaded_later_can_be_loaded() -> None:
    names = list(left_out())
    for name in names:
        import_module(name)
    assert {f"ottla.broker.handlers.{key.name.lower()}" for key in SERVED} <= set(names)


def loading_s(folder: Path, names: list[str], request_count: Callable[[], int]) -> float:
    """How long it took, in virtual time, to load modules that nobody has loaded yet."""
    for name in names:
        (folder / f"{name}.py").write_text("")
    loop = SimLoop(random.Random(1))

    async def run() -> float:
        before_s = loop.time()
        await load(names, request_count)
        return loop.time() - before_s

    try:
        return loop.run_until_complete(run())
    finally:
        loop.close()
        assert set(names) <= set(sys.modules)
        for name in names:
            del sys.modules[name]


def test_a_module_is_loaded_in_a_quiet_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    taken_s = loading_s(tmp_path, ["left_out_a", "left_out_b"], lambda: 7)
    assert taken_s == pytest.approx(2 * PAUSE_S)


def test_a_busy_broker_loads_seldom_but_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    taken_s = loading_s(tmp_path, ["left_out_a", "left_out_b"], count().__next__)
    assert taken_s == pytest.approx(2 * PATIENCE_S, abs=2 * PAUSE_S)


def test_what_is_there_already_is_not_waited_for() -> None:
    asyncio.run(load(["asyncio", "sys"], lambda: pytest.fail("nobody need be asked")))


CROWDED = """
import asyncio, os, random, resource, sys

from ottla.cli.serving import load_the_rest
from ottla.testing.loop import SimLoop

async def run():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []
    try:
        while True: taken.append(os.dup(0))
    except OSError: pass
    loading = asyncio.ensure_future(load_the_rest(lambda: 0))
    await asyncio.sleep(60)
    loaded = "ottla.coordinator.group.machine" in sys.modules
    for descriptor in taken:
        os.close(descriptor)
    await loading
    print(loaded, "ottla.coordinator.group.machine" in sys.modules)

SimLoop(random.Random(1)).run_until_complete(run())
"""


def test_what_cannot_be_opened_is_loaded_later() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CROWDED], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == ["False", "True"]


LEAN = """
import sys
from ottla.runtime.lean import import_asyncio, load_put_off, put_off

put_off()
import_asyncio()
import dataclasses, logging, traceback
print(*({"ast", "dis", "token"} & set(sys.modules)))

import inspect
assert not hasattr(inspect, "__path__"), "who looks at every module does not load it"
print(inspect.signature(lambda told: None))
import inspect
print(inspect.__file__ == sys.modules["inspect"].__file__)

load_put_off()
try:
    raise LookupError("shown with its line")
except LookupError:
    print(traceback.format_exc().splitlines()[-1])
import textwrap, tokenize, locale
print(textwrap.dedent(" x"), tokenize.NAME, locale.getlocale is not None)
"""


def test_what_is_put_off_comes_when_it_is_asked_for() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAN], capture_output=True, text=True, timeout=120, check=True
    )
    early, *told = done.stdout.splitlines()
    # Since then `dataclasses` cannot do without.
    assert early == "" or sys.version_info >= (3, 14)
    assert told == ["(told)", "True", "LookupError: shown with its line", "x 1 True"]


def test_what_was_imported_before_is_not_put_off() -> None:
    program = "import inspect as it\nfrom ottla.runtime.lean import put_off\nput_off()\n"
    program += "import inspect\nassert inspect is it\n"
    subprocess.run([sys.executable, "-c", program], timeout=120, check=True)
